"""Whether a training's layers are worth compiling."""

import math
import os
from collections.abc import Sequence
from shutil import which
from typing import Literal, NamedTuple, TypeAlias

import lightning as L
from lightning.pytorch.utilities import rank_zero_info

from gnn_depth.data.base import FullBatch, Repeated
from gnn_depth.nn.parts import GraphDropout, Layer
from gnn_depth.nn.stack import DeepGNN

# YAML reads an unquoted on or off as a boolean.
Compile: TypeAlias = Literal["auto", "on", "off"] | bool

#: Seconds to compile a stack with an empty cache, for training and evaluation; 26 measured for GAT with LipschitzNorm.
COST = 30.0
#: The same for each size of graph, where layers have several, and for training; 8 measured for GAT on trees.
COST_OF_ROUND = 8.0
COMPILERS = ("g++", "clang++", "cl")


def compile_layers(choice: Compile, stack: DeepGNN, trainer: L.Trainer) -> None:
    """Compile the layers of a training that is about to start, if it was asked for or is worth it, and say which."""
    loader = trainer.train_dataloader
    repeated: Repeated | None = getattr(loader, "repeated", None)
    decision = decide(choice, stack, repeated and _sizes(stack, repeated), steps_of(trainer))
    if decision.compiled:
        # Of other graphs beside the one that repeats there are too few steps for the time that it takes.
        only = None if repeated is None or isinstance(loader, FullBatch) else repeated.graph
        stack.compile_layers(only and only.to(trainer.strategy.root_device))
    rank_zero_info(f"layers run {'compiled' if decision.compiled else 'uncompiled'}: {decision.reason}")


def check_choice(choice: Compile, graph_dropout: GraphDropout) -> None:
    """Refuse to compile where every step has another graph.

    Raises:
        ValueError: It was asked for.
    """
    if choice in ("on", True) and graph_dropout.p:
        raise ValueError(
            f"compile on: {type(graph_dropout).__name__} gives every step another graph, and layers would be compiled "
            "anew for each: take compile auto or off, or graph_dropout none."
        )


class Size(NamedTuple):
    """How large the graph of a layer is, its sources counted."""

    nodes: int
    edges: int


def _sizes(stack: DeepGNN, repeated: Repeated) -> list[Size]:
    return [Size(graph.num_sources, graph.num_edges) for graph in stack.receptive_fields(*repeated)]


class Decision(NamedTuple):
    """Whether the layers are compiled, and why."""

    compiled: bool
    reason: str


def decide(choice: Compile, stack: DeepGNN, sizes: Sequence[Size] | None, steps: int) -> Decision:
    """Weigh the time of compiling against the steps of a training.

    The same config on the same data always gets the same answer, so that a run can be repeated to the last bit:
    nothing is timed, and what lies in the cache does not count.

    Args:
        choice: ``on`` and ``off`` decide at once.
        stack: Its layers are counted.
        sizes: Of the graph of each layer; None where batches may be of other graphs each time.
        steps: Steps of the training; -1 for no end.
    """
    if choice in ("off", False):
        return Decision(False, "compile is off")
    if choice in ("on", True):
        return Decision(True, "compile is on")
    if stack.graph_dropout.p:
        return Decision(False, "every step drops something else of the graph, and layers would be compiled anew")
    if sizes is None:
        return Decision(False, "batches may be of other graphs each time, and would be compiled anew")
    if not any(which(name) for name in (os.environ.get("CXX") or COMPILERS[0], *COMPILERS)):
        return Decision(False, f"there is no C++ compiler here ({', '.join(COMPILERS)})")
    layers = zip(stack.layers, sizes, strict=True)
    saved = sum(layer.compile_saving(*size) for layer, size in layers if isinstance(layer, Layer)) * steps
    cost = max(COST, COST_OF_ROUND * len(set(sizes)))
    if steps < 0 or saved > cost:
        amount = "much" if steps < 0 else f"about {saved:.0f} s"
        return Decision(True, f"saves {amount} for {cost:.0f} s of compiling, less when run again")
    return Decision(False, f"compiling takes {cost:.0f} s, to save about {saved:.0f} s")


def steps_of(trainer: L.Trainer) -> int:
    """Batches of a whole training, those before a resume too, so that it goes on as it began; -1 for no end."""
    epochs = -1 if trainer.max_epochs is None else trainer.max_epochs
    ends = [trainer.max_steps, epochs * trainer.num_training_batches]  # an endless loader has infinitely many
    return min((int(end) for end in ends if 0 <= end < math.inf), default=-1)
