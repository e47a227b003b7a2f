"""No norm."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import register


@register("norm", "none")
class NoNorm(FeatureNorm):
    """No norm: leave the features unchanged.

    Args:
        channels: Width of the node features.
    """

    nodewise = True
    homogeneous = True

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        return x
