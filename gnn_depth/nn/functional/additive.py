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
from torch import Tensor
from torch.autograd import Function

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import reference
from gnn_depth.nn.functional.rules import differentiable
from gnn_depth.nn.functional.segments import chunks
from gnn_depth.nn.native import kernels
from gnn_depth.nn.shapes import EdgesHeads, HeadsChannels, NodesHeadsChannels, SourcesHeadsChannels


class _Additive(Function):
    @staticmethod
    def forward(
        ctx: Any, x_dst_NHC: Tensor, x_src_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
    ) -> Tensor:
        ctx.graph, ctx.slope = graph, slope
        ctx.save_for_backward(x_dst_NHC, x_src_SHC, att_HC)
        if kernels.serve((x_dst_NHC, x_src_SHC, att_HC), graph):
            return kernels.additive_scores(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
        scores = []
        for target, source, _ in chunks(graph, att_HC):
            pairs = _pairs(x_dst_NHC, x_src_SHC, target, source)
            scores.append((F.leaky_relu(pairs, slope) * att_HC).sum(-1))
        return torch.cat(scores)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_EH,) = grads
        graph = ctx.graph
        x_dst_NHC, x_src_SHC, att_HC = ctx.saved_tensors
        into_NHC = _slopes(grad_EH, x_dst_NHC, x_src_SHC, graph, False, ctx.slope)
        out_SHC = _slopes(grad_EH, x_src_SHC, x_dst_NHC, graph, True, ctx.slope)
        grad_att = (into_NHC * x_dst_NHC).sum(0) + (out_SHC * x_src_SHC).sum(0)
        return into_NHC * att_HC, out_SHC * att_HC, grad_att, None, None


def _slopes(
    grad_EH: Tensor, x_NHC: Tensor, other: Tensor, graph: Graph, transposed: bool, slope: float
) -> Tensor:
    """B: the sum of g LeakyReLU'(x_i + x_j) over the edges into each node, or out of it."""
    if not torch.is_grad_enabled() and kernels.serve((grad_EH, x_NHC, other), graph):
        return kernels.additive_slopes(grad_EH, x_NHC, other, graph, transposed, slope)
    dtype = torch.promote_types(x_NHC.dtype, grad_EH.dtype)
    total_NHC = x_NHC.new_zeros(x_NHC.shape, dtype=dtype)
    for node, neighbour, edges in chunks(graph, x_NHC):
        if transposed:
            node, neighbour = neighbour, node
        pairs = _pairs(x_NHC, other, node, neighbour).to(dtype)
        grads = grad_EH[edges, :, None].to(pairs)
        # Not by a comparison, whose booleans would dominate the cost.
        slopes = torch.ops.aten.leaky_relu_backward(grads, pairs, slope, False)
        # Not in place: a second derivative runs through here.
        total_NHC = total_NHC.index_add(0, node, slopes)
    return total_NHC


def _pairs(x: Tensor, other: Tensor, node: Tensor, neighbour: Tensor) -> Tensor:
    # Not x[node]: index_select copies whole rows, which is faster.
    return x.index_select(0, node) + other.index_select(0, neighbour)


#: additive(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
additive = differentiable(_Additive, reference.additive)


def edge_additive(
    x_dst: NodesHeadsChannels,
    x_src: SourcesHeadsChannels,
    att: HeadsChannels,
    graph: Graph,
    negative_slope: float = 0.2,
) -> EdgesHeads:
    r"""Additive scores of the edges :math:`j \to i`.

    .. math:: s_{ijh} = a_h \cdot \mathrm{LeakyReLU}(x^{dst}_{ih} + x^{src}_{jh})
    """
    return additive(x_dst, x_src, att, graph, negative_slope)
