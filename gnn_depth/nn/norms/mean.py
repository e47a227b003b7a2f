"""MeanNorm."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import register


@register("norm", "mean")
class MeanNorm(FeatureNorm):
    r"""Mean subtraction: subtract the mean over all nodes from every node.

    .. math:: \tilde x_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Yang et al., *Revisiting "Over-smoothing" in Deep GCNs*, 2020. PyTorch Geometric's
    MeanSubtractionNorm is the same, but its sums overflow in half precision.

    Args:
        channels: Width of the node features.
    """

    homogeneous = True
    treats = ("equal_rows", "rank_collapse")
    takes_shards = True

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        wide = widen(x)
        return (wide - graph_mean(wide, graph)).to(x.dtype)
