"""Decide whether compiling the layers saves training time."""

import math
import os
import sys
from collections.abc import Sequence
from shutil import which
from typing import Literal, NamedTuple, TypeAlias

import lightning as L
from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.data.base import FullBatch, Repeated
from gnn_depth.nn.parts import GraphDropout, Layer
from gnn_depth.nn.stack import DeepGNN

# YAML reads an unquoted on or off as a boolean.
Compile: TypeAlias = Literal["auto", "on", "off"] | bool

#: Seconds to compile a stack for training and evaluation with an empty cache.
COST = 30.0
#: Seconds to compile it for training on each size of graph, if layers see graphs of several sizes.
COST_OF_SIZE = 8.0
COMPILERS = ("g++", "clang++", "cl")


def compile_layers(choice: Compile, stack: DeepGNN, trainer: L.Trainer) -> None:
    """Compile the layers of a training that is about to start, if requested or worthwhile, and log the decision."""
    loader = trainer.train_dataloader
    repeated: Repeated | None = getattr(loader, "repeated", None)
    if repeated is not None and repeated.graph.is_shard:
        decision = Decision(False, "the graph is divided among several processes")
    else:
        sizes = None
        if repeated is not None:
            sizes = [Size(graph.num_sources, graph.num_edges) for graph in stack.receptive_fields(*repeated)]
        decision = decide(choice, stack, sizes, steps_of(trainer))
    if decision.compiled:
        # Graphs other than the repeated one appear in too few steps for compiling to pay off.
        only = None if repeated is None or isinstance(loader, FullBatch) else repeated.graph
        stack.compile_layers(only and only.to(trainer.strategy.root_device))
    how = "compiled" if decision.compiled else "uncompiled"
    rank_zero_only(print)(f"layers run {how}: {decision.reason}", file=sys.stderr)


def check_choice(choice: Compile, graph_dropout: GraphDropout) -> None:
    """Refuse ``compile: on`` if every step has a different graph.

    Raises:
        ValueError: Compiling was requested.
    """
    if choice in ("on", True) and graph_dropout.p:
        raise ValueError(
            f"compile on: {type(graph_dropout).__name__} gives every step another graph, so layers would be compiled "
            "again. Choose compile auto or off, or graph_dropout none."
        )


class Size(NamedTuple):
    """Size of the graph of a layer; its nodes include all sources."""

    nodes: int
    edges: int


class Decision(NamedTuple):
    """The decision to compile the layers or not, with its reason."""

    compiled: bool
    reason: str


def decide(choice: Compile, stack: DeepGNN, sizes: Sequence[Size] | None, steps: int) -> Decision:
    """Decide whether compiling takes less time than it saves over all training steps.

    Nothing is timed, and the compiler's cache does not count, so the same config on the same data always gets the same
    answer and a run can be repeated to the last bit.

    Each layer estimates its own saving from the size of its graph; there are no sizes if every batch may have another
    graph. The number of steps is -1 if the training has no end.
    """
    if choice in ("off", False):
        return Decision(False, "compile is off")
    if choice in ("on", True):
        return Decision(True, "compile is on")
    if stack.graph_dropout.p:
        return Decision(False, "graph_dropout gives every step another graph, so layers would be compiled again")
    if sizes is None:
        return Decision(False, "every batch may have another graph, so layers would be compiled again")
    if not any(which(name) for name in (os.environ.get("CXX") or COMPILERS[0], *COMPILERS)):
        return Decision(False, f"no C++ compiler was found ({', '.join(COMPILERS)})")
    layers = zip(stack.layers, sizes, strict=True)
    saved = sum(layer.compile_saving(*size) for layer, size in layers if isinstance(layer, Layer)) * steps
    cost = max(COST, COST_OF_SIZE * len(set(sizes)))
    if steps < 0 or saved > cost:
        amount = "much time" if steps < 0 else f"about {saved:.0f} s"
        return Decision(True, f"it saves {amount}, and compiling takes {cost:.0f} s, less the next time")
    return Decision(False, f"compiling takes {cost:.0f} s, and would save about {saved:.0f} s")


def steps_of(trainer: L.Trainer) -> int:
    """Number of training batches, counting those before a resume so that the decision stays the same; -1: no end."""
    epochs = -1 if trainer.max_epochs is None else trainer.max_epochs
    ends = [trainer.max_steps, epochs * trainer.num_training_batches]  # an endless loader has infinitely many
    return min((int(end) for end in ends if 0 <= end < math.inf), default=-1)
