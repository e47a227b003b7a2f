"""Norms of each node by itself: LayerNorm, NodeNorm and none."""

from torch import nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.ranges import Positive
from gnn_depth.registry import register

EPS = 1e-5  # added to a variance


@register("norm", "none")
class NoNorm(FeatureNorm):
    """No norm: leave the features unchanged."""

    nodewise = True
    homogeneous = True

    def forward(self, x: Features, graph: Graph) -> Features:
        return x


@register("norm", "layer")
class LayerNorm(FeatureNorm):
    r"""Layer norm: bring each node to mean 0 and variance 1, then scale and shift the channels.

    .. math::
        \tilde x_i = \gamma \odot
        \frac{x_i - \mathrm{mean}(x_i)}{\sqrt{\mathrm{var}(x_i) + \epsilon}} + \beta

    Ba, Kiros & Hinton, *Layer Normalization*, 2016; computed by :class:`torch.nn.LayerNorm`.

    Args:
        channels: Width of the node features.
    """

    nodewise = True

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Features, graph: Graph) -> Features:
        return self.norm(x)


@register("norm", "node")
class NodeNorm(FeatureNorm):
    r"""NodeNorm: divide each node's features by a root of their deviation, without centring them.

    .. math:: \tilde x_i = x_i / \sigma_i^{1/p}, \qquad \sigma_i^2 = \mathrm{var}(x_i) + \epsilon

    where the variance is taken over the channels of the node. Zhou et al., *Understanding and
    Resolving Performance Degradation in Deep Graph Convolutional Networks*, CIKM 2021. The default
    options are those of the authors' configuration.

    Args:
        channels: Width of the node features.
        p: The order of the root; 1 divides by the standard deviation, larger values change the
            features less.
    """

    nodewise = True

    def __init__(self, channels: int, p: Positive = 1.0) -> None:
        super().__init__(channels)
        self.p = p

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        variance = wide.var(-1, correction=0, keepdim=True)
        # The variance, not its root, is raised: hence half the power.
        return (wide * (variance + EPS).pow(-0.5 / self.p)).to(x.dtype)
