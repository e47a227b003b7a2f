r"""The additive attention score, :math:`s_{ij} = a \cdot \mathrm{LeakyReLU}(x_i + x_j)`.

Its gradients are those of a sum over the edges of a node,

.. math:: B_i = \sum_j g_{ij} \, \mathrm{LeakyReLU}'(x_i + x_j), \qquad
    \partial x_i = a \circ B_i, \quad \partial a = \sum_i B_i \circ x_i + \sum_j B_j \circ x_j,

once over the edges into each node and once over those out of it.
"""

# N nodes, S sources, E edges, H heads, C channels

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import reference
from gnn_depth.nn.functional.rules import differentiable
from gnn_depth.nn.native import kernels

#: Numbers in a temporary edges x heads x channels tensor: it must fit into a core's cache.
CHUNK = 2**18


class _Additive(Function):
    @staticmethod
    def forward(
        ctx: Any, x_dst_NHC: Tensor, x_src_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
    ) -> Tensor:
        ctx.graph, ctx.slope = graph, slope
        ctx.save_for_backward(x_dst_NHC, x_src_SHC, att_HC)
        if kernels.serve(graph, x_dst_NHC, x_src_SHC, att_HC):
            return kernels.additive_scores(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
        return _scores(x_dst_NHC, x_src_SHC, att_HC, graph.target, graph.source, slope)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_EH,) = grads
        graph = ctx.graph
        x_dst_NHC, x_src_SHC, att_HC = ctx.saved_tensors
        into_NHC = _slopes(grad_EH, x_dst_NHC, x_src_SHC, graph, False, ctx.slope)
        out_SHC = _slopes(grad_EH, x_src_SHC, x_dst_NHC, graph, True, ctx.slope)
        grad_att = (into_NHC * x_dst_NHC).sum(0) + (out_SHC * x_src_SHC).sum(0)
        return into_NHC * att_HC, out_SHC * att_HC, grad_att, None, None


def _scores(
    x_dst: Tensor, x_src: Tensor, att: Tensor, target: Tensor, source: Tensor, slope: float
) -> Tensor:
    """The scores of the edges from source to target, shape (edges, heads)."""
    size = _chunk(att)
    scores = []
    for ends, starts in zip(torch.split(target, size), torch.split(source, size), strict=True):
        pairs = _pairs(x_dst, x_src, ends, starts)
        scores.append((F.leaky_relu(pairs, slope) * att).sum(-1))
    return torch.cat(scores)


def _slopes(
    grad_EH: Tensor, x_NHC: Tensor, other: Tensor, graph: Graph, transposed: bool, slope: float
) -> Tensor:
    """B: the sum of g LeakyReLU'(x_i + x_j) over the edges into each node, or out of it."""
    if not torch.is_grad_enabled() and kernels.serve(graph, grad_EH, x_NHC, other):
        return kernels.additive_slopes(grad_EH, x_NHC, other, graph, transposed, slope)
    nodes, neighbours = graph.target, graph.source
    if transposed:
        nodes, neighbours = neighbours, nodes
    size = _chunk(x_NHC)
    chunks = zip(
        torch.split(grad_EH, size),
        torch.split(nodes, size),
        torch.split(neighbours, size),
        strict=True,
    )
    dtype = torch.promote_types(x_NHC.dtype, grad_EH.dtype)
    total_NHC = x_NHC.new_zeros(x_NHC.shape, dtype=dtype)
    for grad, node, neighbour in chunks:
        pairs = _pairs(x_NHC, other, node, neighbour).to(dtype)
        slopes = _through_leaky_relu(grad[..., None].to(pairs), pairs, slope)
        # Not in place: a second derivative runs through here.
        total_NHC = total_NHC.index_add(0, node, slopes)
    return total_NHC


def _pairs(x: Tensor, other: Tensor, node: Tensor, neighbour: Tensor) -> Tensor:
    # Not x[node]: index_select copies whole rows, which is faster.
    return x.index_select(0, node) + other.index_select(0, neighbour)


def _through_leaky_relu(change: Tensor, at: Tensor, slope: float) -> Tensor:
    """LeakyReLU'(at) times change."""
    # Not by a comparison, whose booleans would dominate the cost.
    through: Tensor = torch.ops.aten.leaky_relu_backward(change, at, slope, False)
    return through


def _chunk(features: Tensor) -> int:
    return max(1, CHUNK // features.shape[1:].numel())


#: additive(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
additive = differentiable(_Additive, reference.additive)


def edge_additive(
    x_dst: Float[Tensor, "nodes heads channels"],
    x_src: Float[Tensor, "sources heads channels"],
    att: Float[Tensor, "heads channels"],
    graph: Graph,
    negative_slope: float = 0.2,
) -> Float[Tensor, "edges heads"]:
    r"""Additive scores of the edges :math:`j \to i`.

    .. math:: s_{ijh} = a_h \cdot \mathrm{LeakyReLU}(x^{dst}_{ih} + x^{src}_{jh})
    """
    return additive(x_dst, x_src, att, graph, negative_slope)
