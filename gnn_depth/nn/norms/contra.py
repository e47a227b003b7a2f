"""ContraNorm: push similar nodes apart."""

import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.ranges import NonNegative, Positive
from gnn_depth.registry import register


@register("norm", "contra")
class ContraNorm(FeatureNorm):
    r"""ContraNorm: move each node away from the nodes that are similar to it, then a layer norm.

    .. math::
        S_{i\cdot} = \mathrm{softmax}_{j \notin N(i)} \big( \cos(x_i, x_j) / \tau \big), \qquad
        \tilde x_i = \mathrm{LN}\Big( (1 + s) x_i - s \sum_j S_{ij} x_j \Big)

    over the nodes of the same graph that send no edge to i, and i itself. It takes time and memory
    of nodes x nodes. Guo, Wang, Du & Wang, *ContraNorm: A Contrastive Learning Perspective on
    Oversmoothing and Beyond*, ICLR 2023. The layer norm has no parameters.

    Args:
        channels: Width of the node features.
        scale: s, how far a node is moved; larger for deeper networks.
        temperature: Tau.
    """

    def __init__(
        self, channels: int, scale: NonNegative = 0.5, temperature: Positive = 1.0
    ) -> None:
        super().__init__(channels)
        self.scale = scale
        self.temperature = temperature

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        # Rows of zeros have no direction. EPS keeps their gradient finite.
        length = (wide.square().sum(1, keepdim=True) + EPS).sqrt()
        direction = wide / length
        similarity = direction @ direction.t() / self.temperature
        left_out = graph.once("contra", lambda: _left_out(graph))
        similarity = similarity.masked_fill(left_out, -torch.inf)
        pushed = (1 + self.scale) * wide - self.scale * (similarity.softmax(1) @ wide)
        return F.layer_norm(pushed, (self.channels,)).to(x.dtype)


#: Added to squared lengths.
EPS = 1e-12


def _left_out(graph: Graph) -> Tensor:
    """True for pairs (target, source) of different graphs, and of neighbours."""
    size = (graph.num_nodes, graph.num_nodes)
    left_out = torch.zeros(size, dtype=torch.bool, device=graph.device)
    left_out[graph.target, graph.source] = True
    # Nodes of other graphs are no negatives either: each graph of a batch is as it is alone.
    if graph.node_to_graph is not None:
        left_out |= graph.node_to_graph[:, None] != graph.node_to_graph
    # Not by fill_diagonal_, which torch.export does not know.
    itself = torch.arange(graph.num_nodes, device=graph.device)
    left_out[itself, itself] = False
    return left_out
