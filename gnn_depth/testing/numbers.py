"""Properties of numbers: finite, differentiated rightly, of the type that came in."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError, gradcheck

from gnn_depth.testing.graphs import degenerate, mixed
from gnn_depth.testing.structure import parameters_of
from gnn_depth.testing.subject import Subject, seeded
from gnn_depth.testing.suite import Violation, assert_close, assert_finite


def finite(subject: Subject) -> None:
    """Outputs and gradients are finite on zero vectors, equal nodes, isolated nodes, one node and no edges.

    Deep stacks bring all of these about, and one NaN ends a run.
    """
    for name, graph in degenerate().items():
        part = subject.part(torch.float32)
        for kind, inputs in _extremes(subject.inputs(graph, torch.float32)):
            for training in (True, False):
                where = f"{subject}, {kind} on {name}, in {'training' if training else 'evaluation'}"
                assert_finite(_values(subject, part, inputs, graph, training), where)


def _extremes(inputs: tuple[Tensor, ...]) -> Iterator[tuple[str, list[Tensor]]]:
    yield "random features", list(inputs)
    yield "zeros", [torch.zeros_like(x) for x in inputs]
    yield "a row of zeros", [torch.cat([torch.zeros_like(x[:1]), x[1:]]) for x in inputs]
    yield "equal rows", [x[:1].expand_as(x) for x in inputs]
    yield "features of 1e-30", [1e-30 * x for x in inputs]


def _values(subject: Subject, part: nn.Module, inputs: list[Tensor], graph: Any, training: bool) -> dict[str, Any]:
    """The outputs, and the gradients by inputs and parameters."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    part.zero_grad()
    out = subject.run(part, leaves, graph, training)
    if out.requires_grad:  # of a part that gives zeros for one node, say, it does not
        with seeded(5):
            torch.autograd.backward(out, torch.randn(out.shape, dtype=out.dtype))
    of_inputs = {f"the gradient of input {i}": leaf.grad for i, leaf in enumerate(leaves)}
    of_parameters = {f"the gradient of {name}": p.grad for name, p in parameters_of(part).items()}
    return {"the output": out, **of_inputs, **of_parameters}


def gradient(subject: Subject) -> None:
    """Gradients by inputs and parameters are those of finite differences, in float64.

    A ``detach``, a ``.data`` or a backward pass of one's own easily makes them something else.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    parameters = parameters_of(part)
    for training, where in subject.modes(graph).items():
        subject.run(part, inputs, graph, training)
        leaves = [value.detach().clone().requires_grad_() for value in (*inputs, *parameters.values())]
        function = partial(_with_parameters, subject, part, graph, list(parameters), len(inputs))
        try:
            gradcheck(function, leaves, fast_mode=True)
        except GradcheckError as error:
            raise Violation(f"{where}: {_told(error, len(inputs), list(parameters))}") from None


def _with_parameters(
    subject: Subject, part: nn.Module, graph: Any, names: list[str], count: int, *values: Tensor
) -> Tensor:
    replaced = dict(zip(names, values[count:], strict=True))
    copies = [value.clone() for value in values[:count]]
    call = partial(torch.func.functional_call, part, replaced)
    with seeded(2):
        return subject.apply(_Called(part, call), copies, graph)


class _Called:
    """A part that computes with other parameters than its own."""

    def __init__(self, part: nn.Module, call: Any) -> None:
        self.part = part
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)


def _told(error: GradcheckError, count: int, names: list[str]) -> str:
    """Which of the arguments it is, and the two numbers."""
    text = str(error)
    for index, name in enumerate([*(f"input {i}" for i in range(count)), *names]):
        if f"input {index}," in text:
            numbers = [line for line in text.splitlines() if line.startswith(("numerical:", "analytical:"))]
            return f"the gradient by {name} is wrong. {'; '.join(numbers)[:200]}"
    return text.strip().splitlines()[0]


def dtype(subject: Subject) -> None:
    """What comes in as float32 comes out as float32, float64 as float64, with the same numbers.

    A constant of its own type promotes all that comes after it, and a run in another precision stops.
    """
    graph = mixed()
    wide = subject.run(subject.part(), subject.inputs(graph), graph)
    for kind in (torch.float32, torch.float64):
        out = subject.run(subject.part(kind), subject.inputs(graph, kind), graph)
        if out.dtype != kind:
            raise Violation(f"{subject}: {kind} comes out as {out.dtype}.")
        assert_close(out, wide, f"{subject} in {kind}, compared with torch.float64", 1e-3)
