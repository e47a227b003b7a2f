"""Activation checkpointing: the backward pass recomputes the activations of a segment of blocks
from its input.

A snapshot of what the computation depends on lets the backward pass repeat it exactly.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gnn_depth.graph import Graph
from gnn_depth.nn.block import Flow
from gnn_depth.ranges import Count

CheckpointEvery: TypeAlias = Count | Literal["sqrt", "none"]


def segment_length(every: CheckpointEvery, num_layers: int) -> int:
    r"""The number of blocks of a segment; 0 if all activations are kept.

    With segments of k blocks, a pass stores the inputs of :math:`L/k` segments and, in the backward
    pass, the activations of k blocks. Memory is smallest for k of the order of :math:`\sqrt L`.
    Chen et al., *Training Deep Nets with Sublinear Memory Cost*, 2016.
    """
    if every == "none":
        return 0
    if every == "sqrt":
        return math.ceil(math.sqrt(num_layers))
    if isinstance(every, bool) or not isinstance(every, int):
        raise ValueError(
            f"checkpoint_every must be a number of layers, sqrt or none, not {every!r}."
        )
    return every


def checkpointed(
    blocks: Sequence[Any],
    flow: Flow,
    graphs: Sequence[Graph],
    run: Callable[..., Any] | None,
    length: int,
) -> Flow:
    """Run all blocks in segments of so many blocks, which the backward pass recomputes."""

    def segment(flow: Flow, start: int) -> Flow:
        for position in range(start, min(start + length, len(blocks))):
            flow = blocks[position](flow, graphs[position], run)
        return flow

    for start in range(0, len(blocks), length):
        modules = [module for block in blocks[start : start + length] for module in block.modules()]
        flow = recomputed(segment, modules, graphs[0], flow, start)
    return flow


def recomputed(
    function: Callable[..., Any], modules: Sequence[Any], graph: Graph, *args: Any
) -> Any:
    """Call a function whose activations the backward pass recomputes, on the modules that it calls
    and a graph."""
    snapshot = Snapshot(modules, graph.device)
    return checkpoint(
        function,
        *args,
        use_reentrant=False,
        preserve_rng_state=False,  # the snapshot preserves it, and buffers too
        context_fn=lambda: (nullcontext(), snapshot()),
    )


class Snapshot:
    """The current random number generators, buffers and autocast mode; a call restores them
    temporarily.

    It holds the buffers of modules in training mode, which batch norms and power iterations change.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device) -> None:
        self.device = device
        self._buffers = [
            (module, name, buffer.clone())
            for module in modules
            if module.training and module._buffers
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        self._random = [
            torch.get_rng_state(),
            *([] if self._on_cpu else [self._of_device().get_rng_state(device)]),
        ]
        kind = device.type
        self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with ExitStack() as stack:
            devices = [] if self._on_cpu else [self.device]
            # fork_rng keeps the CPU's state anyway
            kind = "cuda" if self._on_cpu else self.device.type
            stack.enter_context(torch.random.fork_rng(devices, device_type=kind))
            torch.set_rng_state(self._random[0])
            if not self._on_cpu:
                self._of_device().set_rng_state(self._random[1], self.device)
            enabled, dtype = self._autocast
            stack.enter_context(torch.autocast(self.device.type, dtype, enabled))
            stack.enter_context(self._with_buffers())
            yield

    @contextmanager
    def _with_buffers(self) -> Iterator[None]:
        # Tensors are replaced, not overwritten: autograd may have saved them.
        now = [(module, name, module._buffers[name]) for module, name, _ in self._buffers]
        try:
            for module, name, buffer in self._buffers:
                module._buffers[name] = buffer.clone()
            yield
        finally:
            for module, name, current in now:
                module._buffers[name] = current

    @property
    def _on_cpu(self) -> bool:
        return self.device.type == "cpu"

    def _of_device(self) -> Any:
        return torch.get_device_module(self.device)
