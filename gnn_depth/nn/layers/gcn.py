"""Graph convolution."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_propagation, spectral_norm
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import Inputs, Layer, WeightChain
from gnn_depth.registry import register


@register("layer", "gcn")
class GCN(Layer):
    r"""Graph convolution (GCN): average the neighbours, weighted by degree, after a linear map.

    .. math:: x'_i = \sum_{j \in N(i) \cup \{i\}} \frac{1}{\sqrt{d_i d_j}} W x_j + b

    with degrees d that count the self-loop. With edge weights w the factor is :math:`w_{ij} / \sqrt{d_i d_j}` and d the
    sum of a node's weights; a self-loop that is added weighs 1. Kipf & Welling, *Semi-Supervised Classification with
    Graph Convolutional Networks*, ICLR 2017. With ``root_weight`` the node itself is added after a linear map of its
    own, :math:`W_{root} x_i`: the residual connection of Luo, Shi & Wu, *Classic GNNs are Strong Baselines*, NeurIPS
    2024.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        bias: Add b.
        root_weight: Add the node itself.
    """

    takes_sparse = True
    takes_edge_weights = True
    takes_blocks = True

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True, root_weight: bool = False) -> None:
        super().__init__(in_channels, out_channels)
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.lin_root = Linear(in_channels, out_channels, bias=False) if root_weight else None
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        glorot(self.lin.weight)
        if self.lin_root is not None:
            self.lin_root.reset_parameters()
        zeros(self.bias)

    def weight_chain(self) -> WeightChain:
        bias = () if self.bias is None else (self.bias,)
        both = (self.lin.weight,) if self.lin_root is None else (self.lin.weight, self.lin_root.weight)
        return WeightChain(incoming=both, outgoing=both, bias=bias)

    def lipschitz_bound(self, graph: Graph, at_most: float | None = None) -> float:
        own = 0.0 if self.lin_root is None else spectral_norm(self.lin_root.normed_weight, at_most=at_most)
        return of_propagation(graph.with_self_loops()) * spectral_norm(self.lin.normed_weight, at_most=at_most) + own

    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]:
        graph = graph.with_self_loops()
        h = self.lin(x)
        out = aggregate(graph.gcn_weights(h.dtype), h, graph)
        if self.lin_root is not None:
            out = out + self.lin_root.of_targets(x, graph)
        return out if self.bias is None else out + self.bias
