"""Linear map of dense or sparse features, with an optional weight norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.segments import targets
from gnn_depth.nn.functional.sparse_features import SparseFeatures
from gnn_depth.nn.parts import Matrix, Outputs, WeightNorm


def make_bias(channels: int, wanted: bool) -> nn.Parameter | None:
    """A vector of zeros for a layer to add to its output; None for a layer without a bias."""
    if not wanted:
        return None
    return nn.Parameter(torch.zeros(channels))


def weights_of(*maps: nn.Module | None) -> tuple[Tensor, ...]:
    """The matrices of some linear maps, for a weight chain; of those that are missing, or an
    identity, there is none."""
    return tuple(each.weight for each in maps if isinstance(each, nn.Linear))


def mapped(x: Tensor | SparseFeatures, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The map :math:`W x_i + b` of dense or sparse features."""
    if isinstance(x, SparseFeatures):
        return x.linear(weight, bias)
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """``torch.nn.Linear`` for dense or sparse features, with an optional weight norm.

    Attributes:
        weight: The parameter, shape (outputs, inputs).
        weight_norm: The norm that the stack has placed here, or None.
    """

    weight_norm: WeightNorm | None

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, bias)
        # Known from the start, so that checkpoints and compiled code see one kind of module.
        self.register_module("weight_norm", None)

    @property
    def normed_weight(self) -> Matrix:
        """The matrix of the map: the parameter, normalised if there is a norm."""
        if self.weight_norm is None:
            return self.weight
        return self.weight_norm(self.weight)

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        return mapped(x, self.normed_weight, self.bias)

    def of_targets(self, x: Tensor | SparseFeatures, graph: Graph) -> Outputs:
        """Apply the map to the features of the targets, which on a block are the first rows."""
        if isinstance(x, SparseFeatures):  # all rows: a part of them would have to be sorted anew
            return targets(self(x), graph)
        return self(targets(x, graph))
