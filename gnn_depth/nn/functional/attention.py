r"""Attention: softmax of scores, dropout of the weights, and the weighted sum over the neighbours.

.. math:: y_i = \sum_j m_{ij} \alpha_{ij} x_j, \qquad
    \alpha_{i \cdot} = \mathrm{softmax}_j \, s_{ij}

with dropout's factors m, for each head. The scores are given, or computed inside: then not even a
tensor of edges x heads is needed besides the weights.

Each function is a composition of other primitives, which is what runs in compiled code, on other
devices, under transforms and for second derivatives, and a kernel that computes the same at once.
"""

# N nodes, S sources, E edges, H heads, C channels

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn.functional.additive import edge_additive
from gnn_depth.nn.functional.dropout import draw_seed, dropout_by, mask
from gnn_depth.nn.functional.linear import head_dots
from gnn_depth.nn.functional.rules import again
from gnn_depth.nn.functional.segments import at_source, at_target, segment_softmax, targets
from gnn_depth.nn.functional.sparse import aggregate
from gnn_depth.nn.native import kernels


def attend(
    scores: Float[Tensor, "edges heads"],
    x: Float[Tensor, "sources heads channels"],
    graph: Graph,
    p: float = 0.0,
    training: bool = False,
) -> Float[Tensor, "nodes heads channels"]:
    """Sum the sources, weighted by the softmax of given scores.

    Args:
        scores: The score of every edge.
        x: The features of the sources.
        graph: The graph.
        p: Probability of dropping a weight.
        training: False drops none.
    """
    seed = draw_seed(scores, p, training)
    if _serve(graph, seed, p, scores, x):
        return _Attend.apply(scores, x, graph, p, seed)  # type: ignore[no-untyped-call]
    return _attend(scores, x, graph, p, seed)


def attend_linear(
    x: Float[Tensor, "sources heads channels"],
    att_dst: Float[Tensor, "heads channels"],
    att_src: Float[Tensor, "heads channels"],
    graph: Graph,
    negative_slope: float,
    p: float = 0.0,
    training: bool = False,
    factor: Float[Tensor, "nodes heads"] | None = None,
) -> Float[Tensor, "nodes heads channels"]:
    r"""Attention with linear scores, :math:`s_{ij} = \mathrm{LeakyReLU}(f_i (a_{dst} \cdot x_i +
    a_{src} \cdot x_j))`.

    Args:
        x: The features of the sources, the first of which are the targets.
        att_dst, att_src: Two vectors per head.
        graph: The graph.
        negative_slope: Slope of the LeakyReLU below zero.
        p: Probability of dropping a weight.
        training: False drops none.
        factor: f; 1 by default.
    """
    seed = draw_seed(x, p, training)
    given = (x, att_dst, att_src, factor)
    if _serve(graph, seed, p, *given):
        return _AttendLinear.apply(*given, graph, negative_slope, p, seed)  # type: ignore[no-untyped-call]
    return _attend_linear(*given, graph, negative_slope, p, seed)


def attend_additive(
    x_dst: Float[Tensor, "nodes heads channels"],
    x_src: Float[Tensor, "sources heads channels"],
    att: Float[Tensor, "heads channels"],
    graph: Graph,
    negative_slope: float,
    p: float = 0.0,
    training: bool = False,
    factor: Float[Tensor, "nodes heads"] | None = None,
) -> Float[Tensor, "nodes heads channels"]:
    r"""Attention with additive scores: the weighted sum of the features of the sources.

    .. math:: s_{ij} = f_i \, a \cdot \mathrm{LeakyReLU}(x^{dst}_i + x^{src}_j)

    Args:
        x_dst, x_src: The features of targets and sources; one tensor if they are the same.
        att: A vector per head.
        graph: The graph.
        negative_slope: Slope of the LeakyReLU below zero.
        p: Probability of dropping a weight.
        training: False drops none.
        factor: f; 1 by default.
    """
    seed = draw_seed(x_src, p, training)
    given = (x_dst, x_src, att, factor)
    if _serve(graph, seed, p, *given):
        return _AttendAdditive.apply(*given, graph, negative_slope, p, seed)  # type: ignore[no-untyped-call]
    return _attend_additive(*given, graph, negative_slope, p, seed)


# ---- As compositions of other primitives --------------------------------------------------------


def _attend(
    scores_EH: Tensor, x_SHC: Tensor, graph: Graph, p: float, seed: Tensor | None
) -> Tensor:
    alpha_EH = segment_softmax(scores_EH, graph)
    return aggregate(dropout_by(seed, alpha_EH, p, graph.edge_numbers), x_SHC, graph)


def _attend_linear(
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    p: float,
    seed: Tensor | None,
) -> Tensor:
    # On a block only the first nodes are targets; the score of a pair is a sum of two parts.
    of_dst, of_src = head_dots(x_SHC, dst_HC, src_HC)
    scores_EH = at_target(targets(of_dst, graph), graph) + at_source(of_src, graph)
    scores_EH = F.leaky_relu(_scaled(scores_EH, factor_NH, graph), slope)
    return _attend(scores_EH, x_SHC, graph, p, seed)


def _attend_additive(
    dst_NHC: Tensor,
    src_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    p: float,
    seed: Tensor | None,
) -> Tensor:
    scores_EH = edge_additive(dst_NHC, src_SHC, att_HC, graph, slope)
    return _attend(_scaled(scores_EH, factor_NH, graph), src_SHC, graph, p, seed)


def _scaled(scores_EH: Tensor, factor_NH: Tensor | None, graph: Graph) -> Tensor:
    if factor_NH is None:
        return scores_EH
    return (scores_EH * at_target(factor_NH, graph)).to(scores_EH.dtype)


# ---- By kernels ---------------------------------------------------------------------------------


def _serve(graph: Graph, seed: Tensor | None, p: float, *values: Tensor | None) -> bool:
    """True if a kernel computes with these tensors."""
    if torch.compiler.is_compiling() or torch_internals.in_forward_mode():
        return False
    # Positions of a shard's edges in the whole graph are not known to a kernel.
    if graph.is_shard or (seed is not None and p == 1):
        return False
    return kernels.serve(graph, *(value for value in values if value is not None))


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, scores_EH: Tensor, x_SHC: Tensor, graph: Graph, p: float, seed: Tensor | None
    ) -> Tensor:
        y, alpha = kernels.attend(scores_EH, x_SHC, graph, mask(seed, p))
        ctx.save_for_backward(scores_EH, x_SHC, seed, alpha)
        ctx.graph, ctx.p = graph, p
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores_EH, x_SHC, seed, alpha = ctx.saved_tensors
        graph, p = ctx.graph, ctx.p
        if torch.is_grad_enabled():
            return *again(ctx, grads[0], _attend, (scores_EH, x_SHC), graph, p, seed), *[None] * 3
        found = kernels.attend_backward(grads[0], x_SHC, alpha, graph, mask(seed, p))
        return *found, None, None, None


class _AttendLinear(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_SHC: Tensor,
        dst_HC: Tensor,
        src_HC: Tensor,
        factor_NH: Tensor | None,
        graph: Graph,
        slope: float,
        p: float,
        seed: Tensor | None,
    ) -> Tensor:
        given = (x_SHC, dst_HC, src_HC, factor_NH)
        y, *kept = kernels.attend_linear(*given, graph, slope, mask(seed, p))
        ctx.save_for_backward(*given, seed, *kept)
        ctx.graph, ctx.slope, ctx.p = graph, slope, p
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *given, seed, of_dst, of_src, alpha = ctx.saved_tensors
        graph, slope, p = ctx.graph, ctx.slope, ctx.p
        if torch.is_grad_enabled():
            found = again(ctx, grads[0], _attend_linear, given, graph, slope, p, seed)
            return *found, *[None] * 4
        x_SHC, dst_HC, src_HC, factor_NH = given
        kept = of_dst, of_src, alpha
        dropout = mask(seed, p)
        gradients = kernels.attend_linear_backward(
            grads[0], x_SHC, dst_HC, src_HC, factor_NH, graph, slope, dropout, kept
        )
        return *gradients, None, None, None, None


class _AttendAdditive(Function):
    @staticmethod
    def forward(
        ctx: Any,
        dst_NHC: Tensor,
        src_SHC: Tensor,
        att_HC: Tensor,
        factor_NH: Tensor | None,
        graph: Graph,
        slope: float,
        p: float,
        seed: Tensor | None,
    ) -> Tensor:
        given = (dst_NHC, src_SHC, att_HC, factor_NH)
        y, alpha = kernels.attend_additive(*given, graph, slope, mask(seed, p))
        ctx.is_one = dst_NHC is src_SHC
        ctx.save_for_backward(*given, seed, alpha)
        ctx.graph, ctx.slope, ctx.p = graph, slope, p
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dst_NHC, src_SHC, att_HC, factor_NH, seed, alpha = ctx.saved_tensors
        graph, slope, p = ctx.graph, ctx.slope, ctx.p
        given = dst_NHC, src_SHC, att_HC, factor_NH
        if torch.is_grad_enabled():
            found = again(ctx, grads[0], _attend_additive, given, graph, slope, p, seed)
            return *found, *[None] * 4
        if ctx.is_one:
            dst_NHC = src_SHC
        dropout = mask(seed, p)
        gradients = kernels.attend_additive_backward(
            grads[0], dst_NHC, src_SHC, att_HC, factor_NH, graph, slope, dropout, alpha
        )
        return *gradients, None, None, None, None
