r"""The additive attention score, :math:`s_{ij} = a \cdot \mathrm{LeakyReLU}(x_i + x_j)`.

Its gradients are those of a sum over the edges of a node,

.. math:: B_i = \sum_j g_{ij} \, \mathrm{LeakyReLU}'(x_i + x_j), \qquad
    \partial x_i = a \circ B_i, \quad \partial a = \sum_i B_i \circ x_i + \sum_j B_j \circ x_j,

once over the edges into each node and once over those out of it. On an undirected graph with the
same features at both ends, both sums equal one sum of :math:`g_{ij} + g_{ji}`.
"""

# N nodes, S sources, E edges, H heads, C channels; V slices of K neighbours

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from gnn_depth.csr import PaddedRows
from gnn_depth.graph import Graph
from gnn_depth.nn.functional import plain
from gnn_depth.nn.functional.rules import apart, bag_sum, with_jvp
from gnn_depth.nn.native import kernels

#: Numbers in a temporary edges x heads x channels tensor: it must fit into a core's cache.
CHUNK = 2**18


class _Additive(Function):
    @staticmethod
    def forward(
        x_dst_NHC: Tensor, x_src_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
    ) -> Tensor:
        if kernels.serve(graph, x_dst_NHC, x_src_SHC, att_HC):
            return kernels.additive_scores(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
        return _scores(x_dst_NHC, x_src_SHC, att_HC, graph.target, graph.source, slope)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x_dst_NHC, x_src_SHC, att_HC, ctx.graph, ctx.slope = inputs
        ctx.save_for_backward(x_dst_NHC, x_src_SHC, att_HC)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_EH,) = grads
        graph = ctx.graph
        x_dst_NHC, x_src_SHC, att_HC = ctx.saved_tensors
        into_NHC = _slopes(grad_EH, x_dst_NHC, x_src_SHC, graph, False, ctx.slope)
        out_SHC = _slopes(grad_EH, x_src_SHC, x_dst_NHC, graph, True, ctx.slope)
        grad_att = (into_NHC * x_dst_NHC).sum(0) + (out_SHC * x_src_SHC).sum(0)
        return into_NHC * att_HC, out_SHC * att_HC, grad_att, None, None


class _SharedAdditive(Function):
    """Scores of undirected edges between the same features, equal for an edge and its reverse."""

    @staticmethod
    def forward(x_NHC: Tensor, att_HC: Tensor, graph: Graph, slope: float) -> Tensor:
        if kernels.serve(graph, x_NHC, att_HC):
            return kernels.additive_scores(x_NHC, x_NHC, att_HC, graph, slope)
        source, target, pair = graph.edge_pairs
        return _scores(x_NHC, x_NHC, att_HC, target, source, slope).index_select(0, pair)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x_NHC, att_HC, ctx.graph, ctx.slope = inputs
        ctx.save_for_backward(x_NHC, att_HC)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_EH,) = grads
        x_NHC, att_HC = ctx.saved_tensors
        both_EH = grad_EH + grad_EH.index_select(0, ctx.graph.reverse)
        slopes_NHC = _slopes(both_EH, x_NHC, x_NHC, ctx.graph, False, ctx.slope)
        return slopes_NHC * att_HC, (slopes_NHC * x_NHC).sum(0), None, None


def _scores(
    x_dst: Tensor, x_src: Tensor, att: Tensor, target: Tensor, source: Tensor, slope: float
) -> Tensor:
    """The scores of the edges from source to target, shape (edges, heads)."""
    if torch.compiler.is_compiling():  # one loop over edges that keeps nothing
        return _score(x_dst, x_src, att, target, source, slope)
    size = _chunk(att)
    scores = []
    for ends, starts in zip(torch.split(target, size), torch.split(source, size), strict=True):
        scores.append(_score(x_dst, x_src, att, ends, starts, slope))
    return torch.cat(scores)


def _score(
    x_dst: Tensor, x_src: Tensor, att: Tensor, target: Tensor, source: Tensor, slope: float
) -> Tensor:
    return (F.leaky_relu(_pairs(x_dst, x_src, target, source), slope) * att).sum(-1)


def _slopes(
    grad_EH: Tensor, x_NHC: Tensor, other: Tensor, graph: Graph, transposed: bool, slope: float
) -> Tensor:
    """B: the sum of g LeakyReLU'(x_i + x_j) over the edges into each node, or out of it."""
    if torch.compiler.is_compiling():
        return _slopes_in_slices(grad_EH, x_NHC, other, graph, transposed, slope)
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


def _slopes_in_slices(
    grad_EH: Tensor, x_NHC: Tensor, other: Tensor, graph: Graph, transposed: bool, slope: float
) -> Tensor:
    if transposed and graph.reverse is not None:
        # The neighbours are the same, only their edges run the other way.
        grad_EH, transposed = grad_EH.index_select(0, graph.reverse), False
    # Slices are padded with the number of edges, which is this row of zeros.
    grads_EH = torch.cat([grad_EH, grad_EH.new_zeros(1, grad_EH.shape[1])])
    sums = []
    for rows in graph.padded(transposed).parts():
        sums.append(_sums_of(rows, grads_EH, x_NHC, other, slope))
    return torch.cat(sums).view_as(x_NHC)


def _sums_of(
    rows: PaddedRows, grads_EH: Tensor, x_NHC: Tensor, other: Tensor, slope: float
) -> Tensor:
    grad_VKH1 = grads_EH[rows.edge][..., None]
    pairs_VKHC = x_NHC[rows.node][:, None] + other[rows.neighbour]
    slopes_VHC = torch.where(pairs_VKHC > 0, grad_VKH1, slope * grad_VKH1).sum(1)
    return bag_sum(slopes_VHC.flatten(1), rows.index, rows.ptr)


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


def _derivative(
    x_dst: Tensor,
    x_src: Tensor,
    att: Tensor,
    tangents: tuple[Tensor | None, ...],
    graph: Graph,
    slope: float,
) -> Tensor:
    """The derivative of the scores along tangents of x_dst, x_src and att, None for no change."""
    dst_t, src_t, att_t = tangents
    if dst_t is None:
        dst_t = torch.zeros_like(x_dst)
    if src_t is None:
        src_t = torch.zeros_like(x_src)
    if att_t is None:
        att_t = torch.zeros_like(att)
    pairs = _pairs(x_dst, x_src, graph.target, graph.source)
    moves = _pairs(dst_t, src_t, graph.target, graph.source)
    return _through_leaky_relu(moves * att + pairs * att_t, pairs, slope).sum(-1)


def _additive_jvp(
    ctx: Any, dst_t: Tensor | None, src_t: Tensor | None, att_t: Tensor | None, *_: None
) -> Tensor:
    x_dst, x_src, att = ctx.saved_tensors
    return _derivative(x_dst, x_src, att, (dst_t, src_t, att_t), ctx.graph, ctx.slope)


def _shared_jvp(ctx: Any, x_t: Tensor | None, att_t: Tensor | None, *_: None) -> Tensor:
    x, att = ctx.saved_tensors
    return _derivative(x, x, att, (x_t, x_t, att_t), ctx.graph, ctx.slope)


#: additive(x_dst_NHC, x_src_SHC, att_HC, graph, slope)
additive = with_jvp(_Additive, _additive_jvp, plain=plain.additive)
#: shared_additive(x_NHC, att_HC, graph, slope)
shared_additive = with_jvp(_SharedAdditive, _shared_jvp)


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
    if x_dst is x_src and graph.reverse is not None:
        return shared_additive(x_src, att, graph, negative_slope)
    return additive(*apart(x_dst, x_src), att, graph, negative_slope)
