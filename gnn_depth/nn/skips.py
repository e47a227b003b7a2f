"""Skip connections.

To add one, subclass Skip and decorate it with ``@register("skip", name)``.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import dropout as drop_features
from gnn_depth.nn.functional import segment_sum
from gnn_depth.nn.linear import weights_of
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.ranges import Count, Finite, Fraction, NonNegative, Positive, Probability, Range
from gnn_depth.registry import register, registered

Rows: TypeAlias = Float[Tensor, "nodes _"]
States: TypeAlias = Sequence[Tensor]


def _project(in_channels: int, out_channels: int) -> nn.Module:
    """The identity if the widths are equal, otherwise a linear map without bias."""
    if in_channels == out_channels:
        return nn.Identity()
    return nn.Linear(in_channels, out_channels, bias=False)


@register("skip", "none")
class NoSkip(Skip):
    r"""No skip connection: pass on only the layer's output, :math:`X^{l+1} = F(X^l)`."""

    reads = "nothing"
    adds_input = False

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return update


class _Projecting(Skip):
    """Reads a state after a linear map without bias if the widths differ."""

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        width_read = widths[0] if self.reads == "first" else widths[-1]
        self.project = _project(width_read, out_channels)

    def weight_chain(self) -> WeightChain:
        weights = weights_of(self.project)
        return WeightChain(incoming=weights, outgoing=weights)


@register("skip", "residual")
class Residual(_Projecting):
    r"""Residual connection: add the layer's input to its output, :math:`X^{l+1} = X^l + F(X^l)`.

    If the widths differ, the input passes a linear map without bias first.
    He et al., *Deep Residual Learning*, CVPR 2016.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    adds = "input"
    invertible = True

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        # Not with a projection: then it is no longer the input itself that is added.
        if isinstance(self.project, nn.Identity):
            self.adds_input = True

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return self.project(states[-1]) + update


@register("skip", "linear")
class LinearResidual(Skip):
    r"""Linear residual: add a linear map of the layer's input, :math:`X^{l+1} = X^l R + F(X^l)`.

    R is a learned matrix, also where the widths are equal. Luo, Shi & Wu, *Classic GNNs are Strong
    Baselines*, NeurIPS 2024, and *Unlocking the Potential of Classic GNNs*, ICML 2025, whose norm
    and activation act on the sum: that is ``root_weight`` of the layers gcn and sage.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    adds = "input"

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.lin = nn.Linear(widths[-1], out_channels, bias=False)

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return self.lin(states[-1]) + update

    def weight_chain(self) -> WeightChain:
        return WeightChain(incoming=(self.lin.weight,), outgoing=(self.lin.weight,))


class _Scaled(_Projecting):
    """X + scale * F(X), with a learned scale."""

    adds = "input"
    invertible = True

    def __init__(self, widths: list[int], out_channels: int, scale: Float[Tensor, "_"]) -> None:
        super().__init__(widths, out_channels)
        self.scale = nn.Parameter(scale)

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return self.project(states[-1]) + self.scale * update


@register("skip", "rezero")
class ReZero(_Scaled):
    r"""ReZero: add the layer's output, multiplied by a learned number, to its input.

    .. math:: X^{l+1} = X^l + \alpha F(X^l)

    With :math:`\alpha = 0`, a stack of any depth starts as encoder and decoder alone. If the widths
    differ, the input passes a linear map without bias first. Bachlechner et al., *ReZero is All You
    Need*, UAI 2021.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of alpha.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 0.0) -> None:
        super().__init__(widths, out_channels, torch.full((1,), float(initial)))


@register("skip", "layer_scale")
class LayerScale(_Scaled):
    r"""LayerScale: add the layer's output, each channel multiplied by a learned number, to its
    input.

    .. math:: X^{l+1} = X^l + F(X^l) \, \mathrm{diag}(\lambda)

    If the widths differ, the input passes a linear map without bias first. Touvron et al., *Going
    Deeper with Image Transformers*, ICCV 2021. They start at 0.1 for up to 18 layers, at 1e-5 for
    24 and at 1e-6 for more.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of every entry of lambda.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 1e-5) -> None:
        super().__init__(widths, out_channels, torch.full((out_channels,), float(initial)))


@register("skip", "gated")
class Gated(Skip):
    r"""Gated (highway) connection: a learned gate mixes the layer's output and its input, per node
    and channel.

    .. math:: X^{l+1} = T \odot F(X^l) + (1 - T) \odot X^l, \qquad T = \sigma(X^l W + b)

    If the widths differ, the input passes a linear map without bias before it is mixed in.
    Srivastava, Greff & Schmidhuber, *Highway Networks*, 2015; for graphs Rahimi, Cohn & Baldwin,
    *Semi-supervised User Geolocation via Graph Convolutional Networks*, ACL 2018.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        bias: Initial value of every entry of b. Initially each layer keeps about :math:`1 -
            \sigma(b)` of its input. With -3 this is 0.95, which leaves a fifth after 32 layers.
            With -1 it is 0.73, which leaves 1 part in 20,000.
    """

    adds = "input"

    def __init__(self, widths: list[int], out_channels: int, bias: Finite = -3.0) -> None:
        super().__init__(widths, out_channels)
        self.gate = nn.Linear(widths[-1], out_channels, bias=False)
        # Separate from the linear map, because inits set the biases of linear maps to zero.
        self.bias = nn.Parameter(torch.full((out_channels,), float(bias)))
        self.project = _project(widths[-1], out_channels)

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        # The gate reads the state before the projection.
        opened = torch.sigmoid(self.gate(states[-1]) + self.bias)
        return opened * update + (1 - opened) * self.project(states[-1])

    def weight_chain(self) -> WeightChain:
        projected = weights_of(self.project)
        return WeightChain(incoming=projected, outgoing=(*projected, self.gate.weight))


@register("skip", "initial_residual")
class InitialResidual(_Projecting):
    r"""Initial residual: mix the first state into every layer's output.

    .. math:: X^{l+1} = (1 - \alpha) F(X^l) + \alpha X^0

    The first state is the input of the first layer. If the widths differ, it passes a linear map
    without bias first; each layer has its own map. Chen et al., *Simple and Deep Graph
    Convolutional Networks*, ICML 2020 (GCNII). They mix before the weights and the activation of
    the layer; here, as with all skip connections, the first state is mixed in after them.

    Args:
        widths: Widths of all earlier states; the first one is that of the first state.
        out_channels: Width of the layer's output.
        alpha: Weight of the first state; at 1 the layers would have no effect.
    """

    reads = "first"
    adds = "first"

    def __init__(self, widths: list[int], out_channels: int, alpha: Fraction = 0.1) -> None:
        super().__init__(widths, out_channels)
        self.alpha = alpha

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return (1 - self.alpha) * update + self.alpha * self.project(states[0])


@register("skip", "adaptive_initial")
class AdaptiveInitial(Skip):
    r"""Adaptive initial residual: each node decides how much of its first state is mixed in.

    .. math:: X^{l+1} = \lambda \odot F(X^l) + (1 - \lambda) \odot X^0 \Theta, \qquad
        \lambda = \sigma(X^0 w)

    with one number lambda for each node and a learned matrix Theta. Shirzadi, Dehkordi & Zehmakan,
    *Adaptive Initial Residual Connections for GNNs with Theoretical Guarantees*, AAAI 2026. They
    mix before the activation and share w over the layers; here, as with all skip connections, the
    first state is mixed in after the activation, and each layer has its own w.

    Args:
        widths: Widths of all earlier states; the first one is that of the first state.
        out_channels: Width of the layer's output.
    """

    reads = "first"

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.strength = nn.Linear(widths[0], 1, bias=False)
        self.lin = nn.Linear(widths[0], out_channels, bias=False)

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        strength = torch.sigmoid(self.strength(states[0]))
        return strength * update + (1 - strength) * self.lin(states[0])


@register("skip", "dense")
class Dense(Skip):
    r"""Dense connection: concatenate the layer's output to its input, :math:`X^{l+1} = [X^l,
    F(X^l)]`.

    Every layer and the decoder read the first state and the outputs of all earlier layers. The
    width grows with each layer, and memory and the number of weights grow with the square of the
    depth. Huang et al., *Densely Connected Convolutional Networks*, CVPR 2017; for graphs Li et
    al., *DeepGCNs*, ICCV 2019.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.width = widths[-1] + out_channels

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        return torch.cat([states[-1], update], 1)


@register("skip", "gradient_gating")
class GradientGating(_Projecting):
    r"""Gradient gating (G2): channels that differ little between neighbours stop changing.

    .. math::
        \tau_i = \tanh\Big( \frac{1}{|N(i)|} \sum_{j \in N(i)} |F_i - F_j|^p \Big), \qquad
        X^{l+1} = (1 - \tau) \odot X^l + \tau \odot F(X^l)

    with F the layer's output after its activation, for each node and channel. It also needs a
    tensor of edges x channels. Rusch et al., *Gradient Gating for Deep Multi-Rate Learning on
    Graphs*, ICLR 2023; the gate reads the layer itself, as by default there. If the widths differ,
    the input passes a linear map without bias first.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        p: The power of the differences, 1 or more.
    """

    takes_blocks = False  # the gate reads the updates of the neighbours

    def __init__(
        self,
        widths: list[int],
        out_channels: int,
        p: Annotated[float, Range(1)] = 2.0,
    ) -> None:
        super().__init__(widths, out_channels)
        self.p = p

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        # One number for each edge and channel: powers of differences have no smaller form.
        difference = update.index_select(0, graph.target) - update.index_select(0, graph.source)
        # Where neighbours agree, the difference is 0, and so is its gradient: abs gives 0 there.
        total = segment_sum(difference.abs().pow(self.p), graph)
        gate = torch.tanh(total / graph.in_degree.clamp_min(1)[:, None].to(total.dtype))
        return (1 - gate) * self.project(states[-1]) + gate * update


@register("skip", "graphcon")
class GraphCON(_Projecting):
    r"""GraphCON: an oscillator for each channel, driven by the layer's output.

    .. math::
        Y^{l+1} = Y^l + \Delta t \, (F(X^l) - \alpha Y^l - \gamma X^l), \qquad
        X^{l+1} = X^l + \Delta t \, Y^{l+1}

    The velocity Y is a second state, which starts as :math:`Y^0 = X^0`. With all three options at 1
    they cancel: :math:`X^{l+1} = F(X^l)`, a stack without a skip connection. If the widths differ,
    X and Y pass the same linear map without bias first. Rusch et al., *Graph-Coupled Oscillator
    Networks*, ICML 2022, whose best settings on WebKB take one or two steps.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        step_size: Delta t.
        damping: Alpha, which slows the velocity.
        frequency: Gamma, which pulls the state back to zero.
    """

    carries = True

    def __init__(
        self,
        widths: list[int],
        out_channels: int,
        step_size: Positive = 0.5,
        damping: NonNegative = 1.0,
        frequency: NonNegative = 1.0,
    ) -> None:
        super().__init__(widths, out_channels)
        self.step_size = step_size
        self.damping = damping
        self.frequency = frequency

    def forward(
        self,
        update: Rows,
        states: States,
        graph: Graph,
        velocity: Tensor | None = None,
    ) -> tuple[Rows, Rows]:
        x = self.project(states[-1])
        y = x
        if velocity is not None and velocity.shape[1] == x.shape[1]:
            y = velocity
        elif velocity is not None:  # it has the width of the state that it came with
            y = self.project(velocity)
        y = y + self.step_size * (update - self.damping * y - self.frequency * x)
        return x + self.step_size * y, y


@register("skip", "ordered")
class Ordered(Skip):
    r"""Ordered gating: a node's own state keeps more and more channels from layer to layer.

    .. math::
        g^l = g^{l-1} + (1 - g^{l-1}) \odot
        \mathrm{cumsum}(\mathrm{softmax}(W [X^l \| M^l] + b)), \qquad
        X^{l+1} = \mathrm{LN}(g^l \odot X^l + (1 - g^l) \odot M^l)

    where M is the layer's output and g has an entry for each chunk of channels, which starts at 0.
    Song et al., *Ordered GNN: Ordering Message Passing to Deal with Heterophily and
    Over-smoothing*, ICLR 2023. There M is the mean of the neighbours: use layer ``mean`` and
    activation identity.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        chunks: Number of chunks; it must divide the width.

    Raises:
        ValueError: The widths differ, or are not divisible by the number of chunks.
    """

    carries = True

    def __init__(self, widths: list[int], out_channels: int, chunks: Count = 8) -> None:
        super().__init__(widths, out_channels)
        if widths[-1] != out_channels:
            raise ValueError(
                f"skip 'ordered' mixes a state of width {widths[-1]} with a layer's output of "
                f"width {out_channels}: use encoder linear, and layers of equal width."
            )
        if out_channels % chunks:
            raise ValueError(
                f"{chunks} chunks cannot share a width of {out_channels}: choose a divisor of "
                f"{out_channels}."
            )
        self.chunks = chunks
        self.gate = nn.Linear(2 * out_channels, chunks)
        self.norm = nn.LayerNorm(out_channels)

    def forward(
        self,
        update: Rows,
        states: States,
        graph: Graph,
        kept: Tensor | None = None,
    ) -> tuple[Rows, Rows]:
        x = states[-1]
        # A softmax summed along the chunks rises from 0 to 1: later chunks keep more of the node.
        opened = self.gate(torch.cat([x, update], 1)).softmax(1).cumsum(1)
        gate = opened
        if kept is not None:  # it only grows, so a node never takes back what it has kept
            gate = kept + (1 - kept) * opened
        of_channels = gate.repeat_interleave(self.width // self.chunks, 1)
        return self.norm(of_channels * x + (1 - of_channels) * update), gate


@register("skip", "feed_forward")
class FeedForward(_Projecting):
    r"""Residual connection and feed-forward block, as in GNN+ and transformers.

    .. math::
        H = X^l + F(X^l), \qquad
        X^{l+1} = \mathrm{BN}(H + W_2 \, \mathrm{Dropout}(\mathrm{ReLU}(W_1 H + b_1)) + b_2)

    W_1 doubles the width. If the widths differ, the input passes a linear map without bias first.
    Luo, Shi & Wu, *Unlocking the Potential of Classic GNNs for Graph-level Tasks*, ICML 2025, whose
    block is this after a batch norm of the layer's output (the stack's norm ``batch``).

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        dropout: Probability of dropping a hidden feature of the block in training.
    """

    # It adds no state in the sense of Skip.adds: the block mixes the neurons after the sum.

    takes_blocks = False  # batch norm reads all nodes
    takes_shards = True

    def __init__(self, widths: list[int], out_channels: int, dropout: Probability = 0.0) -> None:
        super().__init__(widths, out_channels)
        self.dropout = dropout
        self.after = registered("norm")["batch"](out_channels)
        self.inner = nn.Linear(out_channels, 2 * out_channels)
        self.outer = nn.Linear(2 * out_channels, out_channels)

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        hidden = self.project(states[-1]) + update
        inner = torch.relu(self.inner(hidden))
        dropped = drop_features(inner, self.dropout, self.training, graph.node_numbers)
        return self.after(hidden + self.outer(dropped), graph)


@register("skip", "gated_local")
class GatedLocal(Skip):
    r"""Gated local connection of Polynormer: a gate from the input multiplies the layer's output.

    .. math:: X^{l+1} = (1 - \beta) \, \mathrm{LN}(\mathrm{ReLU}(X^l U) \odot F(X^l))
        + \beta F(X^l), \qquad \beta = \sigma(b)

    for each channel. Deng, Yue & Zhang, *Polynormer*, ICLR 2024, the local half. There F is a GAT
    plus a linear map of its input, with ReLU and dropout, and the decoder reads the sum of all
    states.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.gate = nn.Linear(widths[-1], out_channels)
        self.norm = nn.LayerNorm(out_channels)
        self.beta = nn.Parameter(torch.zeros(out_channels))  # both halves weigh the same at first

    def forward(self, update: Rows, states: States, graph: Graph) -> Rows:
        gated = self.norm(torch.relu(self.gate(states[-1])) * update)
        beta = torch.sigmoid(self.beta)
        return (1 - beta) * gated + beta * update
