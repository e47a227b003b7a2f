"""Compare the kernels for GPUs with PyTorch's own operations, in Triton's interpreter.

Run by test_gpu_kernels.py, in a process whose TRITON_INTERPRET is 1.
"""

import itertools
import sys

import torch
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.functional import attend, neighbourhood_size
from gnn_depth.nn.native import kernels
from tests.nn.functional.cases import (
    CASES,
    OF_GRAPHS,
    Case,
    edges_and_sources,
    nodes_and_sources,
)

NODES = 12


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


SPECIAL = {
    "attend, masked": Case(lambda w, x, g: attend(masked(w, g), x, g), None, edges_and_sources),
    "neighbourhood_size, ties": Case(
        lambda x, z, g: neighbourhood_size(x, z / z.detach().abs(), g), None, nodes_and_sources
    ),
}
#: All that reads a graph, and what is easily computed otherwise.
OF_KERNELS = {name: CASES[name] for name in OF_GRAPHS} | SPECIAL

#: Heads, channels and type of the numbers, and the difference that rounding may make.
TOLERANCES = {
    (1, 5, torch.float64): 1e-11,
    (3, 4, torch.float64): 1e-11,
    (2, 6, torch.float32): 1e-5,  # the gradient of a factor cancels: 8e-6 by PyTorch alone
}


def with_gradients(case: Case, inputs: list[Tensor], on: Graph) -> list[Tensor]:
    """The value of a function, and the gradients along a direction of its own."""
    leaves = [value.detach().requires_grad_() for value in inputs]
    out = case.ours(*leaves, on)
    draws = torch.Generator().manual_seed(2)
    direction = torch.randn(out.shape, dtype=torch.float64, generator=draws).to(out)
    return [out.detach(), *torch.autograd.grad(out, leaves, direction)]


def compare(heads: int, channels: int, dtype: torch.dtype, device: str = "cpu") -> float:
    """The largest difference to PyTorch alone, relative to the largest number of each tensor."""
    largest = 0.0
    for make, (name, case) in itertools.product((graph, both_ways, block), OF_KERNELS.items()):
        torch.manual_seed(0)
        on, plain = make().to(device), make().to(device)
        inputs = [value.to(device) for value in case.inputs(on, heads, dtype, channels)]
        with native.without_kernels():
            wanted = with_gradients(case, [each.double() for each in inputs], plain)
        for number, one in enumerate(with_gradients(case, inputs, on)):
            assert one.dtype == dtype, (name, one.dtype)
            other = wanted[number]
            off = float((one.double() - other).abs().max() / other.abs().max().clamp_min(1))
            if not off <= TOLERANCES[heads, channels, dtype]:
                print(f"{make.__name__}, {name}, {heads} x {channels}, {number}: off by {off:.2g}")
                off = float("inf")
            largest = max(largest, off)
    return largest


def main() -> int:
    # As if the tensors were on a GPU.
    kernels.is_on_gpu = lambda x: True
    assert kernels.available_for(torch.device("cuda")) is not None, kernels.why_not(
        torch.device("cuda")
    )
    worst = {shape: compare(*shape) for shape in TOLERANCES}
    print(worst)
    return int(any(not worst[shape] <= TOLERANCES[shape] for shape in worst))


if __name__ == "__main__":
    sys.exit(main())
