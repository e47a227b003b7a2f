"""Graph attention with additive scores."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_linear_scores
from gnn_depth.nn.functional import aggregate, dropout, edge_additive, segment_softmax, targets
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import AttentionLayer, Inputs, WeightChain
from gnn_depth.nn.scores import AdditiveScore
from gnn_depth.ranges import Count, Finite, Probability
from gnn_depth.registry import register


@register("layer", "gatv2")
class GATv2(AttentionLayer):
    r"""GATv2: average the neighbours with weights from a small network on each pair.

    .. math::
        s_{ij} = a \cdot \mathrm{LeakyReLU}(W_{dst} x_i + W_{src} x_j), \quad
        \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i) \cup \{i\}} s_{ij}, \quad
        x'_i = \sum_j \alpha_{ij} W_{src} x_j + b

    for each head; the heads are concatenated. Score norms act on s. Features :math:`e_{ij}` of the edges add
    :math:`W_{edge} e_{ij}` inside the LeakyReLU.
    Brody, Alon & Yahav, *How Attentive are Graph Attention Networks?*, ICLR 2022.

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

    takes_sparse = True
    takes_blocks = True
    takes_edge_features = True
    score = AdditiveScore

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
        super().__init__(in_channels, out_channels, heads, split_heads)
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.share_weights = share_weights
        self.lin_src = Linear(in_channels, self.width, bias=False)
        self.lin_dst = None if share_weights else Linear(in_channels, self.width, bias=False)
        self.lin_edge: Linear | None = None
        self.att = nn.Parameter(torch.empty(heads, self.out_channels))
        self.bias = nn.Parameter(torch.zeros(self.width)) if bias else None
        self.reset_parameters()

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self.lin_edge = Linear(channels, self.width, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (*self.weight_chain().incoming, self.att):
            glorot(weight)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        both = (self.lin_src.weight,) if self.lin_dst is None else (self.lin_src.weight, self.lin_dst.weight)
        bias = () if self.bias is None else (self.bias,)
        of_edges = () if self.lin_edge is None else (self.lin_edge.weight,)
        return WeightChain(incoming=(*both, *of_edges), outgoing=both, attention=(self.att,), bias=bias)

    def lipschitz_bound(self, graph: Graph, at_most: float | None = None) -> float | None:
        weight_dst = (self.lin_src if self.lin_dst is None else self.lin_dst).normed_weight
        return of_linear_scores(
            self, weight_dst, self.lin_src.normed_weight, graph.with_self_loops(), self.negative_slope, at_most
        )

    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]:
        graph = graph.with_self_loops()
        x_src = self.lin_src(x).view(-1, self.heads, self.out_channels)
        if self.lin_dst is None:
            x_dst = targets(x_src, graph)
        else:
            x_dst = self.lin_dst.of_targets(x, graph).view(-1, self.heads, self.out_channels)
        if self.lin_edge is None or graph.edge_attr is None:
            scores = edge_additive(x_dst, x_src, self.att, graph, self.negative_slope)
        else:
            of_edges = self.lin_edge(graph.edge_attr.to(x_src.dtype)).view(-1, self.heads, self.out_channels)
            pairs = x_dst.index_select(0, graph.target) + x_src.index_select(0, graph.source) + of_edges
            scores = (F.leaky_relu(pairs, self.negative_slope) * self.att).sum(-1)
        scores = self.normalise(scores, AdditiveScore(x_dst, x_src, self.att), graph)
        alpha = segment_softmax(scores, graph)
        out = aggregate(dropout(alpha, self.dropout, self.training, graph.edge_numbers), x_src, graph).flatten(1)
        return out if self.bias is None else out + self.bias
