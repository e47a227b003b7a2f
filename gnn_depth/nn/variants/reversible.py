r"""Reversible stacks: each block changes one group of channels, and the backward pass recomputes
the states.

The channels are split into C groups, and block l changes group :math:`i = l \bmod C`:

.. math:: x_i \leftarrow x_i + F_l(z), \quad
    z = \sum_{j \ne i} x_j \; (i = 0), \qquad z = x_{i - 1} \; (i > 0)

Before the block the group was :math:`x_i - F_l(z)`, and z is still known. So only the last state is
stored, at any depth. C of our blocks are one block of Li, Müller, Ghanem & Koltun, *Training Graph
Neural Networks with 1000 Layers*, ICML 2021 (RevGNN). They apply norm and activation before a
layer; here both follow it, as in all our stacks.
"""

import logging
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from gnn_depth.graph import Graph
from gnn_depth.nn.block import Block, Blocks, States
from gnn_depth.nn.parts import declaring
from gnn_depth.nn.variants.checkpoint import CheckpointedBlocks, Snapshot, segment_length
from gnn_depth.torch_internals import has_hooks

log = logging.getLogger("gnn_depth")

#: Largest relative error of the recomputed first state for which gradients are trusted.
LARGEST_ERROR = 1e-2
TINY = 1e-30


def group_width(hidden_channels: int, groups: int) -> int:
    """Width of one group of channels; 0 groups mean that the stack is not reversible."""
    if groups == 0:
        return hidden_channels
    if groups < 2 or hidden_channels % groups:
        raise ValueError(
            f"reversible is {groups}: it must be at least 2 groups of channels that divide "
            f"hidden_channels, {hidden_channels}, or 0 for none."
        )
    return hidden_channels // groups


def make_reversible(stack: Any) -> None:
    """Make the blocks of a stack reversible, in place.

    Raises:
        ValueError: They cannot be inverted.
    """
    invertible = " or ".join(declaring("skip", "invertible"))
    skips = list(stack.skips)
    reason = ""
    if isinstance(stack.encoder, nn.Identity):
        reason = "needs an encoder, whose output it splits: use encoder linear"
    elif not isinstance(stack.decoder, nn.Linear):
        reason = "needs a decoder: use decoder linear"
    elif not all(skip.invertible and not skip.carries for skip in skips):
        reason = f"needs a skip connection that adds to the layer's input: use {invertible}"
    elif any(skip.weight_chain().incoming for skip in skips):
        reason = (
            "needs layers with as many output as input channels: with several heads use split_heads"
        )
    elif any(layer.reads_first for layer in stack.layers):
        reason = "has no first state for layers that read it"
    elif stack.norm_after_skip:
        reason = "cannot invert norms after the skip connection: use norm_after_skip false"
    elif stack.jump != "last":
        reason = f"keeps no states for jump {stack.jump}: use last"
    elif stack.segment_length:
        reason = "keeps nothing that checkpoint_every could save: use none"
    if reason:
        raise ValueError(f"a reversible stack {reason}.")
    count = stack.reversible
    turns = enumerate(stack.blocks)
    stack.blocks = ReversibleBlocks(
        ReversibleBlock(block, at % count, count) for at, block in turns
    )


class ReversibleBlock(Block):
    """A block that changes one group of channels of the hidden state.

    Args:
        block: The block whose parts it uses; they have the width of one group.
        turn: Number of the group that it changes.
        groups: Number of groups.
    """

    def __init__(self, block: Block, turn: int, groups: int) -> None:
        parts = block.layer, block.norms, block.activation, block.skip, block.norms_after_skip
        super().__init__(*parts, block.dropout)
        self.turn = turn
        self.groups = groups
        #: The groups that the block reads.
        self.reads = [turn - 1] if turn else range(1, groups)

    def forward(self, x: Tensor, graph: Graph, states: States) -> Tensor:
        groups = list(x.chunk(self.groups, 1))
        self.step(groups, graph)
        return torch.cat(groups, 1)

    def step(self, groups: list[Tensor], graph: Graph) -> None:
        """Turn the groups before this block, in place, into those after it."""
        groups[self.turn] = groups[self.turn] + self.change(self.read(groups), graph)

    def read(self, groups: Sequence[Tensor]) -> Tensor:
        """The layer's input z."""
        # Not sum(), which would add the first group to zero.
        return reduce(torch.add, [groups[each] for each in self.reads])

    def change(self, z: Tensor, graph: Graph) -> Tensor:
        """The update F(z), which the skip connection adds to its input."""
        update = self.update(z, graph, None)
        added: Tensor = self.skip(update, [torch.zeros_like(z)], graph)
        return added

    def undo(
        self,
        groups: list[Tensor],
        grads: list[Tensor],
        of_parameters: dict[Tensor, Tensor],
        graph: Graph,
    ) -> None:
        """Turn the groups after this block and their gradients, in place, into those before it.

        The gradients of the block's parameters are added to ``of_parameters``.
        """
        # The other groups are as they were before the block, and so z is the same.
        z = self.read(groups).detach().requires_grad_()
        with torch.enable_grad():
            change = self.change(z, graph)
        groups[self.turn] = groups[self.turn] - change.detach()
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        grad = grads[self.turn].to(change.dtype)
        of_z, *found = torch.autograd.grad(change, [z, *parameters], grad, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is None:
                continue
            if parameter in of_parameters:  # a shared layer has had its turn at a later position
                gradient = of_parameters[parameter] + gradient
            of_parameters[parameter] = gradient
        if of_z is None:  # the layer does not read its input
            return
        # z is a sum of the groups that are read: each of them gets its gradient.
        for group in self.reads:
            grads[group] = grads[group] + of_z


class ReversibleBlocks(Blocks):
    """Reversible blocks; for gradients only the first and the last state are kept.

    If modules have hooks, which need states and their gradients, the pass is checkpointed instead.
    """

    takes_prefixes = False  # a block needs the other groups' channels of every node

    def forward(self, x: Tensor, graphs: Sequence[Graph], states: States) -> Tensor:
        if not torch.is_grad_enabled():
            return super().forward(x, graphs, states)
        if any(map(has_hooks, self.modules())):  # a segment is recomputed with autograd
            kept = CheckpointedBlocks(self, segment_length("sqrt", len(self)))
            return kept(x, graphs, states)
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return _Reversible.apply(list(self), graphs, x, *trained)  # type: ignore[no-untyped-call]


class _Reversible(Function):
    @staticmethod
    def forward(
        ctx: Any,
        blocks: Sequence[ReversibleBlock],
        graphs: Sequence[Graph],
        x: Float[Tensor, "nodes _"],
        *parameters: Tensor,
    ) -> Tensor:
        groups = list(x.chunk(blocks[0].groups, 1))
        snapshots: list[Snapshot] = []  # so that the backward pass repeats dropout and averages
        for block, graph in zip(blocks, graphs, strict=True):
            snapshots.append(Snapshot(block.modules(), x.device))
            block.step(groups, graph)
        out = torch.cat(groups, 1)
        ctx.save_for_backward(x, out)
        ctx.blocks, ctx.graphs = blocks, graphs
        ctx.parameters, ctx.snapshots = parameters, snapshots
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out = ctx.saved_tensors
        count = ctx.blocks[0].groups
        groups, gradients = list(out.chunk(count, 1)), list(grads[0].chunk(count, 1))
        of_parameters: dict[Tensor, Tensor] = {}
        for position in reversed(range(len(ctx.blocks))):
            with ctx.snapshots[position]:
                ctx.blocks[position].undo(groups, gradients, of_parameters, ctx.graphs[position])
        error = float((torch.cat(groups, 1) - x).norm() / x.norm().clamp_min(TINY))
        if not error <= LARGEST_ERROR:  # so written that NaN warns too
            log.warning(
                "reversible: the recomputed first state has a relative error of %.1e, and "
                "gradients are inexact: states grow too much to be inverted. Use a norm, a smaller "
                "bound of weights, or checkpoint_every sqrt.",
                error,
            )
        found = [of_parameters.get(parameter) for parameter in ctx.parameters]
        return None, None, torch.cat(gradients, 1), *found
