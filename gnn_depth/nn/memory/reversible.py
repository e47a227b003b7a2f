r"""Reversible stacks: each round changes one group of channels, and the backward pass computes the states again.

The channels are split in C groups, and round l changes group :math:`i = l \bmod C`:

.. math:: x_i \leftarrow x_i + F_l(z), \quad
    z = \sum_{j \ne i} x_j \; (i = 0), \qquad z = x_{i - 1} \; (i > 0)

What was there before is :math:`x_i - F_l(z)`, since z is still known, so only the last state is kept, at any depth. C
rounds are one block of Li, Müller, Ghanem & Koltun, *Training Graph Neural Networks with 1000 Layers*, ICML 2021
(RevGNN), who count blocks and normalise and activate before a layer; here it comes after it, as in all our stacks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from gnn_depth.nn.anchored import AnchoredLayer
from gnn_depth.nn.block import Features
from gnn_depth.nn.compile.compiled import has_hooks
from gnn_depth.nn.memory.checkpointing import in_segments, segment_length
from gnn_depth.nn.memory.snapshot import Replay
from gnn_depth.nn.rounds import Round, Rounds
from gnn_depth.nn.skips import LayerScale, Residual, ReZero

if TYPE_CHECKING:
    from gnn_depth.nn.stack import DeepGNN

log = logging.getLogger("gnn_depth")

#: Skips that give the layer's input plus something of its output.
ADDING = (Residual, ReZero, LayerScale)
#: Of the first state computed again, against the one that there was: beyond this gradients are not to be trusted.
LARGEST_ERROR = 1e-2


def group_width(hidden_channels: int, groups: int) -> int:
    """Width of one group of channels; 0 groups stand for a stack that is not reversible.

    Raises:
        ValueError: There is one group, or the channels cannot be split in so many.
    """
    if groups == 0:
        return hidden_channels
    if groups < 2:
        raise ValueError(f"reversible must be at least 2 groups of channels, or 0 for none, not {groups}.")
    if hidden_channels % groups:
        raise ValueError(
            f"reversible: {groups} groups do not divide hidden_channels, {hidden_channels}: take another "
            f"number of groups, or a width of {-(-hidden_channels // groups) * groups}."
        )
    return hidden_channels // groups


def check_reversible(stack: "DeepGNN", checkpointed: bool) -> None:
    """Refuse a stack that is to be reversible and whose rounds cannot be undone.

    Raises:
        ValueError: Something in it stands against it.
    """
    if not stack.reversible:
        return
    refused = {
        "needs an encoder, whose output it splits: take encoder linear": isinstance(stack.encoder, nn.Identity),
        "needs a decoder: take decoder linear": not isinstance(stack.decoder, nn.Linear),
        "needs a skip that adds to the layer's input: take residual, rezero or layer_scale": not all(
            isinstance(skip, ADDING) for skip in stack.skips
        ),
        "needs layers that give as many channels as they take: with several heads take split_heads": not all(
            isinstance(getattr(skip, "project", None), nn.Identity) for skip in stack.skips
        ),
        "has no first state for layers that read it": any(isinstance(layer, AnchoredLayer) for layer in stack.layers),
        "cannot undo norms after the skip: take norm_after_skip false": stack.norm_after_skip,
        f"keeps no states for jump {stack.jump}: take last": stack.jump != "last",
        "keeps nothing that checkpoint_every could save: take none": checkpointed,
    }
    for reason, holds in refused.items():
        if holds:
            raise ValueError(f"a reversible stack {reason}.")


def run_reversible(rounds: Rounds, x: Float[Tensor, "nodes _"], groups: int) -> Float[Tensor, "nodes _"]:
    """Run all rounds on what the encoder gave; for gradients only the last state and ``x`` are kept.

    While modules have hooks, which want to see states and their gradients, it is a checkpointed pass.
    """
    coupled = Coupled(rounds, groups)
    modules = [module for each in rounds.rounds for module in (*each.modules(), each.state)]
    if torch.is_grad_enabled() and not any(map(has_hooks, modules)):
        parameters = coupled.parameters()
        found: Tensor = _Reversible.apply(coupled, parameters, x, *parameters)  # type: ignore[no-untyped-call]
        return found
    count = len(rounds.rounds)
    return in_segments(coupled, rounds.rounds, x, segment_length("sqrt", count))


@dataclass(frozen=True)
class Coupled:
    """Rounds that each change one group of channels.

    Args:
        rounds: The rounds.
        groups: C.
    """

    rounds: Rounds
    groups: int

    def __call__(self, positions: range, x: Tensor) -> Tensor:
        """Run the rounds of some positions on whole states, which pass the modules that are there to show them."""
        for position in positions:
            parts = list(self.rounds.rounds[position].state(x).chunk(self.groups, 1))
            turn = position % self.groups
            parts[turn] = parts[turn] + self.change(position, self.read(turn, parts))
            x = torch.cat(parts, 1)
        return x

    def read(self, turn: int, parts: Sequence[Tensor]) -> Tensor:
        """z, what the layer of a round reads to change a group."""
        if turn:
            return parts[turn - 1]
        total = parts[1]
        for part in parts[2:]:
            total = total + part
        return total

    def change(self, position: int, read: Tensor) -> Tensor:
        """F(z), what a round adds."""
        layer, norms, activation, skip, _, graph = self.rounds.rounds[position]
        update, _ = self.rounds.run(Features(read, [], None), layer, norms, graph, self.rounds.p, False)
        assert skip is not None
        changed: Tensor = skip(activation(update), [torch.zeros_like(read)])
        return changed

    def parameters(self) -> list[nn.Parameter]:
        return list(dict.fromkeys(parameter for each in self.rounds.rounds for parameter in trained(each)))


def trained(each: Round) -> list[nn.Parameter]:
    """Parameters of a round that want a gradient."""
    found = (parameter for module in each.modules() for parameter in module._parameters.values())
    return [parameter for parameter in found if parameter is not None and parameter.requires_grad]


class _Reversible(Function):
    @staticmethod
    def forward(ctx: Any, coupled: Coupled, parameters: list[nn.Parameter], x: Tensor, *_: Tensor) -> Tensor:
        parts = list(x.chunk(coupled.groups, 1))
        replays: list[Replay] = []
        for position, each in enumerate(coupled.rounds.rounds):
            replays.append(Replay(each.modules(), x.device, replays[-1] if replays else None))
            turn = position % coupled.groups
            parts[turn] = parts[turn] + coupled.change(position, coupled.read(turn, parts))
        out = torch.cat(parts, 1)
        ctx.save_for_backward(x, out)
        ctx.coupled, ctx.parameters, ctx.replays = coupled, parameters, replays
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out = ctx.saved_tensors
        undoing = _Undoing(ctx.coupled, out, grads[0])
        for position in reversed(range(len(ctx.replays))):
            with ctx.replays[position]():
                undoing.undo(position)
        _compare(torch.cat(undoing.parts, 1), x)
        of_parameters = [undoing.of_parameters.get(parameter) for parameter in ctx.parameters]
        return None, None, torch.cat(undoing.grads, 1), *of_parameters


class _Undoing:
    """The groups of channels and their gradients, from the last state back to the first.

    Args:
        coupled: The rounds.
        out: The last state.
        grad: Its gradient.
    """

    def __init__(self, coupled: Coupled, out: Tensor, grad: Tensor) -> None:
        self.coupled = coupled
        self.parts, self.grads = list(out.chunk(coupled.groups, 1)), list(grad.chunk(coupled.groups, 1))
        self.of_parameters: dict[nn.Parameter, Tensor] = {}

    def undo(self, position: int) -> None:
        """Take back what a round added, and add the gradients of what it read."""
        turn = position % self.coupled.groups
        read = self.coupled.read(turn, self.parts).detach().requires_grad_()
        with torch.enable_grad():
            change = self.coupled.change(position, read)
        self.parts[turn] = self.parts[turn] - change.detach()
        parameters = list(dict.fromkeys(trained(self.coupled.rounds.rounds[position])))
        grad = self.grads[turn].to(change.dtype)
        of_read, *found = torch.autograd.grad(change, [read, *parameters], grad, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                earlier = self.of_parameters.get(parameter)
                self.of_parameters[parameter] = gradient if earlier is None else earlier + gradient
        if of_read is not None:
            for part in [turn - 1] if turn else range(1, self.coupled.groups):
                self.grads[part] = self.grads[part] + of_read


def _compare(again: Tensor, first: Tensor) -> None:
    """Warn where the first state, computed again, is not what it was."""
    error = float((again - first).norm() / first.norm().clamp_min(torch.finfo(first.dtype).tiny))
    if not error <= LARGEST_ERROR:
        log.warning(
            "reversible: the first state computed again is off by %.1e of itself, and gradients are off too: states "
            "grow too much to be undone. Take a norm, a smaller bound of weights, or checkpoint_every sqrt instead.",
            error,
        )
