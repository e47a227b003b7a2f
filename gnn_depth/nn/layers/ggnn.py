"""Gated graph network."""

import torch.nn.functional as F
from torch import nn
from torch_geometric.nn.inits import uniform

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, targets
from gnn_depth.nn.layers.dynamics import check_width
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import DenseInputs, Layer, Outputs
from gnn_depth.registry import register


@register("layer", "ggnn")
class GGNN(Layer):
    r"""Gated graph network (GGNN): a GRU updates each node by the sum of its neighbours' messages.

    .. math:: x'_i = \mathrm{GRU}(m_i, x_i), \qquad m_i = \sum_{j \in N(i)} x_j W

    where x is padded with zeros to the width of the state. The published network is recurrent: one
    layer is shared by all depths. Set ``share_layers`` of the stack for this.
    Li, Tarlow, Brockschmidt & Zemel, *Gated Graph Sequence Neural Networks*, ICLR 2016.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the state, no less than in_channels.
        bias: Add biases to the gates.

    Raises:
        ValueError: The state is narrower than the features.
    """

    takes_blocks = True

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels)
        check_width(self)
        self.lin = _Map(out_channels, out_channels, bias=False)
        self.gru = nn.GRUCell(out_channels, out_channels, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        uniform(self.out_channels, self.lin.weight)
        self.gru.reset_parameters()

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        weight = self.lin.normed_weight  # shape (inputs, outputs): the published product is x W
        state = targets(x, graph)
        padding = self.out_channels - self.in_channels
        if padding:
            # Zeros of the padded features meet the last rows of the weight, so both are left out.
            weight = weight[: self.in_channels]
            state = F.pad(state, (0, padding))
        messages = F.linear(x, weight.t())
        received = aggregate(messages.new_ones(graph.num_edges), messages, graph)
        return self.gru(received, state)


class _Map(Linear):
    """A linear map that the layer draws itself, so that building it draws no random numbers."""

    def reset_parameters(self) -> None:
        pass
