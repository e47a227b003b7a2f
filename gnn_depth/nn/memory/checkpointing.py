"""Activation checkpointing: the backward pass recomputes the activations of a segment of blocks from its input."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias

from torch.utils.checkpoint import checkpoint

from gnn_depth.graph import Graph
from gnn_depth.nn.block import Flow
from gnn_depth.nn.memory.snapshot import Snapshot
from gnn_depth.ranges import Count

CheckpointEvery: TypeAlias = Count | Literal["sqrt", "none"]


def segment_length(every: CheckpointEvery, num_layers: int) -> int:
    r"""The number of blocks of a segment; 0 if all activations are kept.

    With segments of k blocks, a pass stores the inputs of :math:`L/k` segments and, in the backward pass, the
    activations of k blocks. Memory is smallest for k of the order of :math:`\sqrt L`. Chen et al., *Training Deep Nets
    with Sublinear Memory Cost*, 2016.

    Raises:
        ValueError: It is neither a whole number nor ``sqrt`` or ``none``.
    """
    if every == "none":
        return 0
    if every == "sqrt":
        return math.ceil(math.sqrt(num_layers))
    if isinstance(every, bool) or not isinstance(every, int):
        raise ValueError(f"checkpoint_every must be a number of layers, sqrt or none, not {every!r}.")
    return every


def checkpointed(
    blocks: Sequence[Any], flow: Flow, graphs: Sequence[Graph], run: Callable[..., Any] | None, length: int
) -> Flow:
    """Run all blocks in segments that the backward pass recomputes.

    Args:
        blocks: The blocks.
        flow: The input of the first block.
        graphs: The graph of each.
        run: The compiled form of their tensor operations, if there is one.
        length: Blocks per segment.
    """

    def segment(flow: Flow, start: int) -> Flow:
        for position in range(start, min(start + length, len(blocks))):
            flow = blocks[position](flow, graphs[position], run)
        return flow

    for start in range(0, len(blocks), length):
        modules = [module for block in blocks[start : start + length] for module in block.modules()]
        flow = recomputed(segment, modules, graphs[0], flow, start)
    return flow


def recomputed(function: Callable[..., Any], modules: Sequence[Any], graph: Graph, *args: Any) -> Any:
    """Call a function whose activations the backward pass recomputes.

    Args:
        function: The function.
        modules: The modules that it calls, including submodules.
        graph: A graph on the device of the computation.
        args: Its arguments.
    """
    snapshot = Snapshot(modules, graph.device)
    return checkpoint(
        function,
        *args,
        use_reentrant=False,
        preserve_rng_state=False,  # the snapshot preserves it, and buffers too
        context_fn=lambda: (nullcontext(), snapshot()),
    )
