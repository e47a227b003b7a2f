"""Convolutions, sums with fixed weights after a linear map: GCN, GCNII and GraphSAGE."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.nn.inits import glorot, uniform, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_propagation, spectral_norm
from gnn_depth.nn.functional import convolution, first_rows, plus, sum_messages
from gnn_depth.nn.functional.blocks import fuses
from gnn_depth.nn.linear import Linear, make_bias, weights_of
from gnn_depth.nn.parts import DenseInputs, Inputs, Layer, Outputs, WeightChain, present
from gnn_depth.ranges import Fraction, Positive
from gnn_depth.registry import register


class _SumOfMaps(Layer):
    """A weighted sum of the neighbours plus the node, each after a linear map, and a bias.

    Subclasses say which weights, and draw the parameters.
    """

    takes_sparse = True
    takes_edge_weights = True
    drops_messages = True
    takes_blocks = True

    def __init__(
        self, in_channels: int, out_channels: int, bias: bool = True, root_weight: bool = False
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.lin_root = Linear(in_channels, out_channels, bias=False) if root_weight else None
        self.bias = make_bias(out_channels, bias)
        self.reset_parameters()

    def weight_chain(self) -> WeightChain:
        matrices = weights_of(self.lin, self.lin_root)
        return WeightChain(incoming=matrices, outgoing=matrices, bias=present(self.bias))

    def _sum(self, x: Inputs, graph: Graph, weights: Callable[[torch.dtype], Tensor]) -> Tensor:
        h = self.lin(x)  # before the sum: the output is rarely wider than the features
        out = sum_messages(weights(h.dtype), h, graph)
        if self.lin_root is not None:
            out = out + self.lin_root.of_targets(x, graph)
        return plus(out, self.bias)


class _Smooths(Layer):
    """A layer whose propagation is that of a GCN."""

    def limits(self, graph: Graph) -> tuple[Tensor, Tensor]:
        root = graph.with_self_loops().weighted_in_degree.sqrt()
        return root, root

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor]:
        graph = graph.with_self_loops()
        return graph, graph.gcn_weights(torch.float64)


class TakesMeans(Layer):
    """A layer whose propagation is the mean of the neighbours."""

    def limits(self, graph: Graph) -> tuple[Tensor, Tensor]:
        degree = graph.weighted_in_degree
        return torch.ones_like(degree), degree

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor]:
        return graph, graph.mean_weights(torch.float64)


@register("layer", "gcn")
class GCN(_Smooths, _SumOfMaps):
    r"""Graph convolution (GCN): average the neighbours, weighted by degree, after a linear map.

    .. math:: x'_i = \sum_{j \in N(i) \cup \{i\}} \frac{1}{\sqrt{d_i d_j}} W x_j + b

    with degrees d that count the self-loop. With edge weights w the factor is :math:`w_{ij} /
    \sqrt{d_i d_j}` and d the sum of a node's weights; a self-loop that is added weighs 1. Kipf &
    Welling, *Semi-Supervised Classification with Graph Convolutional Networks*, ICLR 2017. With
    ``root_weight`` the node itself is added after a linear map of its own, :math:`W_{root} x_i`:
    the residual connection of Luo, Shi & Wu, *Classic GNNs are Strong Baselines*, NeurIPS 2024.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        bias: Add b.
        root_weight: Add the node itself.
    """

    def reset_parameters(self) -> None:
        glorot(self.lin.weight)
        if self.lin_root is not None:
            self.lin_root.reset_parameters()
        zeros(self.bias)

    def lipschitz_bound(self, graph: Graph) -> float:
        size = spectral_norm(self.lin.normed_weight)
        # The norm of a sum is at most the sum of the norms.
        bound = of_propagation(graph.with_self_loops()) * size
        if self.lin_root is not None:
            bound += spectral_norm(self.lin_root.normed_weight)
        return bound

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        graph = graph.with_self_loops()
        return self._sum(x, graph, graph.gcn_weights)

    def whole_block(self, x: Inputs, graph: Graph, relu: bool, residual: bool) -> Outputs | None:
        # The kernel has one matrix, dense features and whole messages.
        if self.lin_root is not None or not isinstance(x, Tensor) or graph.message_dropout:
            return None
        graph = graph.with_self_loops()
        weights = graph.gcn_weights(x.dtype)
        given = x, self.lin.normed_weight, self.bias, weights
        if not fuses(given, graph):
            return None
        return convolution(*given, graph, relu, residual)


@register("layer", "gcnii")
class GCNII(_Smooths):
    r"""GCNII: a GCN with an initial residual connection and, deep down, weights near the identity.

    .. math::
        h_i = (1 - \alpha) \sum_{j \in N(i) \cup \{i\}} \frac{x_j}{\sqrt{d_i d_j}}
        + \alpha x^0_i, \qquad
        x'_i = (1 - \beta_l) h_i + \beta_l W h_i, \qquad \beta_l = \log(1 + \theta / l)

    where l is the number of the layer, from 1, and degrees d count the self-loop. If the input and
    output widths of the layer differ, :math:`\beta = 1`. Chen et al., *Simple and Deep Graph
    Convolutional Networks*, ICML 2020, who call theta lambda. Their model also has dropout at
    encoder and decoder and an activation after the encoder: ``configs/expansion/gcnii.yaml``.

    Args:
        in_channels: Width of the incoming features, and of the first state.
        out_channels: Width of the outgoing features.
        alpha: Weight of the first state.
        theta: Approximate weight of W in the first layer; in layer l it is about theta / l.
    """

    takes_blocks = True
    takes_edge_weights = True
    drops_messages = True
    reads_first = True
    depth: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, alpha: Fraction = 0.1, theta: Positive = 0.5
    ) -> None:
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
                f"layer 'gcnii' mixes the first state, of width {first_channels}, with the input "
                f"of layer {depth}, of width {self.in_channels}: use encoder linear, and a skip "
                "connection that keeps widths."
            )
        if self._is_placed:
            raise ValueError("layer 'gcnii' depends on its depth: use share_layers false.")
        self._is_placed = True
        self.depth.fill_(depth)

    def weight_chain(self) -> WeightChain:
        return WeightChain(incoming=(self.lin.weight,), outgoing=(self.lin.weight,))

    def forward(
        self, x: DenseInputs, graph: Graph, first: Float[Tensor, "_ inputs"] | None = None
    ) -> Outputs:
        graph = graph.with_self_loops()
        mean = sum_messages(graph.gcn_weights(x.dtype), x, graph)
        if first is None:  # alone, the layer's input is the first state
            first = x
        h = torch.lerp(mean, first_rows(first, mean.shape[0]), self.alpha)
        if self.in_channels != self.out_channels:
            return self.lin(h)
        beta = torch.log1p(self.theta / self.depth.to(x.dtype))
        return torch.lerp(h, self.lin(h), beta)


@register("layer", "sage")
class SAGE(TakesMeans, _SumOfMaps):
    r"""GraphSAGE: add the mean of the neighbours and the node itself, each after a linear map.

    .. math:: x'_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} W x_j + W_{root} x_i + b

    The mean is weighted where edges have weights. That of a node without neighbours is zero. A node
    is its own neighbour only if the graph has a self-loop there. Hamilton, Ying & Leskovec,
    *Inductive Representation Learning on Large Graphs*, NeurIPS 2017.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        root_weight: Add the node itself.
        bias: Add b.
    """

    def __init__(
        self, in_channels: int, out_channels: int, root_weight: bool = True, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, bias, root_weight)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        if self.lin_root is not None:
            self.lin_root.reset_parameters()
        uniform(self.in_channels, self.bias)

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        return self._sum(x, graph, graph.mean_weights)
