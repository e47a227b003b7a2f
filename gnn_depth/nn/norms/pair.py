"""PairNorm, with one scale for all nodes or one per node."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Positive
from gnn_depth.registry import register

# PyTorch Geometric's value. Identical nodes stay identical, and gradients stay below scale / sqrt(EPS).
EPS = 1e-5


@register("norm", "pair")
class PairNorm(FeatureNorm):
    r"""PairNorm: centre the nodes, then hold their total pairwise distance constant.

    .. math::
        \tilde x_i = s \, x^c_i / \sqrt{\epsilon + \tfrac1N \sum_j \|x^c_j\|^2}, \quad x^c_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Zhao & Akoglu, *PairNorm*, ICLR 2020.

    Args:
        channels: Width of the node features.
        scale: s, the root mean square of the nodes' norms in the output.

    Raises:
        ValueError: scale is not positive.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse", "vanishing_gradients", "exploding_signal")
    takes_shards = True

    def __init__(self, channels: int, scale: Positive = 1.0) -> None:
        super().__init__(channels)
        self.scale = scale

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        wide = widen(x)
        centred = wide - graph_mean(wide, graph)
        mean_square = graph_mean(centred.square().sum(-1, keepdim=True), graph)
        return (self.scale * centred / (mean_square + EPS).sqrt()).to(x.dtype)


@register("norm", "pair_si")
class PairNormSI(FeatureNorm):
    r"""PairNorm-SI: centre the nodes, then scale each of them to the same norm.

    .. math::
        \tilde x_i = s \, x^c_i / \sqrt{\epsilon + \|x^c_i\|^2}, \quad x^c_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Zhao & Akoglu, *PairNorm*, ICLR 2020, PairNorm-SI. A node at the mean becomes
    zero. As in their code, epsilon is under the root.

    Args:
        channels: Width of the node features.
        scale: s, the norm of each node in the output.

    Raises:
        ValueError: scale is not positive.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse", "exploding_signal")
    takes_shards = True

    def __init__(self, channels: int, scale: Positive = 1.0) -> None:
        super().__init__(channels)
        self.scale = scale

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        wide = widen(x)
        centred = wide - graph_mean(wide, graph)
        return (self.scale * centred / (centred.square().sum(-1, keepdim=True) + EPS).sqrt()).to(x.dtype)
