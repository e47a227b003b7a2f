"""GCNII: graph convolution with initial residual and identity mapping."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.nn.inits import glorot

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import Inputs, Layer, WeightChain
from gnn_depth.ranges import Positive, Share
from gnn_depth.registry import register


@register("layer", "gcnii")
class GCNII(Layer):
    r"""GCNII: a GCN with an initial residual connection and, in deep layers, weights close to the identity.

    .. math:: h_i = (1 - \alpha) \sum_{j \in N(i) \cup \{i\}} \frac{x_j}{\sqrt{d_i d_j}} + \alpha x^0_i, \qquad
        x'_i = (1 - \beta_l) h_i + \beta_l W h_i, \qquad \beta_l = \log(1 + \theta / l)

    where l is the number of the layer, from 1, and degrees d count the self-loop. If the input and output widths of the
    layer differ, :math:`\beta = 1`. Chen et al., *Simple and Deep Graph Convolutional Networks*, ICML 2020, who call
    theta lambda. Their model also has dropout at encoder and decoder and an activation after the encoder:
    ``configs/expansion/gcnii.yaml``.

    Args:
        in_channels: Width of the incoming features, and of the first state.
        out_channels: Width of the outgoing features.
        alpha: Weight of the first state.
        theta: Approximate weight of W in the first layer; in layer l it is about theta / l.

    Raises:
        ValueError: alpha is outside [0, 1), or theta is not a positive number.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse")

    takes_blocks = True
    takes_edge_weights = True
    reads_first = True

    depth: Tensor

    def __init__(self, in_channels: int, out_channels: int, alpha: Share = 0.1, theta: Positive = 0.5) -> None:
        super().__init__(in_channels, out_channels)
        self.alpha = alpha
        self.theta = theta
        # A tensor, so that compiled code serves every depth.
        self.register_buffer("depth", torch.tensor(1), persistent=False)
        self._is_placed = False
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        glorot(self.lin.weight)

    def enter_stack(self, depth: int, first_channels: int) -> None:
        if first_channels != self.in_channels:
            raise ValueError(
                f"layer 'gcnii' mixes the first state, of width {first_channels}, with the input of layer {depth}, of "
                f"width {self.in_channels}: use encoder linear, and a skip connection that keeps widths."
            )
        if self._is_placed:
            raise ValueError("layer 'gcnii' depends on its depth: use share_layers false.")
        self._is_placed = True
        self.depth.fill_(depth)

    def weight_chain(self) -> WeightChain:
        return WeightChain(incoming=(self.lin.weight,), outgoing=(self.lin.weight,))

    def forward(
        self, x: Inputs, graph: Graph, first: Float[Tensor, "_ inputs"] | None = None
    ) -> Float[Tensor, "targets outputs"]:
        assert isinstance(x, Tensor)
        graph = graph.with_self_loops()
        mean = aggregate(graph.gcn_weights(x.dtype), x, graph)
        h = (1 - self.alpha) * mean + self.alpha * (x if first is None else first)[: len(mean)]
        if self.in_channels != self.out_channels:
            return self.lin(h)
        beta = torch.log1p(self.theta / self.depth.to(x.dtype))
        return (1 - beta) * h + beta * self.lin(h)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha={self.alpha}, theta={self.theta}"
