"""The suite of initialisations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import gnn_depth.nn  # noqa: F401  (registers the parts of the stacks)
from gnn_depth.nn.parts import Init
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import get
from gnn_depth.testing.graphs import mixed
from gnn_depth.testing.suite import Violation, as_property, assert_close, assert_finite, check, class_of, seeded

#: Stacks on which every initialisation is tested.
STACKS: dict[str, dict[str, Any]] = {
    "a GCN of even width": {"num_layers": 3, "hidden_channels": 6},
    "a GCN of odd width": {"num_layers": 3, "hidden_channels": 7},
    "one GCN layer": {"num_layers": 1},
    "a GAT of two heads": {"layer": ("gat", {"heads": 2}), "num_layers": 3, "hidden_channels": 5},
    "a GAT without encoder and decoder": {"layer": ("gat", {}), "num_layers": 3, "encoder": "none", "decoder": "none"},
    "a residual GCN": {"num_layers": 3, "hidden_channels": 5, "skip": get("skip", "residual")},
    "a GCN with a norm of its weights": {"num_layers": 2, "norm": [get("norm", "weight_frobenius")]},
}


@dataclass(frozen=True)
class Drawing:
    """An initialisation of a stack."""

    label: str  # a key of STACKS
    init: Init

    def __str__(self) -> str:
        return self.label

    def stack(self, dtype: torch.dtype = torch.float32, before: float | None = None) -> DeepGNN:
        """The stack before the initialisation, with every parameter set to a number if one is given."""
        options = {"hidden_channels": 4} | STACKS[self.label]
        layer, of_layer = options.pop("layer", ("gcn", {}))
        with seeded(0):
            stack: DeepGNN = DeepGNN(5, 3, partial(get("layer", layer), **of_layer), **options).to(dtype)
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


@as_property("seed", "Draw with torch's functions and their default generator only.")
def seed(drawing: Drawing) -> None:
    """The same seed of torch draws the same parameters."""
    _assert_equal(drawing.drawn(), drawing.drawn(), f"{drawing}, drawn twice from one seed")


@as_property("touched", "Draw all weights and biases; for layers call reset_parameters() first.")
def touched(drawing: Drawing) -> None:
    """The result does not depend on the values before.

    A parameter that is forgotten would keep the values of its module's own initialisation.
    """
    try:
        seed.holds(drawing)
    except Violation:
        return  # no two draws are alike anyway
    one, other = drawing.drawn(before=0.5), drawing.drawn(before=-0.25)
    _assert_equal(one, other, f"{drawing}, drawn over other numbers")


@as_property("finite", "Look for divisions by a width minus one, or by a sum that may be zero.")
def finite(drawing: Drawing) -> None:
    """Parameters are finite, and so are the outputs and gradients of the first step."""
    stack, graph = drawing.drawn(), mixed()
    with seeded(2):
        out = stack(torch.randn(graph.num_nodes, 5), graph)
    torch.autograd.backward(F.cross_entropy(out, torch.arange(graph.num_nodes) % 3))
    for name, parameter in stack.named_parameters():
        assert_finite({name: parameter, f"the gradient of {name}": parameter.grad}, str(drawing))


@as_property("in_place", "Draw inside torch.no_grad(), with normal_(), copy_() and the like.")
def in_place(drawing: Drawing) -> None:
    """Parameters are drawn in place: same tensors, same shapes, same types, trained or frozen as before."""
    stack = drawing.stack(torch.float64)
    before = _identities(stack)
    with seeded(1):
        drawing.init(stack)
    after = _identities(stack)
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    if changed:
        raise Violation(
            f"{drawing}: {', '.join(changed)} is another tensor, has another type, or is trained otherwise."
        )


def _identities(stack: DeepGNN) -> dict[str, tuple[Any, ...]]:
    return {
        name: (id(each), each.shape, each.dtype, each.requires_grad, each.is_leaf)
        for name, each in stack.named_parameters()
    }


def _assert_equal(one: DeepGNN, other: DeepGNN, where: str) -> None:
    others = dict(other.named_parameters())
    for name, parameter in one.named_parameters():
        assert_close(parameter.detach(), others[name].detach(), f"{where}: {name}", 0)


def check_init(init: type[Init] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that an initialisation has the properties of every one, on seven small stacks.

    Properties: ``seed``, ``touched``, ``finite``, ``in_place``. Arguments and errors are those of :func:`check_norm`.
    """
    __tracebackhide__ = True
    cls = class_of("init", init, Init)

    def drawings() -> list[Drawing]:
        return [Drawing(label, cls(**options)) for label in STACKS]

    check("check_init", cls, drawings, [seed, touched, finite, in_place], except_for)
