"""Parts that work and do little."""

FEATURE_NORM = '''"""MyPart."""

import torch
from torch import Tensor, nn

from gnn_depth import FeatureNorm, Graph, register


@register("norm", "my_part")
class MyPart(FeatureNorm):
    r"""Say in one sentence what it does to the features.

    .. math:: \\tilde x_i = s \\odot x_i

    Authors, *Title*, Venue Year.

    Args:
        channels: Width of the node features.
        scale: What every entry of s begins as; s is learned.
    """

    def __init__(self, channels: int, scale: float = 1.0) -> None:
        super().__init__(channels)
        self.scale = nn.Parameter(torch.full((channels,), float(scale)))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        # x has the shape (nodes, channels). Means over the nodes of each graph:
        # gnn_depth.nn.functional.graph_mean(x, graph); sums over edges: aggregate.
        return self.scale * x
'''

SCORE_NORM = '''"""MyPart."""

import torch
from torch import Tensor, nn

from gnn_depth import Graph, ScoreNorm, register
from gnn_depth.nn.scores import AdditiveScore, LinearScore, Score


@register("norm", "my_part")
class MyPart(ScoreNorm):
    r"""Say in one sentence what it does to the attention scores.

    .. math:: \\tilde s_{ij} = s_{ij} / \\tau

    Authors, *Title*, Venue Year.

    Args:
        heads: Number of attention heads.
        temperature: What tau begins as in every head; its logarithm is learned.
    """

    # Kinds of score that it has a formula for: those of GAT, and of GATv2.
    serves = (LinearScore, AdditiveScore)

    def __init__(self, heads: int, temperature: float = 1.0) -> None:
        super().__init__(heads)
        self.log_temperature = nn.Parameter(torch.full((heads,), float(temperature)).log())

    def forward(self, scores: Tensor, score: Score, graph: Graph) -> Tensor:
        # scores has the shape (edges, heads); score holds what they were made of.
        return scores / self.log_temperature.exp()
'''

WEIGHT_NORM = '''"""MyPart."""

from torch import Tensor

from gnn_depth import WeightNorm, register


@register("norm", "my_part")
class MyPart(WeightNorm):
    r"""Say in one sentence what it does to every weight matrix of the layers.

    .. math:: \\tilde W = s \\, W

    Authors, *Title*, Venue Year.

    Args:
        num_layers: Number of layers of the stack.
        scale: s.
    """

    def __init__(self, num_layers: int, scale: float = 1.0) -> None:
        super().__init__(num_layers)
        self.scale = scale

    def normed(self, weight: Tensor) -> Tensor:
        # weight has the shape (outputs, inputs).
        return self.scale * weight
'''

LAYER = '''"""MyPart."""

from torch import Tensor, nn

from gnn_depth import Graph, Layer, register
from gnn_depth.nn.parts import WeightChain
from gnn_depth.nn.functional import aggregate


@register("layer", "my_part")
class MyPart(Layer):
    r"""Say in one sentence how a node is updated.

    .. math:: x'_i = \\sum_{j \\in N(i) \\cup \\{i\\}} \\frac{1}{\\sqrt{d_i d_j}} W x_j

    Authors, *Title*, Venue Year.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def weight_chain(self) -> WeightChain:
        # For balanced initialisation and its diagnostics; take it out where no law holds.
        return WeightChain(incoming=(self.lin.weight,), outgoing=(self.lin.weight,))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        graph = graph.with_self_loops()
        h = self.lin(x)
        return aggregate(graph.gcn_weights(h.dtype), h, graph)  # weights (edges,), sums (nodes, channels)
'''

INIT = '''"""MyPart."""

from torch import Tensor, nn

from gnn_depth import register
from gnn_depth.nn.inits.matrices import MatrixInit, Place


@register("init", "my_part")
class MyPart(MatrixInit):
    r"""Say in one sentence how the matrices are drawn.

    .. math:: \\mathrm{Var}(W_{ij}) = g^2 / n_{in}

    Authors, *Title*, Venue Year.

    Args:
        gain: g, a factor on the standard deviation.
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def draw(self, weight: Tensor, place: Place) -> None:
        # weight has the shape (outputs, inputs); place says where in the stack it stands.
        nn.init.normal_(weight, std=self.gain / weight.shape[1] ** 0.5)
'''

SKIP = '''"""MyPart."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnn_depth import Skip, register


@register("skip", "my_part")
class MyPart(Skip):
    r"""Say in one sentence how a layer's output joins what came before.

    .. math:: X^{l+1} = F(X^l) + s X^l

    Authors, *Title*, Venue Year.

    Args:
        widths: Width of every earlier state, the layer's input last.
        out_channels: Width of the layer's output.
        scale: s.
    """

    # Which states it gets: "nothing", the layer's "input", the "first" of all, or "all".
    reads = "input"

    def __init__(self, widths: list[int], out_channels: int, scale: float = 1.0) -> None:
        super().__init__(widths, out_channels)
        self.scale = scale
        same = widths[-1] == out_channels
        self.project = nn.Identity() if same else nn.Linear(widths[-1], out_channels, bias=False)

    def forward(self, update: Tensor, states: Sequence[Tensor]) -> Tensor:
        return update + self.scale * self.project(states[-1])
'''

PARTS = {
    "feature norm": FEATURE_NORM,
    "score norm": SCORE_NORM,
    "weight norm": WEIGHT_NORM,
    "layer": LAYER,
    "init": INIT,
    "skip": SKIP,
}
