"""Activation checkpointing: the backward pass recomputes the activations of a segment of blocks
from its input.

A snapshot of what the computation depends on lets the backward pass repeat it exactly.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gnn_depth.graph import Graph
from gnn_depth.nn.block import Blocks, Hidden, States
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
    if not isinstance(every, int):
        raise ValueError(
            f"checkpoint_every must be a number of layers, sqrt or none, not {every!r}."
        )
    return every


class CheckpointedBlocks(Blocks):
    """Blocks in segments, whose activations the backward pass recomputes.

    Args:
        blocks: The blocks.
        length: Number of blocks of a segment.
    """

    def __init__(self, blocks: Iterable[nn.Module], length: int) -> None:
        super().__init__(blocks)
        self.length = length

    def forward(self, x: Hidden, graphs: Sequence[Graph], states: States) -> Tensor:
        if not torch.is_grad_enabled():
            return super().forward(x, graphs, states)
        kept = states
        # A segment ends in a state that is stored; all between are computed again, backwards.
        # Each segment gets a copy of the states, so recomputing it does not add states twice.
        for start in range(0, len(self), self.length):
            segment = Blocks(list(self)[start : start + self.length])
            snapshot = Snapshot(segment.modules(), graphs[0].device)
            x, kept = checkpoint(
                _run,
                segment,
                x,
                graphs[start : start + self.length],
                kept,
                use_reentrant=False,
                preserve_rng_state=False,  # the snapshot preserves it, and buffers too
                context_fn=snapshot.contexts,
            )
        states.all = kept.all  # for the decoder
        return x


def _run(
    blocks: Blocks, x: Hidden, graphs: Sequence[Graph], states: States
) -> tuple[Tensor, States]:
    """Run blocks without changing the states given, so that running them again does the same."""
    states = replace(states, all=list(states.all))  # a copy of the list, not of the tensors
    return blocks(x, graphs, states), states


class Snapshot:
    """The current random number generators, buffers and autocast mode, to be restored for a while.

    It holds the buffers of modules in training mode, which batch norms and power iterations change.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device) -> None:
        self.device = device
        self.buffers: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
        for module in modules:
            if not module.training:
                continue
            for name, buffer in module._buffers.items():
                if buffer is not None:  # such as the running averages of a norm without any
                    self.buffers.append((module._buffers, name, buffer.clone()))
        self.random = torch.get_rng_state()
        if device.type != "cpu":
            self.random_of_device = torch.get_device_module(device).get_rng_state(device)
        self.autocast = torch.is_autocast_enabled(device.type)
        self.autocast_dtype = torch.get_autocast_dtype(device.type)

    def contexts(self) -> tuple[nullcontext[None], "Snapshot"]:
        """The contexts of the first and of the second computation."""
        return nullcontext(), self

    # A second backward pass, as with retain_graph, enters it again.
    def __enter__(self) -> None:
        self._left = left = ExitStack()  # undoes everything in reverse order
        kind = self.device.type
        devices = []
        if kind != "cpu":  # the state of the CPU is kept in any case
            devices.append(self.device)
        left.enter_context(torch.random.fork_rng(devices, device_type=kind))
        left.enter_context(torch.autocast(kind, self.autocast_dtype, self.autocast))
        torch.set_rng_state(self.random)
        if devices:
            torch.get_device_module(self.device).set_rng_state(self.random_of_device, self.device)
        # Tensors are replaced, not overwritten: autograd may have saved them.
        for buffers, name, buffer in self.buffers:
            left.callback(buffers.__setitem__, name, buffers[name])
            buffers[name] = buffer.clone()

    def __exit__(self, *error: Any) -> None:
        self._left.close()
