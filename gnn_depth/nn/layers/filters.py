"""Layers that filter the graph's frequencies: mean, ACM and unitary convolution."""

import torch
from torch import nn
from torch_geometric.nn.inits import glorot, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, padded, plus, sum_messages, targets
from gnn_depth.nn.layers.dynamics import check_width
from gnn_depth.nn.layers.gcn import TakesMeans
from gnn_depth.nn.linear import Linear, make_bias
from gnn_depth.nn.parts import DenseInputs, Layer, Outputs
from gnn_depth.registry import register

TERMS = 12  # of the Taylor sum after the identity


@register("layer", "mean")
class Mean(TakesMeans):
    r"""Mean of the neighbours, without parameters.

    .. math:: x'_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} x_j

    It is weighted where edges have weights, and zero for a node without neighbours. Skip connection
    ``ordered`` is made for it.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the output, no less than in_channels: it is padded with zeros.

    Raises:
        ValueError: The output is narrower than the features.
    """

    takes_blocks = True
    takes_edge_weights = True
    drops_messages = True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        check_width(self)

    def reset_parameters(self) -> None:
        pass  # there are none

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        mean = sum_messages(graph.mean_weights(x.dtype), x, graph)
        return padded(mean, self.out_channels)


@register("layer", "acm")
class ACM(Layer):
    r"""ACM: each node mixes a low-pass, a high-pass and an identity channel.

    .. math::
        H_1 = \phi(\hat A X W_1), \quad H_2 = \phi((I - \hat A) X W_2), \quad H_3 = \phi(X W_3),
        \quad X' = 3 \sum_k \alpha_k \odot H_k

    where :math:`\phi` is ReLU, :math:`\hat A` that of :class:`GCN`, and each node's
    :math:`\alpha = \mathrm{softmax}(\sigma([H_1 v_1, H_2 v_2, H_3 v_3]) U / 3)`. Luan et al.,
    *Revisiting Heterophily for Graph Neural Networks*, NeurIPS 2022. With ``layer_norm`` it is
    their ACM-GCN+, which normalises the channels before the gates.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        layer_norm: Normalise each channel before the gates.
    """

    takes_blocks = True
    takes_edge_weights = True

    def __init__(self, in_channels: int, out_channels: int, layer_norm: bool = False) -> None:
        super().__init__(in_channels, out_channels)
        self.lin_low = Linear(in_channels, out_channels, bias=False)
        self.lin_high = Linear(in_channels, out_channels, bias=False)
        self.lin_own = Linear(in_channels, out_channels, bias=False)
        self.gates = nn.Parameter(torch.empty(3, out_channels))
        self.mix = nn.Parameter(torch.empty(3, 3))
        self.norms: nn.ModuleList | None = None
        if layer_norm:
            self.norms = nn.ModuleList(nn.LayerNorm(out_channels) for _ in range(3))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.lin_low, self.lin_high, self.lin_own):
            glorot(linear.weight)
        glorot(self.gates)
        glorot(self.mix)
        for norm in self.norms or ():
            norm.reset_parameters()  # type: ignore[operator]

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        weights = graph.gcn_weights(x.dtype)
        mapped = self.lin_high(x)
        low = aggregate(weights, self.lin_low(x), graph)
        high = targets(mapped, graph) - aggregate(weights, mapped, graph)
        own = self.lin_own.of_targets(x, graph)
        channels = torch.relu(torch.stack([low, high, own], 1))  # nodes x 3 x outputs
        read = channels
        if self.norms is not None:
            pairs = zip(self.norms, channels.unbind(1), strict=True)
            # For the gates alone: the mixture below is of the channels themselves.
            read = torch.stack([norm(channel) for norm, channel in pairs], 1)
        opened = torch.sigmoid((read * self.gates).sum(-1))
        alpha = torch.softmax(opened @ self.mix / 3, 1)
        return 3 * (alpha[..., None] * channels).sum(1)


@register("layer", "unitary")
class Unitary(Layer):
    r"""Unitary convolution: an orthogonal map of all nodes' states, which smooths nothing.

    .. math:: X' = \exp(T)(X) + b, \qquad T(X) = \tfrac12 \tilde A X (W - W^\top)

    with :math:`\tilde A = D^{-1/2} A D^{-1/2}`, without self-loops but those of the graph. On an
    undirected graph T is antisymmetric, so :math:`\exp(T)` keeps the norm of X, and its inverse
    exists: neither states nor gradients vanish. Kiani, Fesser & Weber, *Unitary Convolutions for
    Learning on Graphs and Groups*, NeurIPS 2024 (the form over the Lie algebra). The exponential is
    a Taylor sum of 12 terms. At the start :math:`(W - W^\top) / 2` joins channels in pairs, with
    numbers of standard deviation 0.5.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the state, no less than in_channels: features are padded with zeros.
        bias: Add b.

    Raises:
        ValueError: The state is narrower than the features.
    """

    takes_edge_weights = True

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels)
        check_width(self)
        self.lin = Linear(out_channels, out_channels, bias=False)
        self.bias = make_bias(out_channels, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            weight = self.lin.weight.zero_()
            for channel in range(0, self.out_channels - 1, 2):
                # W - W^T has this number twice, with opposite signs.
                weight[channel, channel + 1].normal_(0, 2 * 0.5)
        zeros(self.bias)

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        term = total = padded(x, self.out_channels)
        weight = self.lin.normed_weight
        generator = (weight - weight.t()) / 2
        along_edges = graph.gcn_weights(x.dtype)
        # exp(T) = 1 + T + T^2 / 2! + ...: a term is the one before it times T / order.
        for order in range(1, TERMS + 1):
            term = aggregate(along_edges, term @ (generator / order), graph)
            total = total + term
        return plus(total, self.bias)
