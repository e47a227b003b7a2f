"""Layers that update a state: steps of a differential equation (antisymmetric A-DGN, SWAN and
reaction), and the gated graph network.

A step returns its input plus a small change, so a stack of them needs no skip connection and no
activation: use ``activation: identity``.
"""

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import uniform, zeros

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, padded, plus, targets
from gnn_depth.nn.functional.sparse import spmm
from gnn_depth.nn.linear import Linear, make_bias
from gnn_depth.nn.parts import DenseInputs, Layer, Outputs
from gnn_depth.ranges import Finite, NonNegative, Positive, in_range
from gnn_depth.registry import described, register

Reaction: TypeAlias = Literal["blurring", "fisher", "allen_cahn", "zeldovich", "source"]


def check_width(layer: Layer) -> None:
    """Check that a layer that adds to its input has at least as many output channels."""
    given, room = layer.in_channels, layer.out_channels
    # It returns its input plus a change, or padded, without a map that could make room.
    if room < given:
        raise ValueError(
            f"{described(type(layer))} keeps its input, and {room} channels cannot hold {given}: "
            f"use {given} or more, or a linear encoder before it and a linear decoder after it."
        )


class _Step(Layer):
    """The state plus a change; features narrower than the state are padded with zeros."""

    takes_blocks = True
    takes_edge_weights = True

    @in_range
    def __init__(self, in_channels: int, out_channels: int, step_size: Positive) -> None:
        super().__init__(in_channels, out_channels)
        check_width(self)
        self.step_size = step_size


class _AntisymmetricStep(_Step):
    """A step with antisymmetric weights of the node itself, and whatever a subclass adds."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        step_size: Positive,
        damping: NonNegative,
        bias: bool,
    ) -> None:
        super().__init__(in_channels, out_channels, step_size)
        self.damping = damping
        self.lin = Linear(out_channels, out_channels, bias=False)
        self.bias = make_bias(out_channels, bias)

    def reset_parameters(self) -> None:
        for linear in self.children():
            linear.reset_parameters()  # type: ignore[operator]
        zeros(self.bias)

    def map(self, own: Tensor) -> Tensor:
        r"""The rows of the state times :math:`(W - W^\top - \gamma I)^\top`."""
        weight = self.lin.normed_weight
        # The damping needs no identity matrix.
        return own @ (weight.t() - weight) - self.damping * own

    def step(self, own: Tensor, change: Tensor) -> Tensor:
        """The next state, given the present one and the argument of the tanh without the bias."""
        return own + self.step_size * torch.tanh(plus(change, self.bias))


@register("layer", "antisymmetric")
class Antisymmetric(_AntisymmetricStep):
    r"""A-DGN: a step with antisymmetric weights, so that states neither vanish nor explode.

    .. math::
        x'_i = x_i + \epsilon \tanh\Big( (W - W^\top - \gamma I) x_i
        + \sum_{j \in N(i) \cup \{i\}} \frac{1}{\sqrt{d_i d_j}} V x_j + b \Big)

    with the degrees d of :class:`GCN`. With ``aggregation`` sum the neighbours are added without
    weights, and without the node itself. Without neighbours and with gamma 0 the eigenvalues of the
    Jacobian of the step's argument are imaginary. Gravina, Bacciu & Gallicchio, *Anti-Symmetric
    DGN*, ICLR 2023. One layer is shared by all steps there: set ``share_layers`` of the stack.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the state, no less than in_channels.
        step_size: Epsilon.
        damping: Gamma.
        aggregation: ``gcn`` for the mean above, ``sum`` for a plain sum over the neighbours.
        bias: Add b.

    Raises:
        ValueError: The state is narrower than the features.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        step_size: Positive = 0.1,
        damping: NonNegative = 0.1,
        aggregation: Literal["gcn", "sum"] = "gcn",
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, step_size, damping, bias)
        self.aggregation = aggregation
        self.lin_neighbours = Linear(out_channels, out_channels, bias=False)

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        x = padded(x, self.out_channels)
        own = targets(x, graph)
        change = self.map(own)
        messages = self.lin_neighbours(x)
        if self.aggregation == "sum":
            weights = graph.sum_weights(x.dtype)
        else:
            graph = graph.with_self_loops()
            weights = graph.gcn_weights(x.dtype)
        return self.step(own, change + aggregate(weights, messages, graph))


@register("layer", "swan")
class SWAN(_AntisymmetricStep):
    r"""SWAN: a step that is antisymmetric in space and in channels, so that no distance fades out.

    .. math::
        X' = X + \epsilon \tanh\big( X (W - W^\top - \gamma I)^\top
        + \tilde A X (V - V^\top) + \beta (P - P^\top) X (S + S^\top) + b \big)

    where :math:`\tilde A = D^{-1/2} A D^{-1/2}` and :math:`P = D^{-1} A` have no self-loops but
    those of the graph. On an undirected graph and with gamma 0, all eigenvalues of the Jacobian of
    the step's argument are imaginary. Entry ij of :math:`P - P^\top` is :math:`1 / d_i - 1 / d_j`
    there: zero on every regular graph.
    Gravina et al., *On Oversquashing in Graph Neural Networks Through the Lens of Dynamical
    Systems*, AAAI 2025. This is the paper's formula; the operator of its released code is not
    antisymmetric.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the state, no less than in_channels.
        step_size: Epsilon.
        damping: Gamma.
        antisymmetry: Beta, the weight of the term that is antisymmetric in space.
        bias: Add b.

    Raises:
        ValueError: The state is narrower than the features.
    """

    takes_blocks = False  # P^T sends from targets to sources

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        step_size: Positive = 0.1,
        damping: NonNegative = 0.1,
        antisymmetry: Finite = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, step_size, damping, bias)
        self.antisymmetry = antisymmetry
        self.lin_space = Linear(out_channels, out_channels, bias=False)
        self.lin_symmetric = Linear(out_channels, out_channels, bias=False)

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        x = padded(x, self.out_channels)
        space = self.lin_space.normed_weight
        symmetric = self.lin_symmetric.normed_weight
        smoothed = aggregate(graph.gcn_weights(x.dtype), x, graph)
        change = self.map(x) + smoothed @ (space - space.t())
        weights = graph.mean_weights(x.dtype)
        received = aggregate(weights, x, graph)
        # P^T sums the other way along the edges, from targets to sources.
        sent = spmm(weights[:, None], x[:, None], graph, True).squeeze(1)
        difference = (received - sent) @ (symmetric + symmetric.t())
        return self.step(x, change + self.antisymmetry * difference)


@register("layer", "reaction")
class ReactionDiffusion(_Step):
    r"""GREAD: an Euler step of diffusion along the edges and a reaction in every node.

    .. math:: X' = X + \epsilon \big( \sigma(\alpha) \odot (\hat A X - X) + \beta \odot r(X) \big)

    with :math:`\hat A` of :class:`GCN`, a learned :math:`\alpha` that starts at 0, a learned
    :math:`\beta` for each channel, drawn from U(-1, 1), and a reaction r:

    * ``blurring`` (blurring-sharpening): :math:`\hat A (X - \hat A X)`
    * ``fisher``: :math:`X (1 - X)`
    * ``allen_cahn``: :math:`X (1 - X^2)`
    * ``zeldovich``: :math:`X (X - X^2)`
    * ``source``: the first state

    The layer has no weight matrix. Choi, Hong, Park & Cho, *GREAD: Graph Neural
    Reaction-Diffusion Networks*, ICML 2023. Their best settings on WebKB take one or two steps.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the state, no less than in_channels.
        step_size: Epsilon.
        reaction: The reaction r.

    Raises:
        ValueError: The state is narrower than the features.
    """

    reads_first = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        step_size: Positive = 0.1,
        reaction: Reaction = "blurring",
    ) -> None:
        super().__init__(in_channels, out_channels, step_size)
        self.reaction = reaction
        # The inner product of blurring reads neighbours of neighbours.
        self.takes_blocks = reaction != "blurring"
        self.alpha = nn.Parameter(torch.zeros(out_channels))
        self.beta = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.alpha)
        nn.init.uniform_(self.beta, -1, 1)

    def forward(
        self, x: DenseInputs, graph: Graph, first: Float[Tensor, "_ inputs"] | None = None
    ) -> Outputs:
        graph = graph.with_self_loops()
        x = padded(x, self.out_channels)
        own = targets(x, graph)
        weights = graph.gcn_weights(x.dtype)
        diffusion = aggregate(weights, x, graph) - own
        if self.reaction == "blurring":
            # A (X - A X) is -A times the diffusion, which is there already.
            reaction = -aggregate(weights, diffusion, graph)
        elif self.reaction == "fisher":
            reaction = own * (1 - own)
        elif self.reaction == "allen_cahn":
            reaction = own * (1 - own.square())
        elif self.reaction == "zeldovich":
            reaction = own * (own - own.square())
        elif first is None:  # alone, the layer's input is the first state
            reaction = own
        else:
            reaction = padded(first[: own.shape[0]], self.out_channels)
        # The sigmoid keeps the diffusion between none and full; the reaction may have either sign.
        change = torch.sigmoid(self.alpha) * diffusion + self.beta * reaction
        return own + self.step_size * change


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
        # Of shape (inputs, outputs): the published product is x W. Zeros of padded features would
        # meet the last rows, so both are left out.
        weight = self.lin.normed_weight[: self.in_channels]
        messages = F.linear(x, weight.t())
        received = aggregate(messages.new_ones(graph.num_edges), messages, graph)
        return self.gru(received, padded(targets(x, graph), self.out_channels))


class _Map(Linear):
    """A linear map that the layer draws itself, so that building it draws no random numbers."""

    def reset_parameters(self) -> None:
        pass
