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
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from gnn_depth.graph import Graph
from gnn_depth.nn.block import Block
from gnn_depth.nn.compile.compiled import has_hooks
from gnn_depth.nn.memory.checkpointing import Snapshot, recomputed, segment_length
from gnn_depth.registry import registered

log = logging.getLogger("gnn_depth")

#: Largest relative error of the recomputed first state for which gradients are trusted.
LARGEST_ERROR = 1e-2


def group_width(hidden_channels: int, groups: int) -> int:
    """Width of one group of channels; 0 groups mean that the stack is not reversible."""
    if groups == 0:
        return hidden_channels
    if groups < 2:
        raise ValueError(
            f"reversible must be at least 2 groups of channels, or 0 for none, not {groups}."
        )
    if hidden_channels % groups:
        raise ValueError(
            f"reversible: {groups} groups do not divide hidden_channels, {hidden_channels}: use "
            "another number of "
            f"groups, or a width of {-(-hidden_channels // groups) * groups}."
        )
    return hidden_channels // groups


def check_reversible(stack: Any, checkpointed: bool) -> None:
    """Check that the blocks of a reversible stack can be inverted."""
    if not stack.reversible:
        return
    known: dict[str, Any] = registered("skip")
    invertible = " or ".join(name for name, cls in known.items() if cls.invertible)
    skips = list(stack.skips)
    refused = {
        "needs an encoder, whose output it splits: use encoder linear": isinstance(
            stack.encoder, nn.Identity
        ),
        "needs a decoder: use decoder linear": not isinstance(stack.decoder, nn.Linear),
        f"needs a skip connection that adds to the layer's input: use {invertible}": not all(
            skip.invertible and not skip.carries for skip in skips
        ),
        "needs layers with as many output as input channels: with several heads use split_heads": any(
            skip.weight_chain().incoming for skip in skips
        ),
        "has no first state for layers that read it": any(
            layer.reads_first for layer in stack.layers
        ),
        "cannot invert norms after the skip connection: use norm_after_skip false": stack.norm_after_skip,
        f"keeps no states for jump {stack.jump}: use last": stack.jump != "last",
        "keeps nothing that checkpoint_every could save: use none": checkpointed,
    }
    for reason, holds in refused.items():
        if holds:
            raise ValueError(f"a reversible stack {reason}.")


def run_reversible(
    stack: Any, x: Float[Tensor, "nodes _"], graphs: Sequence[Graph], run: Callable[..., Any] | None
) -> Float[Tensor, "nodes _"]:
    """Run all blocks on the encoded features; for gradients only the last state and ``x`` are kept.

    If modules have hooks, which need states and their gradients, the pass is checkpointed instead.
    The blocks themselves are not called, only their parts. ``run`` is the compiled form of
    :meth:`Block.message`, if there is one.
    """
    steps = Steps(stack, graphs, run)
    if not torch.is_grad_enabled():
        return steps.run(range(len(steps)), x)
    watched = [
        (*steps.modules(step), steps.joins[step], steps.blocks[step].state)
        for step in range(len(steps))
    ]
    modules = [module for of_step in watched for module in of_step]
    if not any(map(has_hooks, modules)):
        parameters = list(
            dict.fromkeys(p for step in range(len(steps)) for p in steps.trained(step))
        )
        found: Tensor = _Reversible.apply(steps, parameters, x, *parameters)  # type: ignore[no-untyped-call]
        return found
    length = segment_length("sqrt", len(steps))
    for start in range(0, len(steps), length):
        segment = range(start, min(start + length, len(steps)))
        inside = [module for step in segment for module in steps.modules(step)]
        x = recomputed(steps.run, inside, graphs[0], segment, x)
    return x


class Steps:
    """The blocks of a stack, each as a change of one group of channels."""

    def __init__(self, stack: Any, graphs: Sequence[Graph], run: Callable[..., Any] | None) -> None:
        self.blocks, self.joins = list(stack.blocks), stack.joins
        self.groups: int = stack.reversible
        self.graphs = graphs
        self.message = run or Block.message

    def __len__(self) -> int:
        return len(self.blocks)

    def run(self, steps: range, x: Tensor) -> Tensor:
        """Run some blocks on whole states, which pass through the modules provided for hooks."""
        for step in steps:
            parts = list(self.blocks[step].state(x, self.graphs[step]).chunk(self.groups, 1))
            turn = step % self.groups
            parts[turn] = parts[turn] + self.change(step, self.read(turn, parts))
            x = torch.cat(parts, 1)
        return x

    def read(self, turn: int, parts: Sequence[Tensor]) -> Tensor:
        """The layer's input z for changing a group."""
        if turn:
            return parts[turn - 1]
        total = parts[1]
        for part in parts[2:]:
            total = total + part
        return total

    def change(self, step: int, read: Tensor) -> Tensor:
        """The update F(z) that a block adds."""
        update = self.message(self.blocks[step], read, self.graphs[step])
        changed, _ = self.joins[step](update, (torch.zeros_like(read),), self.graphs[step])
        return changed

    def undo(
        self,
        step: int,
        parts: list[Tensor],
        grads: list[Tensor],
        of_parameters: dict[nn.Parameter, Tensor],
    ) -> None:
        """Subtract a block's update from its group of channels, and add the gradients of its input
        and parameters."""
        turn = step % self.groups
        read = self.read(turn, parts).detach().requires_grad_()
        with torch.enable_grad():
            change = self.change(step, read)
        parts[turn] = parts[turn] - change.detach()
        parameters = list(dict.fromkeys(self.trained(step)))
        grad = grads[turn].to(change.dtype)
        of_read, *found = torch.autograd.grad(change, [read, *parameters], grad, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                earlier = of_parameters.get(parameter)
                of_parameters[parameter] = gradient if earlier is None else earlier + gradient
        if of_read is not None:
            for part in [turn - 1] if turn else range(1, self.groups):
                grads[part] = grads[part] + of_read

    def modules(self, step: int) -> list[nn.Module]:
        """All modules that :meth:`change` calls."""
        block = self.blocks[step]
        parts = (block.layer, block.norms, self.joins[step].skip)
        return [module for part in parts if part is not None for module in part.modules()]

    def trained(self, step: int) -> list[nn.Parameter]:
        """Parameters of a block that need a gradient."""
        found = (
            parameter for module in self.modules(step) for parameter in module._parameters.values()
        )
        return [
            parameter for parameter in found if parameter is not None and parameter.requires_grad
        ]


class _Reversible(Function):
    @staticmethod
    def forward(
        ctx: Any, steps: Steps, parameters: list[nn.Parameter], x: Tensor, *_: Tensor
    ) -> Tensor:
        parts = list(x.chunk(steps.groups, 1))
        snapshots: list[Snapshot] = []
        for step in range(len(steps)):
            snapshots.append(Snapshot(steps.modules(step), x.device))
            turn = step % steps.groups
            parts[turn] = parts[turn] + steps.change(step, steps.read(turn, parts))
        out = torch.cat(parts, 1)
        ctx.save_for_backward(x, out)
        ctx.steps, ctx.parameters, ctx.snapshots = steps, parameters, snapshots
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out = ctx.saved_tensors
        parts, gradients = (list(whole.chunk(ctx.steps.groups, 1)) for whole in (out, grads[0]))
        of_parameters: dict[nn.Parameter, Tensor] = {}
        for step in reversed(range(len(ctx.snapshots))):
            with ctx.snapshots[step]():
                ctx.steps.undo(step, parts, gradients, of_parameters)
        _warn_if_inexact(torch.cat(parts, 1), x)
        return (
            None,
            None,
            torch.cat(gradients, 1),
            *(of_parameters.get(each) for each in ctx.parameters),
        )


def _warn_if_inexact(again: Tensor, first: Tensor) -> None:
    """Warn if the recomputed first state differs from the original."""
    error = float((again - first).norm() / first.norm().clamp_min(torch.finfo(first.dtype).tiny))
    if not error <= LARGEST_ERROR:
        log.warning(
            "reversible: the recomputed first state has a relative error of %.1e, and gradients "
            "are inexact: "
            "states grow too much to be inverted. Use a norm, a smaller bound of weights, or "
            "checkpoint_every sqrt.",
            error,
        )
