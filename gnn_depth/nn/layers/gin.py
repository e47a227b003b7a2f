"""Graph isomorphism network."""

import torch
from torch import nn
from torch_geometric.nn.inits import uniform

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import (
    SparseFeatures,
    drop_entries,
    plus,
    segment_sum,
    sum_messages,
    targets,
)
from gnn_depth.nn.linear import Linear, make_bias
from gnn_depth.nn.norms.batch import BatchNorm
from gnn_depth.nn.parts import Inputs, Layer, Outputs, WeightChain, present
from gnn_depth.ranges import Finite
from gnn_depth.registry import register


@register("layer", "gin")
class GIN(Layer):
    r"""Graph isomorphism network (GIN): sum the neighbours, then apply two linear maps and a ReLU.

    .. math::
        x'_i = W_2 \, \mathrm{ReLU}(W_1 s_i + b_1) + b_2, \qquad
        s_i = (1 + \epsilon) x_i + \sum_{j \in N(i)} x_j

    With edge weights w the sum is :math:`\sum_j w_{ij} x_j`, with edge features e that of GINE (Hu
    et al., *Strategies for Pre-training Graph Neural Networks*, ICLR 2020): :math:`\sum_j
    \mathrm{ReLU}(x_j + W_{edge} e_{ij} + b_{edge})`. Xu, Hu, Leskovec & Jegelka, *How Powerful are
    Graph Neural Networks?*, ICLR 2019.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features, and of those between the two maps.
        eps: epsilon; its initial value if it is learned.
        train_eps: Learn epsilon.
        batch_norm: Apply batch norm between the first map and the ReLU, as the authors do.
        bias: Add :math:`b_1` and :math:`b_2`.
    """

    takes_sparse = True
    takes_edge_weights = True
    takes_edge_features = True
    drops_messages = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        eps: Finite = 0.0,
        train_eps: bool = False,
        batch_norm: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.takes_blocks = not batch_norm  # batch norm reads all nodes
        self.takes_shards = batch_norm
        self.initial_eps = eps
        self.eps: float | nn.Parameter = eps
        if train_eps:
            self.eps = nn.Parameter(torch.empty(1))
        self.lin = Linear(in_channels, out_channels, bias=False)
        # Apart from the map, because the sum over the neighbours comes between them.
        self.bias = make_bias(out_channels, bias)
        self.batch_norm = BatchNorm(out_channels) if batch_norm else None
        self.lin_out = Linear(out_channels, out_channels, bias=bias)
        self.lin_edge: Linear | None = None
        self.reset_parameters()

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self.lin_edge = Linear(channels, self.in_channels)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        uniform(self.in_channels, self.bias)
        self.lin_out.reset_parameters()
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()
        if self.batch_norm is not None:
            self.batch_norm.norm.reset_parameters()
        if isinstance(self.eps, nn.Parameter):
            nn.init.constant_(self.eps, self.initial_eps)

    def weight_chain(self) -> WeightChain:
        if self.lin_edge is not None:
            raise ValueError(
                "layer 'gin' has a ReLU before the sum where edges have features: its law is "
                "unknown."
            )
        # Neurons between the two maps lie inside the layer, and nothing rescales them.
        return WeightChain(
            incoming=(self.lin_out.weight,),
            outgoing=(self.lin.weight,),
            bias=present(self.lin_out.bias),
        )

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        if self.lin_edge is not None and graph.edge_attr is not None:
            if isinstance(x, SparseFeatures):
                x = x.dense()
            of_edges = self.lin_edge(graph.edge_attr.to(x.dtype))
            message = (x.index_select(0, graph.source) + of_edges).relu()
            if graph.edge_weight is not None:
                message = graph.edge_weight.to(x.dtype)[:, None] * message
            message = drop_entries(message, graph)
            out = self.lin((1 + self.eps) * targets(x, graph) + segment_sum(message, graph))
        else:
            h = self.lin(x)  # before the sum, to sum features of the output's width
            own = (1 + self.eps) * targets(h, graph)
            out = own + sum_messages(graph.sum_weights(h.dtype), h, graph)
        out = plus(out, self.bias)
        if self.batch_norm is not None:
            out = self.batch_norm(out, graph)
        return self.lin_out(out.relu())
