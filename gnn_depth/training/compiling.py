"""Decide whether compiling the layers saves training time."""

import math
import os
import sys
from collections.abc import Sequence
from shutil import which
from typing import Literal, NamedTuple, TypeAlias

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from gnn_depth.data.base import FullBatch, Repeated
from gnn_depth.nn import native
from gnn_depth.nn.parts import AttentionLayer, GraphDropout, Layer
from gnn_depth.nn.scores import AdditiveScore
from gnn_depth.nn.stack import DeepGNN

# YAML reads an unquoted on or off as a boolean.
Compile: TypeAlias = Literal["auto", "on", "off"] | bool

#: Seconds of a first compilation of a stack, for training and evaluation, on an idle machine.
COMPILE_SECONDS = 21.0
#: Seconds for each size of graph, if layers see graphs of several sizes.
SECONDS_PER_SIZE = 8.0
COMPILERS = ("g++", "clang++")
#: Precisions of Lightning's trainer in which layers see float32 or float64.
WITH_KERNELS = ("32-true", "64-true")


def compile_layers(choice: Compile, stack: DeepGNN, trainer: L.Trainer) -> None:
    """Compile the layers of a training that begins, if requested or worthwhile.

    The decision is printed.
    """
    loader = trainer.train_dataloader
    repeated: Repeated | None = getattr(loader, "repeated", None)
    if repeated is not None and repeated.graph.is_shard:
        if choice in ("on", True):
            raise MisconfigurationException(
                "compile on: a graph that is divided among processes is not compiled for. Choose "
                "compile auto or off."
            )
        decision = Decision(False, "the graph is divided among several processes")
    elif trainer.strategy.root_device.type == "cuda" and choice == "auto":
        decision = Decision(False, "layers run on kernels for GPUs")
        if not uses_kernels(trainer):
            decision = Decision(False, "what compiling saves on a GPU is not known")
    else:
        sizes = None
        if repeated is not None:
            fields = stack.receptive_fields(*repeated)
            sizes = [(graph.num_sources, graph.num_edges) for graph in fields]
        decision = decide(choice, stack, sizes, steps_of(trainer), uses_kernels(trainer))
    if decision.compiled:
        # Other graphs are seen in too few steps for compiling to pay off.
        only = None
        if repeated is not None and not isinstance(loader, FullBatch):
            only = repeated.graph.to(trainer.strategy.root_device)
        stack.compile_layers(only)
    how = "uncompiled"
    if decision.compiled:
        how = "compiled"
    if trainer.progress_bar_callback is not None:
        # Standard output is for results.
        rank_zero_only(print)(f"layers run {how}: {decision.reason}", file=sys.stderr)


def uses_kernels(trainer: L.Trainer) -> bool:
    """True if the layers of a training run on native kernels, which are compiled now if need be."""
    if trainer.precision not in WITH_KERNELS:
        return False
    return native.available_for(trainer.strategy.root_device) is not None


class KernelPath:
    """Which kernels a training uses, from its first step on: a resumed one uses the same.

    Attributes:
        key: The key of the kernels (see :func:`gnn_depth.nn.native.available_for`), or None for
            PyTorch alone; ``UNKNOWN`` before the training begins.
    """

    UNKNOWN = "unknown"

    def __init__(self) -> None:
        self.key: str | None = self.UNKNOWN

    def fix(self, device: torch.device) -> None:
        """Choose the kernels for a device; of a resumed training those of its checkpoint, if they
        are here."""
        before = self.key
        if before is None:
            # It began on PyTorch alone, from which the kernels differ in the last bits.
            native.use(False)
        self.key = native.available_for(device)
        if before in (self.UNKNOWN, self.key):
            return
        said = f"this run began on native kernels {before}, and continues "
        if self.key is None:
            said += f"on PyTorch alone ({native.why_not(device) or 'they are switched off'})"
        else:
            said += f"on {self.key}: another compiler, processor or version of this package"
        rank_zero_only(print)(f"{said}; numbers may differ in their last bits", file=sys.stderr)


def check_choice(choice: Compile, graph_dropout: GraphDropout) -> None:
    """Refuse ``compile: on`` if every step has a different graph."""
    if choice in ("on", True) and graph_dropout.p:
        raise ValueError(
            f"compile on: {type(graph_dropout).__name__} changes the graph in every step, so "
            "layers would be compiled again. Choose compile auto or off, or graph_dropout none."
        )


class Decision(NamedTuple):
    compiled: bool
    reason: str


def decide(
    choice: Compile,
    stack: DeepGNN,
    sizes: Sequence[tuple[int, int]] | None,
    steps: int,
    has_kernels: bool = False,
) -> Decision:
    """Decide whether compiling takes less time than it saves over all training steps.

    Nothing is timed, and the compiler's cache does not count, so the same config on the same data
    always gets the same answer and a run can be repeated to the last bit.

    Args:
        choice: The user's choice.
        stack: The stack.
        sizes: Sources and edges of each layer's graph; None if every batch may have another graph.
        steps: Number of steps; -1 if the training has no end.
        has_kernels: Native kernels compute what uncompiled layers need most time for.
    """
    if choice in ("off", False):
        return Decision(False, "compile is off")
    if choice in ("on", True):
        return Decision(True, "compile is on")
    if stack.graph_dropout.p:
        return Decision(
            False,
            "graph_dropout changes the graph in every step, so layers would be compiled again",
        )
    if has_kernels and not any(map(_has_norms_of_edges, stack.layers)):
        return Decision(False, "native kernels are about as fast, and need no compiling")
    if sizes is None:
        return Decision(
            False, "every batch may have another graph, so layers would be compiled again"
        )
    names = (os.environ.get("CXX") or COMPILERS[0], *COMPILERS)
    if not any(which(name) for name in names):
        return Decision(False, f"no C++ compiler was found ({', '.join(COMPILERS)})")
    saved = 0.0
    for layer, (sources, edges) in zip(stack.layers, sizes, strict=True):
        saved += steps * seconds_saved(layer, sources, edges, has_kernels)  # type: ignore[arg-type]
    # The same for every machine, so that a run can be repeated to the last bit.
    cost = max(COMPILE_SECONDS, SECONDS_PER_SIZE * len(set(sizes)))
    if steps < 0 or saved > cost:
        amount = f"about {saved:.0f} s"
        if steps < 0:
            amount = "time, and the training has no end"
        return Decision(
            True, f"it saves {amount}; compiling takes {cost:.0f} s, less from the cache"
        )
    return Decision(False, f"compiling takes {cost:.0f} s, and would save about {saved:.0f} s")


def _has_norms_of_edges(layer: nn.Module) -> bool:
    """True if score norms compute with a score of every edge in PyTorch, as a plugin's may."""
    return isinstance(layer, AttentionLayer) and not layer.scales_targets


def seconds_saved(layer: Layer, sources: int, edges: int, has_kernels: bool) -> float:
    """Estimate cautiously the seconds that compiling a layer saves in a training step.

    Compiling saves most with score norms, and with scores made of every channel of every edge.
    """
    numbers = sources * layer.width
    if has_kernels and _has_norms_of_edges(layer):
        return 3e-4 + 1e-9 * numbers
    if has_kernels:  # they leave nothing else to compiling
        return 0.0
    if not isinstance(layer, AttentionLayer):
        return 1e-9 * numbers
    saved = 1.2e-4 + 1.6e-9 * numbers
    if layer.score is AdditiveScore:
        saved += 1.5e-9 * edges * layer.width
    if layer.score_norms:
        saved += 8e-4 + 4.5e-9 * numbers
    return saved


def steps_of(trainer: L.Trainer) -> int:
    """Number of training batches; -1 if there is no end.

    Those before a resume count, so that the decision stays the same.
    """
    steps = trainer.estimated_stepping_batches * trainer.accumulate_grad_batches
    if not 0 <= steps < math.inf:
        return -1
    return int(steps)
