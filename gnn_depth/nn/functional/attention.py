r"""Attention: softmax of scores, dropout of the weights, and the weighted sum over the neighbours.

.. math:: y_i = \sum_j m_{ij} \alpha_{ij} x_j, \qquad
    \alpha_{i \cdot} = \mathrm{softmax}_j \, s_{ij}

with dropout's factors m, for each head. The scores are given, or computed inside: then not even a
tensor of edges x heads is needed besides the weights.

Each function is a composition of other primitives, which is what runs in compiled code, on other
devices, under transforms and for second derivatives, and a kernel that computes the same at once.
"""

# N nodes, S sources, E edges, H heads, C channels

from typing import Any, TypeAlias

import torch.nn.functional as F
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.additive import edge_additive
from gnn_depth.nn.functional.dropout import draw_mask, dropout_by
from gnn_depth.nn.functional.rules import by_kernel
from gnn_depth.nn.functional.segments import (
    at_source,
    at_target,
    head_dots,
    segment_softmax,
    targets,
)
from gnn_depth.nn.functional.sparse import sum_messages
from gnn_depth.nn.native import kernels
from gnn_depth.nn.native.masks import Mask
from gnn_depth.nn.shapes import (
    EdgesHeads,
    HeadsChannels,
    NodesHeads,
    NodesHeadsChannels,
    SourcesHeadsChannels,
)

Tensors: TypeAlias = tuple[Any, ...]


def attend(
    scores: EdgesHeads,
    x: SourcesHeadsChannels,
    graph: Graph,
    p: float = 0.0,
    training: bool = False,
) -> NodesHeadsChannels:
    """Sum the sources, weighted by the softmax of given scores.

    Args:
        scores: The score of every edge.
        x: The features of the sources.
        graph: The graph.
        p: Probability of dropping a weight.
        training: False drops none.
    """
    return _attend(scores, x, graph, draw_mask(scores, p, training))


def attend_linear(
    x: SourcesHeadsChannels,
    att_dst: HeadsChannels,
    att_src: HeadsChannels,
    graph: Graph,
    negative_slope: float,
    p: float = 0.0,
    training: bool = False,
    factor: NodesHeads | None = None,
) -> NodesHeadsChannels:
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
    dropout = draw_mask(x, p, training)
    return _attend_linear(x, att_dst, att_src, factor, graph, negative_slope, dropout)


def attend_additive(
    x_dst: NodesHeadsChannels,
    x_src: SourcesHeadsChannels,
    att: HeadsChannels,
    graph: Graph,
    negative_slope: float,
    p: float = 0.0,
    training: bool = False,
    factor: NodesHeads | None = None,
) -> NodesHeadsChannels:
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
    dropout = draw_mask(x_src, p, training)
    own = None if x_dst is x_src else x_dst
    return _attend_additive(own, x_src, att, factor, graph, negative_slope, dropout)


# ---- As compositions of other primitives --------------------------------------------------------


def _attend_composed(scores_EH: Tensor, x_SHC: Tensor, graph: Graph, dropout: Mask) -> Tensor:
    alpha_EH = segment_softmax(scores_EH, graph)
    alpha_EH = dropout_by(dropout, alpha_EH, graph.edge_numbers)
    return sum_messages(alpha_EH, x_SHC, graph)


def _attend_linear_composed(
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> Tensor:
    # On a block only the first nodes are targets; the score of a pair is a sum of two parts.
    of_dst, of_src = head_dots(x_SHC, dst_HC, src_HC)
    scores_EH = at_target(targets(of_dst, graph), graph) + at_source(of_src, graph)
    scores_EH = F.leaky_relu(_scaled(scores_EH, factor_NH, graph), slope)
    return _attend(scores_EH, x_SHC, graph, dropout)


def _attend_additive_composed(
    dst_NHC: Tensor | None,
    src_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> Tensor:
    if dst_NHC is None:  # both ends have the same features
        dst_NHC = src_SHC
    scores_EH = edge_additive(dst_NHC, src_SHC, att_HC, graph, slope)
    return _attend(_scaled(scores_EH, factor_NH, graph), src_SHC, graph, dropout)


def _scaled(scores_EH: Tensor, factor_NH: Tensor | None, graph: Graph) -> Tensor:
    if factor_NH is None:
        return scores_EH
    # A factor may be wider than scores of 16 bits.
    return (scores_EH * at_target(factor_NH, graph)).to(scores_EH.dtype)


# ---- By kernels ---------------------------------------------------------------------------------


def _serve(given: Tensors, graph: Graph, *others: Any) -> bool:
    """True if a kernel computes with these tensors."""
    # A kernel does not know the positions of a shard's edges in the whole graph, which decide what
    # is dropped; and dropped messages must exist.
    if graph.is_shard or graph.message_dropout:
        return False
    return kernels.serve(given, graph)


def _serve_on_cpu(given: Tensors, graph: Graph, *others: Any) -> bool:
    # A GPU has kernels for the scores and for the rest.
    return not kernels.is_on_gpu(given[1]) and _serve(given, graph, *others)


_attend = by_kernel(_attend_composed, _serve, kernels.attend_forward, kernels.attend_backward, 2)
_attend_linear = by_kernel(
    _attend_linear_composed,
    _serve,
    kernels.attend_linear_forward,
    kernels.attend_linear_backward,
    4,
)
_attend_additive = by_kernel(
    _attend_additive_composed,
    _serve_on_cpu,
    kernels.attend_additive_forward,
    kernels.attend_additive_backward,
    4,
)
