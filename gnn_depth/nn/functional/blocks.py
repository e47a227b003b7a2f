"""A graph convolution with its bias, activation and residual in one kernel, and activations."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.rules import by_kernel
from gnn_depth.nn.functional.segments import plus
from gnn_depth.nn.functional.sparse import aggregate
from gnn_depth.nn.native import kernels


def elu(x: Tensor) -> Tensor:
    r"""ELU, :math:`x` above zero and :math:`e^x - 1` below."""
    return _elu(x)


def group_sort(x: Tensor) -> Tensor:
    r"""GroupSort: sort each pair of channels, the smaller value first.

    .. math:: (x_{2c}, x_{2c+1}) \mapsto (\min(x_{2c}, x_{2c+1}), \max(x_{2c}, x_{2c+1}))

    It only permutes the channels of each row, so it keeps the norms of rows, and backwards those of
    gradients. With an odd width the last channel is left unchanged. Anil, Lucas & Grosse, *Sorting
    Out Lipschitz Function Approximation*, ICML 2019.
    """
    width = x.shape[-1]
    paired = width - width % 2
    pairs = x[..., :paired].reshape(*x.shape[:-1], paired // 2, 2)
    ordered = torch.stack([pairs.amin(-1), pairs.amax(-1)], -1).flatten(-2)
    if paired == width:
        return ordered
    return torch.cat([ordered, x[..., paired:]], -1)


# PyTorch's own is one kernel on a GPU.
_elu = by_kernel(
    F.elu,
    kernels.serve_on_cpu,
    kernels.elu_forward,
    kernels.elu_backward,
    1,
)


def fuses(given: tuple[Any, Any, Any, Any], graph: Graph, *_: bool) -> bool:
    """True if :func:`convolution` is one kernel for the tensors of its first four arguments."""
    x, weight, bias, edge_weights = given
    # On a GPU matrix products are left to cuBLAS.
    if kernels.is_on_gpu(x):
        return False
    # The kernel returns no gradient of the edges' weights.
    if x.dim() != 2 or x.dtype != torch.float32 or edge_weights.requires_grad:
        return False
    # It adds row i of x to row i of the output, and fetches no rows of other processes.
    if graph.is_shard or graph.num_sources != graph.num_nodes:
        return False
    if weight.shape[0] not in kernels.WIDTHS or weight.shape[1] not in kernels.WIDTHS:
        return False
    return kernels.serve((x, weight, edge_weights, bias), graph)


def _composed(
    x: Float[Tensor, "nodes inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, "outputs"] | None,
    edge_weights: Float[Tensor, "edges"],
    graph: Graph,
    relu: bool,
    residual: bool,
) -> Float[Tensor, "nodes outputs"]:
    r"""A graph convolution with fixed weights a of the edges, its bias, activation and residual.

    .. math:: y_i = [x_i +] \phi\Big(\sum_j a_{ij} W x_j + b\Big)

    Args:
        x: The features of the nodes.
        weight, bias: W and b.
        edge_weights: a.
        graph: The graph.
        relu: Use ReLU as activation, or none.
        residual: Add the features themselves, which then are as wide as the outputs.
    """
    y = plus(aggregate(edge_weights, F.linear(x, weight), graph), bias)
    if relu:
        y = y.relu()
    if residual:
        y = x + y
    return y


#: convolution(x, weight, bias, edge_weights, graph, relu, residual), by one kernel where it can.
convolution = by_kernel(_composed, fuses, kernels.block_forward, kernels.block_backward, 4)
