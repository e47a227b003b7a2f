"""Compare the kernels for GPUs with PyTorch's own operations, in Triton's interpreter.

Run by test_gpu_kernels.py, in a process whose TRITON_INTERPRET is 1.
"""

import sys

import torch
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.functional import (
    aggregate,
    attend,
    attend_additive,
    attend_linear,
    dropout,
    edge_additive,
    edge_dot,
    neighbourhood_size,
    segment_max,
    segment_softmax,
    segment_sum,
)
from gnn_depth.nn.native import kernels

NODES = 12
FACTOR = 0.7


def graph() -> Graph:
    """Nodes with 40, 9, 3, 1 and no edges, some of them repeated."""
    counts = torch.tensor([40, 9, 3, 1, 0, 2, 5, 1, 0, 4, 4, 17])
    target = torch.repeat_interleave(torch.arange(NODES), counts)
    draws = torch.Generator().manual_seed(0)
    source = torch.randint(NODES - 1, target.shape, generator=draws)
    return Graph(torch.stack([source, target]), NODES)


def both_ways() -> Graph:
    """The same in both directions."""
    edges = graph().edge_index
    return Graph(torch.cat([edges, edges.flip(0)], 1).unique(dim=1), NODES)


def block() -> Graph:
    """The first five nodes as targets, all as sources."""
    return both_ways().prefix(5)


def masked(scores: Tensor, on: Graph) -> Tensor:
    """Scores of which up to 30 are -inf, the first ones of every node but not its last one."""
    position = torch.arange(on.num_edges, device=scores.device) - on.ptr[on.target]
    is_last = position + 1 == on.in_degree[on.target]
    return scores.masked_fill(((position < 30) & ~is_last)[:, None], -torch.inf)


FUNCTIONS = {
    "aggregate": lambda w, x, z, a, b, f, g: aggregate(w, z, g),
    "edge_dot": lambda w, x, z, a, b, f, g: edge_dot(x, z, g),
    "edge_additive": lambda w, x, z, a, b, f, g: edge_additive(x, z, a, g),
    "edge_additive, shared": lambda w, x, z, a, b, f, g: edge_additive(z, z, a, g),
    "segment_sum": lambda w, x, z, a, b, f, g: segment_sum(w, g),
    "segment_softmax": lambda w, x, z, a, b, f, g: segment_softmax(w, g),
    "segment_max": lambda w, x, z, a, b, f, g: segment_max(w, g).clamp_min(-9),
    "attend": lambda w, x, z, a, b, f, g: attend(w, z, g),
    "attend, masked": lambda w, x, z, a, b, f, g: attend(masked(w, g), z, g),
    "segment_softmax, masked": lambda w, x, z, a, b, f, g: segment_softmax(masked(w, g), g),
    "attend, dropout": lambda w, x, z, a, b, f, g: attend(w, z, g, 0.4, True),
    "attend_linear": lambda w, x, z, a, b, f, g: attend_linear(z, a, b, g, 0.2),
    "attend_linear, factor, dropout": lambda w, x, z, a, b, f, g: attend_linear(
        z, a, b, g, 0.2, 0.4, True, f
    ),
    "attend_additive": lambda w, x, z, a, b, f, g: attend_additive(x, z, a, g, 0.2),
    "attend_additive, factor, dropout": lambda w, x, z, a, b, f, g: attend_additive(
        x, z, a, g, 0.2, 0.4, True, f
    ),
    "attend_additive, shared": lambda w, x, z, a, b, f, g: attend_additive(
        z, z, a, g, 0.2, factor=f
    ),
    "neighbourhood_size": lambda w, x, z, a, b, f, g: neighbourhood_size(x, z, g),
    "neighbourhood_size, shared": lambda w, x, z, a, b, f, g: neighbourhood_size(z, z, g),
    "neighbourhood_size, ties": lambda w, x, z, a, b, f, g: neighbourhood_size(
        x, z / z.detach().abs(), g
    ),
    "dropout": lambda w, x, z, a, b, f, g: dropout(z, 0.3),
}
#: Those in which both ends have the same rows.
SHARED = {name for name in FUNCTIONS if "shared" in name}


#: Heads, channels and type of the numbers, and the difference that rounding may make.
TOLERANCES = {
    (1, 5, torch.float64): 1e-11,
    (3, 4, torch.float64): 1e-11,
    (2, 6, torch.float32): 1e-5,
}


def with_gradients(name: str, inputs: list[Tensor], on: Graph) -> list[Tensor]:
    """The value of a function, and the gradients along a direction of its own."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    torch.manual_seed(1)  # of what dropout draws
    out = FUNCTIONS[name](*leaves, on)
    draws = torch.Generator().manual_seed(2)
    direction = torch.randn(out.shape, dtype=torch.float64, generator=draws).to(out)
    found = torch.autograd.grad(out, leaves, direction, allow_unused=True)
    zeros = [torch.zeros_like(leaf) for leaf in leaves]
    given = [zero if each is None else each for each, zero in zip(found, zeros, strict=True)]
    return [out.detach(), *given]


def compare(heads: int, channels: int, dtype: torch.dtype, device: str = "cpu") -> float:
    """The largest difference to PyTorch alone, relative to the largest number of each tensor."""
    largest = 0.0
    for kind, make in {"graph": graph, "both ways": both_ways, "block": block}.items():
        torch.manual_seed(0)
        on, plain = make().to(device), make().to(device)
        nodes, sources = on.num_nodes, on.num_sources
        shapes = [(on.num_edges, heads), (nodes, heads, channels), (sources, heads, channels)]
        shapes += [(heads, channels), (heads, channels), (nodes, heads)]
        inputs = [torch.randn(shape, dtype=dtype).to(device) for shape in shapes]
        inputs[-1] = inputs[-1].abs() + FACTOR
        for name in FUNCTIONS:
            if name in SHARED and nodes != sources:
                continue
            with native.without_kernels():
                wanted = with_gradients(name, [each.double() for each in inputs], plain)
            got = with_gradients(name, inputs, on)
            for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
                assert one.dtype == dtype, (name, one.dtype)
                off = float((one.double() - other).abs().max() / other.abs().max().clamp_min(1))
                if not off <= TOLERANCES[heads, channels, dtype]:
                    print(
                        f"{kind}, {name}, {heads} x {channels}, result {number}: off by {off:.2g}"
                    )
                    largest = float("inf")
                largest = max(largest, off)
    return largest


def refuses_other_shapes() -> bool:
    """True if weights of one head are refused for features of two: a kernel would read on."""
    on = graph()
    x = torch.randn(NODES, 2, 3)
    try:
        aggregate(torch.randn(on.num_edges, 1), x, on)
    except ValueError as error:
        return "weights_EH" in str(error) or "x_SHC" in str(error)
    return False


def main() -> int:
    # As if the tensors were on a GPU.
    kernels.is_on_gpu = lambda x: True
    assert kernels.available_on_gpu() is not None, kernels.why_not(torch.device("cuda"))
    assert refuses_other_shapes()
    worst = {shape: compare(*shape) for shape in TOLERANCES}
    print(worst)
    return int(any(not worst[shape] <= TOLERANCES[shape] for shape in worst))


if __name__ == "__main__":
    sys.exit(main())
