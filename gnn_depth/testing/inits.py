"""The suite of initialisations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import FrobeniusNorm
from gnn_depth.nn.parts import Init
from gnn_depth.nn.skips import Residual
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.testing.graphs import mixed
from gnn_depth.testing.subject import seeded
from gnn_depth.testing.suite import Property, Violation, assert_close, assert_finite, check, class_of

#: Stacks that every initialisation is asked to draw: what they are called, and how they are built.
STACKS: dict[str, Any] = {
    "a GCN of even width": partial(DeepGNN, layer=GCN, num_layers=3, hidden_channels=6),
    "a GCN of odd width": partial(DeepGNN, layer=GCN, num_layers=3, hidden_channels=7),
    "one GCN layer": partial(DeepGNN, layer=GCN, num_layers=1, hidden_channels=4),
    "a GAT of two heads": partial(DeepGNN, layer=partial(GAT, heads=2), num_layers=3, hidden_channels=5),
    "a GAT without encoder and decoder": partial(
        DeepGNN, layer=GAT, num_layers=3, hidden_channels=4, encoder="none", decoder="none"
    ),
    "a residual GCN": partial(DeepGNN, layer=GCN, num_layers=3, hidden_channels=5, skip=Residual),
    "a GCN with a norm of its weights": partial(
        DeepGNN, layer=GCN, num_layers=2, hidden_channels=4, norms=[FrobeniusNorm]
    ),
}


@dataclass(frozen=True)
class Drawing:
    """An initialisation of a stack.

    Attributes:
        label: Which stack.
        build: Makes the stack.
        init: The initialisation.
    """

    label: str
    build: Any
    init: Init

    def __str__(self) -> str:
        return self.label

    def stack(self, dtype: torch.dtype = torch.float32, before: float | None = None) -> DeepGNN:
        """The stack as it is built; every parameter is this number where one is given."""
        with seeded(0):
            stack: DeepGNN = self.build(5, 3).to(dtype)
        with torch.no_grad():
            if before is not None:
                for parameter in stack.parameters():
                    parameter.fill_(before)
        return stack

    def drawn(self, seed: int = 1, **how: Any) -> DeepGNN:
        stack = self.stack(**how)
        with seeded(seed):
            self.init(stack)
        return stack


def seed(drawing: Drawing) -> None:
    """The same seed of torch draws the same parameters.

    Random numbers of Python or NumPy, or the clock, make runs that nobody can repeat.
    """
    _assert_equal(drawing.drawn(), drawing.drawn(), f"{drawing}, drawn twice from one seed")


def touched(drawing: Drawing) -> None:
    """What stood in a parameter before decides nothing.

    A parameter that is forgotten keeps what its module began with, under the name of this initialisation.
    """
    try:
        seed(drawing)
    except Violation:
        return  # no two draws are alike, whatever stood there
    one, other = drawing.drawn(before=0.5), drawing.drawn(before=-0.25)
    _assert_equal(one, other, f"{drawing}, drawn over other numbers")


def finite(drawing: Drawing) -> None:
    """Parameters are finite, and so are the outputs and gradients of the first step."""
    stack, graph = drawing.drawn(), mixed()
    with seeded(2):
        out = stack(torch.randn(graph.num_nodes, 5), graph)
    torch.autograd.backward(F.cross_entropy(out, torch.arange(graph.num_nodes) % 3))
    for name, parameter in stack.named_parameters():
        assert_finite({name: parameter, f"the gradient of {name}": parameter.grad}, str(drawing))


def in_place(drawing: Drawing) -> None:
    """Parameters are drawn in place: the same tensors, of the same shape and type, trained or not as before.

    Optimizers and other processes hold on to them.
    """
    stack = drawing.stack(torch.float64)
    before = dict(_told(stack))
    with seeded(1):
        drawing.init(stack)
    after = dict(_told(stack))
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    if changed:
        raise Violation(f"{drawing}: {', '.join(changed)} is another tensor, of another type or trained otherwise.")


def _told(stack: DeepGNN) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name, p in stack.named_parameters():
        yield name, (id(p), p.shape, p.dtype, p.requires_grad, p.is_leaf)


def _assert_equal(one: DeepGNN, other: DeepGNN, where: str) -> None:
    others = dict(other.named_parameters())
    for name, parameter in one.named_parameters():
        assert_close(parameter.detach(), others[name].detach(), f"{where}: {name}", 0)


PROPERTIES: list[Property[Drawing]] = [
    Property("seed", seed, "Draw with torch's functions and their default generator only."),
    Property("touched", touched, "Draw all weights and biases; for layers call reset_parameters() first."),
    Property("finite", finite, "Look for divisions by a width minus one, or by a sum that may be zero."),
    Property("in_place", in_place, "Draw inside torch.no_grad(), with normal_(), copy_() and the like."),
]


def check_init(init: type[Init] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that an initialisation does what every one is expected to do, on seven small stacks.

    Properties: ``seed``, ``touched``, ``finite``, ``in_place``.

    Args:
        init: The class, or its registered name.
        except_for: Properties that it lacks by intent.
        options: What its constructor takes.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is no initialisation, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("init", init, Init)
    drawings = [Drawing(label, build, cls(**options)) for label, build in STACKS.items()]
    check("check_init", cls, drawings, PROPERTIES, except_for)
