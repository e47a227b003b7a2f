"""Graph attention with linear scores."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_linear_scores
from gnn_depth.nn.functional import aggregate, at_source, at_target, dropout, head_dots, segment_softmax, targets
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import AttentionLayer, Inputs, WeightChain
from gnn_depth.nn.scores import LinearScore
from gnn_depth.ranges import Count, Finite, Probability
from gnn_depth.registry import register


@register("layer", "gat")
class GAT(AttentionLayer):
    r"""Graph attention (GAT): average the neighbours with weights from a linear score of each pair.

    .. math::
        h = W x, \quad s_{ij} = a_{dst} \cdot h_i + a_{src} \cdot h_j, \quad
        \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i) \cup \{i\}} \mathrm{LeakyReLU}(s_{ij}), \quad
        x'_i = \sum_j \alpha_{ij} h_j + b

    for each head; the heads are concatenated. Score norms act on s, before the LeakyReLU. Features :math:`e_{ij}` of
    the edges add :math:`a_{edge} \cdot W_{edge} e_{ij}` to s.
    Veličković et al., *Graph Attention Networks*, ICLR 2018.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        negative_slope: Slope of the LeakyReLU below zero.
        dropout: Probability of dropping an attention weight in training.
        bias: Add b.
        split_heads: Interpret out_channels as the width of all heads together.
    """

    takes_sparse = True
    takes_blocks = True
    takes_edge_features = True
    score = LinearScore

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
        super().__init__(in_channels, out_channels, heads, split_heads)
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.lin = Linear(in_channels, self.width, bias=False)
        self.att_dst = nn.Parameter(torch.empty(heads, self.out_channels))
        self.att_src = nn.Parameter(torch.empty(heads, self.out_channels))
        self.lin_edge: Linear | None = None
        self.att_edge: nn.Parameter | None = None
        self.bias = nn.Parameter(torch.zeros(self.width)) if bias else None
        self.reset_parameters()

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self.lin_edge = Linear(channels, self.width, bias=False)
        self.att_edge = nn.Parameter(torch.empty(self.heads, self.out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.lin.weight, self.att_dst, self.att_src):
            glorot(weight)
        if self.lin_edge is not None:
            glorot(self.lin_edge.weight)
            glorot(self.att_edge)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        bias = () if self.bias is None else (self.bias,)
        return WeightChain((self.lin.weight,), (self.lin.weight,), (self.att_dst, self.att_src), bias)

    def lipschitz_bound(self, graph: Graph, at_most: float | None = None) -> float | None:
        weight = self.lin.normed_weight
        return of_linear_scores(self, weight, weight, graph.with_self_loops(), self.negative_slope, at_most)

    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]:
        graph = graph.with_self_loops()
        h = self.lin(x).view(-1, self.heads, self.out_channels)
        score_dst, score_src = head_dots(h, self.att_dst, self.att_src)
        scores = at_target(targets(score_dst, graph), graph) + at_source(score_src, graph)
        if self.lin_edge is not None and graph.edge_attr is not None and self.att_edge is not None:
            weight = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
            scores = scores + graph.edge_attr.to(h.dtype) @ (self.att_edge[..., None] * weight).sum(1).t()
        scores = self.normalise(scores, LinearScore(h, self.att_dst, self.att_src), graph)
        alpha = segment_softmax(F.leaky_relu(scores, self.negative_slope), graph)
        out = aggregate(dropout(alpha, self.dropout, self.training, graph.edge_numbers), h, graph).flatten(1)
        return out if self.bias is None else out + self.bias
