"""The network of a peer, around layers of PyTorch Geometric or ``torch.sparse``, and what all sides
share."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

# So small that the weights stay where all sides began: one side takes more steps than another, and
# numbers that vanish or grow on the way would be timed too.
LEARNING_RATE = 1e-6
TOLERANCE = 1e-4
#: Dropout of the input of each layer of the family gat-lip.
DROPOUT = 0.6


class Stack(nn.Module):
    """A linear map, L layers with an activation between them, and a linear map; of GATv2 the layers
    alone.

    Args:
        family: That of the case.
        make: Makes a layer, of the width of its input and that of one of its heads.
        sizes: Features, classes, layers, width of a head, heads.
    """

    def __init__(self, family: str, make: Callable[[int, int], nn.Module], *sizes: int) -> None:
        super().__init__()
        features, classes, layers, width, heads = sizes
        self.family = family
        self.encoder: nn.Module = nn.Identity()
        self.decoder: nn.Module = nn.Identity()
        widths = [features, *[width] * (layers - 1), classes]
        if family != "gatv2":
            widths = [width, *[width * heads] * layers]
            self.encoder = nn.Linear(features, width)
            self.decoder = nn.Linear(widths[-1], classes)
        self.layers = nn.ModuleList()
        for inputs, outputs in pairwise(widths):
            self.layers.append(make(inputs, outputs // heads))

    def forward(self, x: Tensor, graph: Any) -> Tensor:
        x = self.encoder(x)
        for position, layer in enumerate(self.layers):
            before = x
            if self.family == "gat-lip":
                x = F.dropout(x, DROPOUT, self.training)
            x = layer(x, graph)
            if position < len(self.layers) - 1:
                x = F.elu(x) if self.family == "gat-lip" else F.relu(x)
            if self.family == "gcn":
                x = before + x
        return self.decoder(x)


def check_equal(first: Tensor, second: Tensor) -> None:
    """Compare the scores of two sides.

    Raises:
        ValueError: They differ, so the two are not the same model.
    """
    difference = float((first - second).abs().max() / first.abs().max().clamp_min(1e-30))
    if not difference <= TOLERANCE:
        raise ValueError(
            f"the sides differ by {difference:.1e} of the largest score, more than {TOLERANCE:.0e}."
        )
