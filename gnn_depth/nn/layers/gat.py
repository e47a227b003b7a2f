"""Graph attention: GAT and omega-GAT with linear scores, GATv2 and GATE with additive ones."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_attention
from gnn_depth.nn.functional import (
    aggregate,
    at_source,
    at_target,
    attend,
    attend_additive,
    attend_linear,
    edge_additive,
    head_dots,
    plus,
    segment_softmax,
    targets,
)
from gnn_depth.nn.linear import Linear, make_bias, mapped, weights_of
from gnn_depth.nn.parts import AttentionLayer, Inputs, Layer, Outputs, WeightChain, present
from gnn_depth.nn.scores import AdditiveScore, LinearScore
from gnn_depth.nn.shapes import EdgesHeads, SourcesHeadsChannels
from gnn_depth.ranges import Count, Finite, Probability, in_range
from gnn_depth.registry import register


class _Attention(AttentionLayer):
    """Attention of each node over its neighbours and itself, after linear maps.

    Subclasses have the maps and say what the scores are made of. ``at_once`` computes scores,
    softmax and sum together: it takes what the scores are made of, in that order.
    """

    takes_sparse = True
    takes_blocks = True
    at_once: ClassVar[Callable[..., Tensor]]
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int,
        split_heads: bool,
        negative_slope: float,
        dropout: float,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, split_heads)
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.lin_root: Linear | None = None  # set by GAT
        self.lin_edge: Linear | None = None  # set by add_edge_features

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self.lin_edge = Linear(channels, self.width, bias=False)
        self.reset_parameters()

    @abstractmethod
    def mapped(self, x: Inputs, graph: Graph) -> tuple[Any, SourcesHeadsChannels]:
        """The inputs of the scores, and the values that are summed."""

    @abstractmethod
    def scores(self, score: Any, graph: Graph) -> EdgesHeads:
        """Compute the scores of all edges."""

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor] | None:
        if self.edge_channels:
            return None
        graph = graph.with_self_loops()
        score, _ = self.mapped(x, graph)
        return graph, segment_softmax(self.scores(score, graph), graph)

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        score, value = self.mapped(x, graph)
        dropout = self.dropout, self.training
        # Edge features need a score for every edge; otherwise attention is computed without them
        # where the norms allow it.
        if self.scales_targets and not self.edge_channels:
            factor = self.target_factor(score, graph)
            given = *vars(score).values(), graph, self.negative_slope
            out = self.at_once(*given, *dropout, factor)
        else:
            out = attend(self.scores(score, graph), value, graph, *dropout)
        out = out.flatten(1)
        if self.lin_root is not None:
            out = out + self.lin_root.of_targets(x, graph)
        return plus(out, self.bias)


class _LinearAttention(_Attention):
    """The shared part of GAT and omega-GAT: one linear map, then attention with linear scores."""

    score = LinearScore
    at_once = staticmethod(attend_linear)
    has_omega = False

    # ``register`` checks ranges only in a class with a constructor of its own.
    @in_range
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: Count = 1,
        negative_slope: Finite = 0.2,
        dropout: Probability = 0.0,
        bias: bool = True,
        split_heads: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, split_heads, negative_slope, dropout)
        self.lin = Linear(in_channels, self.width, bias=False)
        if self.has_omega:
            self.omega = nn.Parameter(torch.ones(in_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, self.out_channels))
        self.att_src = nn.Parameter(torch.empty(heads, self.out_channels))
        self.bias = make_bias(self.width, bias)
        self.att_edge: nn.Parameter | None = None  # set by add_edge_features
        self.reset_parameters()

    def reset_parameters(self) -> None:
        drawn = self.lin.weight, self.att_dst, self.att_src, *weights_of(self.lin_edge)
        for weight in (*drawn, *present(self.att_edge)):
            glorot(weight)
        if self.lin_root is not None:
            self.lin_root.reset_parameters()
        if self.has_omega:
            nn.init.ones_(self.omega)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        # One matrix does both: its rows lead into the neurons of this layer, its columns out of
        # those of the layer before. Omega is not listed, as rescaling a neuron does not change it.
        matrices = weights_of(self.lin, self.lin_root)
        return WeightChain(
            incoming=matrices,
            outgoing=matrices,
            attention=(self.att_dst, self.att_src),
            bias=present(self.bias),
        )

    def mapped(self, x: Inputs, graph: Graph) -> tuple[LinearScore, SourcesHeadsChannels]:
        h = self.by_head(self.lin(x))
        return LinearScore(h, self.att_dst, self.att_src), h

    def scores(self, score: LinearScore, graph: Graph) -> EdgesHeads:
        # On a block only the first nodes are targets; the score of a pair is a sum of two parts.
        score_dst, score_src = head_dots(score.x, score.att_dst, score.att_src)
        scores = at_target(targets(score_dst, graph), graph) + at_source(score_src, graph)
        if self.lin_edge is not None and self.att_edge is not None and graph.edge_attr is not None:
            # a (W e) = (a W) e, and the second form needs no tensor of edges x heads x channels.
            weight = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
            att = (self.att_edge[..., None] * weight).sum(1)
            scores = scores + graph.edge_attr.to(score.x.dtype) @ att.t()
        return F.leaky_relu(self.normalise(scores, score, graph), self.negative_slope)


@register("layer", "gat")
class GAT(_LinearAttention):
    r"""Graph attention (GAT): average the neighbours with weights from a linear score of each pair.

    .. math::
        h = W x, \quad s_{ij} = a_{dst} \cdot h_i + a_{src} \cdot h_j, \quad
        \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i) \cup \{i\}} \mathrm{LeakyReLU}(s_{ij}), \quad
        x'_i = \sum_j \alpha_{ij} h_j + b

    for each head; the heads are concatenated. Score norms act on s, before the LeakyReLU. Features
    :math:`e_{ij}` of the edges add :math:`a_{edge} \cdot W_{edge} e_{ij}` to s. Veličković et al.,
    *Graph Attention Networks*, ICLR 2018. With ``root_weight`` the node itself is added after a
    linear map of its own, :math:`W_{root} x_i`, as in :class:`gnn_depth.nn.layers.GCN`.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        root_weight: Add the node itself.
        negative_slope: Slope of the LeakyReLU below zero.
        dropout: Probability of dropping an attention weight in training.
        bias: Add b.
        split_heads: Interpret out_channels as the width of all heads together.
    """

    takes_edge_features = True
    drops_messages = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: Count = 1,
        root_weight: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, **options)
        if root_weight:
            self.lin_root = Linear(in_channels, self.width, bias=False)

    def add_edge_features(self, channels: int) -> None:
        self.att_edge = nn.Parameter(torch.empty(self.heads, self.out_channels))
        super().add_edge_features(channels)

    def lipschitz_bound(self, graph: Graph) -> float | None:
        weight = self.lin.normed_weight
        graph = graph.with_self_loops()
        return of_attention(self, (weight, weight), graph, self.negative_slope, self.lin_root)


@register("layer", "omega_gat")
class OmegaGAT(_LinearAttention):
    r"""Omega-GAT: move each channel towards the weighted mean of the neighbours, or away from it.

    .. math::
        x'_i = W \Big( x_i - \omega \odot
        \big( x_i - \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} x_j \big) \Big) + b

    for each head, with the attention weights :math:`\alpha` of a :class:`GAT` and one learned
    :math:`\omega` for each incoming channel. It starts at 1, and as long as it is 1 the layer is a
    GAT. Values between 0 and 1 smooth less, values below 0 sharpen. The heads are concatenated.
    Eliasof, Ruthotto & Treister, *Improving Graph Neural Networks with Learnable Propagation
    Operators*, ICML 2023.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        negative_slope: Slope of the LeakyReLU below zero.
        dropout: Probability of dropping an attention weight in training.
        bias: Add b.
        split_heads: Interpret out_channels as the width of all heads together.
    """

    has_omega = True

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        score, h = self.mapped(x, graph)
        # Propagate W (omega x), not x: the result is the same, and x would go along the edges once
        # for each head.
        omega_h = self.by_head(mapped(x, self.lin.normed_weight * self.omega))
        own = targets(h, graph) - targets(omega_h, graph)
        mean = attend(self.scores(score, graph), omega_h, graph, self.dropout, self.training)
        return plus((own + mean).flatten(1), self.bias)


@register("layer", "gatv2")
class GATv2(_Attention):
    r"""GATv2: average the neighbours with weights from a small network on each pair.

    .. math::
        s_{ij} = a \cdot \mathrm{LeakyReLU}(W_{dst} x_i + W_{src} x_j), \quad
        \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i) \cup \{i\}} s_{ij}, \quad
        x'_i = \sum_j \alpha_{ij} W_{src} x_j + b

    for each head; the heads are concatenated. Score norms act on s. Features :math:`e_{ij}` of the
    edges add :math:`W_{edge} e_{ij}` inside the LeakyReLU. Brody, Alon & Yahav, *How Attentive are
    Graph Attention Networks?*, ICLR 2022.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        negative_slope: Slope of the LeakyReLU below zero.
        dropout: Probability of dropping an attention weight in training.
        bias: Add b.
        share_weights: Use one matrix as W_dst and W_src.
        split_heads: Interpret out_channels as the width of all heads together.
    """

    takes_edge_features = True
    score = AdditiveScore
    at_once = staticmethod(attend_additive)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: Count = 1,
        negative_slope: Finite = 0.2,
        dropout: Probability = 0.0,
        bias: bool = True,
        share_weights: bool = False,
        split_heads: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, split_heads, negative_slope, dropout)
        self.share_weights = share_weights
        self.lin_src = Linear(in_channels, self.width, bias=False)
        self.lin_dst = None if share_weights else Linear(in_channels, self.width, bias=False)
        self.att = nn.Parameter(torch.empty(heads, self.out_channels))
        self.bias = make_bias(self.width, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        matrices = self.weight_chain().incoming  # W_src, and W_dst and W_edge if there are any
        for weight in (*matrices, self.att):
            glorot(weight)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        # Edge features are no neurons of the layer before, so their matrix leads in alone.
        return WeightChain(
            incoming=weights_of(self.lin_src, self.lin_dst, self.lin_edge),
            outgoing=weights_of(self.lin_src, self.lin_dst),
            attention=(self.att,),
            bias=present(self.bias),
        )

    def lipschitz_bound(self, graph: Graph) -> float | None:
        src = self.lin_src.normed_weight
        dst = src if self.lin_dst is None else self.lin_dst.normed_weight
        return of_attention(self, (dst, src), graph.with_self_loops(), self.negative_slope)

    def mapped(self, x: Inputs, graph: Graph) -> tuple[AdditiveScore, SourcesHeadsChannels]:
        x_src = self.by_head(self.lin_src(x))
        if self.lin_dst is None:
            x_dst = targets(x_src, graph)
        else:
            x_dst = self.by_head(self.lin_dst.of_targets(x, graph))
        return AdditiveScore(x_dst, x_src, self.att), x_src

    def scores(self, score: AdditiveScore, graph: Graph) -> EdgesHeads:
        x_dst, x_src = score.x_dst, score.x_src
        if self.lin_edge is None or graph.edge_attr is None:
            scores = edge_additive(x_dst, x_src, self.att, graph, self.negative_slope)
        else:
            # As those of edge_additive, with one more term inside the LeakyReLU.
            of_edges = self.by_head(self.lin_edge(graph.edge_attr.to(x_src.dtype)))
            pairs = x_dst.index_select(0, graph.target) + x_src.index_select(0, graph.source)
            scores = (F.leaky_relu(pairs + of_edges, self.negative_slope) * self.att).sum(-1)
        return self.normalise(scores, score, graph)


@register("layer", "gate")
class GATE(Layer):
    r"""GATE: attention with separate scores for neighbours and for the node itself.

    .. math::
        s_{ij} = a_{src} \cdot \mathrm{ReLU}(W_{dst} x_i + W_{src} x_j), \quad
        s_{ii} = a_{dst} \cdot \mathrm{ReLU}(W_{dst} x_i + W_{src} x_i), \quad
        x'_i = \sum_{j \in N(i) \cup \{i\}} \mathrm{softmax}_j(s_{ij}) W_{src} x_j + b

    for each head; the heads are concatenated. With a large :math:`a_{dst}` a node ignores its
    neighbours, which GAT cannot learn. Mustafa & Burkholz, *GATE: How to Keep Out Intrusive
    Neighbors*, ICML 2024.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        bias: Add b.
    """

    takes_sparse = True
    takes_blocks = True

    def __init__(
        self, in_channels: int, out_channels: int, heads: Count = 1, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, heads)
        self.lin_src = Linear(in_channels, self.width, bias=False)
        self.lin_dst = Linear(in_channels, self.width, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = make_bias(self.width, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.lin_src.weight, self.lin_dst.weight, self.att_src, self.att_dst):
            glorot(weight)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        matrices = weights_of(self.lin_src, self.lin_dst)
        return WeightChain(
            incoming=matrices,
            outgoing=matrices,
            attention=(self.att_src, self.att_dst),
            bias=present(self.bias),
        )

    def limits(self, graph: Graph) -> tuple[Tensor, None]:
        # As of other attention: the weights of a node's edges add up to 1.
        return torch.ones(graph.num_nodes, device=graph.device), None

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor]:
        graph = graph.with_self_loops()
        return graph, self._weights(x, self.by_head(self.lin_src(x)), graph)

    def _weights(self, x: Inputs, h_src: SourcesHeadsChannels, graph: Graph) -> EdgesHeads:
        """The attention weights of all edges, given the sources after their map."""
        h_dst = self.by_head(self.lin_dst.of_targets(x, graph))
        # A LeakyReLU of slope 0 is the ReLU. Loops get a score too, which is replaced.
        of_neighbours = edge_additive(h_dst, h_src, self.att_src, graph, 0.0)
        of_node = (torch.relu(h_dst + targets(h_src, graph)) * self.att_dst).sum(-1)
        is_loop = (graph.source == graph.target)[:, None]
        scores = torch.where(is_loop, at_target(of_node, graph), of_neighbours)
        return segment_softmax(scores, graph)

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        h_src = self.by_head(self.lin_src(x))
        out = aggregate(self._weights(x, h_src, graph), h_src, graph).flatten(1)
        return plus(out, self.bias)
