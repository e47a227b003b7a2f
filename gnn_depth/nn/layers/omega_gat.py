"""Graph attention with a learned propagation weight for each channel."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import (
    SparseFeatures,
    aggregate,
    at_source,
    at_target,
    dropout,
    head_dots,
    linear,
    segment_softmax,
    targets,
)
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import AttentionLayer, Inputs, WeightChain
from gnn_depth.nn.scores import LinearScore
from gnn_depth.ranges import Count, Finite, Probability
from gnn_depth.registry import register


@register("layer", "omega_gat")
class OmegaGAT(AttentionLayer):
    r"""Omega-GAT: move each channel towards or away from the attention-weighted mean of the neighbours.

    .. math::
        x'_i = W \Big( x_i - \omega \odot \big( x_i - \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} x_j \big) \Big) + b

    for each head, with the attention weights :math:`\alpha` of a :class:`GAT` and one learned :math:`\omega` for each
    incoming channel. :math:`\omega` starts at 1, where the layer is a GAT. Values between 0 and 1 smooth less, values
    below 0 sharpen. The heads are concatenated.
    Eliasof, Ruthotto & Treister, *Improving Graph Neural Networks with Learnable Propagation Operators*, ICML 2023.

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
        self.omega = nn.Parameter(torch.ones(in_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, self.out_channels))
        self.att_src = nn.Parameter(torch.empty(heads, self.out_channels))
        self.bias = nn.Parameter(torch.zeros(self.width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.lin.weight, self.att_dst, self.att_src):
            glorot(weight)
        nn.init.ones_(self.omega)
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        # Omega multiplies the output of a neuron and does not depend on the neuron's scale.
        bias = () if self.bias is None else (self.bias,)
        return WeightChain((self.lin.weight,), (self.lin.weight,), (self.att_dst, self.att_src), bias)

    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]:
        graph = graph.with_self_loops()
        shape = (-1, self.heads, self.out_channels)
        h = self.lin(x).view(shape)
        # Propagate W (omega x) instead of x: the result is the same, and the tensor is narrower.
        weight = self.lin.normed_weight * self.omega
        moving = (x.linear(weight, None) if isinstance(x, SparseFeatures) else linear(x, weight)).view(shape)
        score_dst, score_src = head_dots(h, self.att_dst, self.att_src)
        scores = at_target(targets(score_dst, graph), graph) + at_source(score_src, graph)
        scores = self.normalise(scores, LinearScore(h, self.att_dst, self.att_src), graph)
        alpha = segment_softmax(F.leaky_relu(scores, self.negative_slope), graph)
        kept = targets(h, graph) - targets(moving, graph)
        out = (
            kept + aggregate(dropout(alpha, self.dropout, self.training, graph.edge_numbers), moving, graph)
        ).flatten(1)
        return out if self.bias is None else out + self.bias
