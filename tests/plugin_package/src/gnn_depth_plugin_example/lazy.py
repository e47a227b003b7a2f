"""A layer with a weight chain."""

from torch import Tensor, nn

from gnn_depth import Graph, Layer, register
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.parts import WeightChain


@register("layer", "lazy_gcn")
class LazyGCN(Layer):
    r"""Average the neighbours as a GCN does, and keep a share of what a node sent itself.

    .. math:: x'_i = p \, W x_i + (1 - p) \sum_{j \in N(i) \cup \{i\}} \frac{1}{\sqrt{d_i d_j}} W x_j

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        laziness: p, the share that is kept.

    Raises:
        ValueError: The share is outside [0, 1].
    """

    def __init__(self, in_channels: int, out_channels: int, laziness: float = 0.5) -> None:
        super().__init__(in_channels, out_channels)
        if not 0 <= laziness <= 1:
            raise ValueError(f"laziness of layer 'lazy_gcn' is a share, in [0, 1], not {laziness}.")
        self.laziness = laziness
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def weight_chain(self) -> WeightChain:
        return WeightChain(incoming=(self.lin.weight,), outgoing=(self.lin.weight,))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        graph = graph.with_self_loops()
        h = self.lin(x)
        mean = aggregate(graph.gcn_weights(h.dtype), h, graph)
        return self.laziness * h + (1 - self.laziness) * mean
