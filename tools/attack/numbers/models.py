"""Models and loops in which a layer's gradient is easily miscounted.

Models are drawn: layers of their own, shared, under two names, called with keywords or a tuple,
which return a tuple, or are checkpointed. ``states`` has what entered their layers, so that
``torch.autograd.grad`` gives the gradients that a twin of the model must show.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv

NODES, WIDTH = 9, 3
KINDS = ["separate", "shared", "aliased", "keyword", "tuple", "outputs", "checkpoint", "reentrant"]


class OfTuple(GCNConv):
    """A layer that is called with a tuple of features and edges."""

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        return super().forward(*pair)


class ToTuple(GCNConv):
    """A layer that returns a tuple of its output and something else."""

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, str]:
        return super().forward(x, edge_index), "attention"


class Drawn(nn.Module):
    """A model of one of the kinds; ``states`` has what entered its layers in the last pass."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        draws = random.Random(seed)
        torch.manual_seed(seed)
        self.kind, self.enter = kind, nn.Linear(WIDTH, WIDTH)
        make = {"tuple": OfTuple, "outputs": ToTuple}.get(kind, GCNConv)
        count = 1 if kind == "shared" else draws.randint(2, 4)
        self.convs = nn.ModuleList(make(WIDTH, WIDTH) for _ in range(count))
        if kind == "aliased":
            self.other = nn.ModuleList([self.convs[0]])  # another name for a layer
        rounds = draws.randint(2, 3) if kind in ("shared", "aliased") else 1
        self.order = list(range(count)) * rounds
        self.skips = [draws.random() < 0.5 for _ in self.order]
        self.activation = draws.choice([torch.tanh, torch.relu])
        self.leave = nn.Linear(WIDTH, 2)
        self.states: list[Tensor] = []
        self.double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.states = []
        x = self.enter(x)
        for place, skip in zip(self.order, self.skips, strict=True):
            self.states.append(x)
            out = self.activation(self.call(place, x, edge_index))
            x = x + out if skip else out
        return self.leave(x)

    def call(self, place: int, x: Tensor, edge_index: Tensor) -> Tensor:
        conv = self.convs[place]
        if self.kind == "keyword":
            return conv(edge_index=edge_index, x=x)
        if self.kind == "tuple":
            return conv((x, edge_index))
        if self.kind == "outputs":
            return conv(x, edge_index)[0]
        if self.kind == "aliased" and place == 0:
            return self.other[0](x, edge_index)
        if self.kind in ("checkpoint", "reentrant"):
            return checkpoint(conv, x, edge_index, use_reentrant=self.kind == "reentrant")
        return conv(x, edge_index)


class Data:
    """Two batches of one graph each, and targets."""

    def __init__(self, seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.edges = torch.randint(NODES, (2, 20), generator=draws)
        self.x = torch.randn(2, NODES, WIDTH, generator=draws, dtype=torch.float64)
        self.y = torch.randint(2, (2, NODES), generator=draws)

    def loss(self, model: Any, batch: int = 0, moved: Tensor | float = 0.0) -> Tensor:
        scores = model(self.x[batch] + moved, self.edges)
        return nn.functional.cross_entropy(scores, self.y[batch])


#: A loop yields, after each forward pass of the loss, the states and what is differentiated.
Passes: TypeAlias = Iterator[tuple[list[Tensor], Tensor]]
Loop: TypeAlias = Callable[[Drawn, Data], Passes]


def one_pass(model: Drawn, data: Data) -> Passes:
    """The plain loop."""
    loss = data.loss(model)
    yield model.states, loss
    loss.backward()


def two_losses(model: Drawn, data: Data) -> Passes:
    """Two backward passes through the same states."""
    out = model(data.x[0], data.edges)
    first, second = nn.functional.cross_entropy(out, data.y[0]), out.square().mean()
    yield model.states, first + second
    first.backward(retain_graph=True)
    second.backward()


def accumulated(model: Drawn, data: Data) -> Passes:
    """A batch after the other."""
    for batch in range(2):
        loss = data.loss(model, batch)
        yield model.states, loss
        loss.backward()


def penalty(model: Drawn, data: Data) -> Passes:
    """A gradient penalty: an additional backward pass that is not the loss's."""
    x = data.x[0].clone().requires_grad_()
    out = model(x, data.edges)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = nn.functional.cross_entropy(out, data.y[0]) + 0.1 * slope.square().sum()
    yield model.states, loss
    loss.backward()


def perturbed(model: Drawn, data: Data) -> Passes:
    """Adversarial inputs, by a pass before that is not the loss's."""
    moved = torch.zeros_like(data.x[0], requires_grad=True)
    (slope,) = torch.autograd.grad(data.loss(model, moved=moved), moved)
    loss = data.loss(model, moved=0.1 * slope.sign())
    yield model.states, loss
    loss.backward()


def evaluated_again(model: Drawn, data: Data) -> Passes:
    """A loss whose gradients are reset, as by the closure of an optimizer, before the last one."""
    data.loss(model, 1).backward()
    model.zero_grad()
    yield from one_pass(model, data)


def monitored(model: Drawn, data: Data) -> Passes:
    """A look at a gradient after the backward pass, which is no part of the step."""
    yield from one_pass(model, data)
    torch.autograd.grad(data.loss(model), model.enter.weight)


def without_autograd(model: Drawn, data: Data) -> Passes:
    """A pass for the accuracy, in training mode."""
    with torch.no_grad():
        model(data.x[1], data.edges)
    yield from one_pass(model, data)


LOOPS: tuple[Loop, ...] = (
    one_pass,
    two_losses,
    accumulated,
    penalty,
    perturbed,
    evaluated_again,
    monitored,
    without_autograd,
)
#: Re-entrant checkpoints do not go with torch.autograd.grad, and warn without autograd.
NOT_REENTRANT = ("penalty", "perturbed", "monitored", "without_autograd")


def is_possible(kind: str, loop: Loop) -> bool:
    """False where PyTorch refuses a loop for a model."""
    return kind != "reentrant" or loop.__name__ not in NOT_REENTRANT


def exhausted(loop: Loop, model: Drawn, data: Data) -> None:
    """Run a loop."""
    for _ in loop(model, data):
        pass
