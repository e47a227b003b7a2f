"""The property of layers that declare their weight chain: the law that it promises."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.diagnostics.balance import defect
from gnn_depth.nn.neurons import links, why_no_law
from gnn_depth.nn.parts import HasWeightChain, Link
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.testing.graphs import mixed
from gnn_depth.testing.subject import Subject, seeded
from gnn_depth.testing.suite import Violation

WIDTH = 24


def chain(subject: Subject) -> None:
    """A declared weight chain obeys the conservation law of its neurons.

    What comes into a neuron, times its gradient, is what leaves it and attends to it, times theirs:
    :mod:`gnn_depth.nn.neurons`. Balanced initialisation and diagnostics rely on it.
    """
    with seeded(7):
        layer = subject.make(WIDTH, WIDTH)
        if not isinstance(layer, HasWeightChain) or not _declares(layer):
            return
        _check_names(layer)
        stack = DeepGNN(5, 3, subject.make, num_layers=3, hidden_channels=WIDTH).double().eval()
        _draw(stack)
        graph = mixed()
        if why_no_law(stack) is not None:
            return
        x = torch.randn(graph.num_nodes, 5, dtype=torch.float64)
        torch.autograd.backward(F.cross_entropy(stack(x, graph), torch.arange(graph.num_nodes) % 3))
    for link in links(stack):
        _check_law(link)


def _declares(layer: HasWeightChain) -> bool:
    try:
        layer.weight_chain()
    except ValueError:  # it has one with other options
        return False
    return True


def _check_names(layer: Any) -> None:
    """A chain names parameters of the layer, by neuron."""
    declared = layer.weight_chain()
    known = {id(parameter) for parameter in layer.parameters()}
    shapes: dict[str, tuple[tuple[Tensor, ...], tuple[int, ...]]] = {
        "incoming": (declared.incoming, (layer.width, WIDTH)),
        "outgoing": (declared.outgoing, (layer.width, WIDTH)),
        "attention": (declared.attention, (layer.heads, layer.out_channels)),
        "bias": (declared.bias, (layer.width,)),
    }
    for name, (tensors, shape) in shapes.items():
        for tensor in tensors:
            if id(tensor) not in known:
                raise Violation(f"{name} of its weight chain names a tensor that is none of the layer's parameters.")
            if name != "outgoing" and tensor.shape[0] != shape[0]:
                raise Violation(f"{name} of its weight chain has the shape {tuple(tensor.shape)}, not {shape}.")


def _draw(stack: nn.Module) -> None:
    """Every parameter anew, biases too: zeros hide what belongs into no term."""
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.normal_().mul_(parameter.shape[-1] ** -0.5)


def _check_law(link: Link) -> None:
    shares = (*link.incoming, *link.attention, *link.outgoing)
    products = [(s.parameter.detach() * s.parameter.grad).abs().max() for s in shares if s.parameter.grad is not None]
    largest = float(torch.stack(products).max())
    off = defect(link, lambda parameter: parameter.grad).detach().abs()
    if not float(off.max()) <= 1e-8 * largest:
        raise Violation(
            f"neuron {int(off.argmax())} of state {link.states[0]} of three layers: delta is {float(off.max()):.2g}, "
            f"of terms up to {largest:.2g}."
        )
