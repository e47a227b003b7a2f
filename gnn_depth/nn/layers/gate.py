"""GATE: attention that can switch a node's neighbours off."""

import torch
from torch import nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, at_target, edge_additive, segment_softmax, targets
from gnn_depth.nn.linear import Linear, make_bias, weights_of
from gnn_depth.nn.parts import Inputs, Layer, Outputs, WeightChain, present
from gnn_depth.ranges import Count
from gnn_depth.registry import register


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

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        shape = (-1, self.heads, self.out_channels)
        h_src = self.lin_src(x).view(shape)
        h_dst = self.lin_dst.of_targets(x, graph).view(shape)
        # A LeakyReLU of slope 0 is the ReLU. Loops get a score too, which is replaced.
        of_neighbours = edge_additive(h_dst, h_src, self.att_src, graph, 0.0)
        of_node = (torch.relu(h_dst + targets(h_src, graph)) * self.att_dst).sum(-1)
        is_loop = (graph.source == graph.target)[:, None]
        scores = torch.where(is_loop, at_target(of_node, graph), of_neighbours)
        out = aggregate(segment_softmax(scores, graph), h_src, graph).flatten(1)
        if self.bias is not None:
            out = out + self.bias
        return out
