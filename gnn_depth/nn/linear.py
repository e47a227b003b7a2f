"""Linear map of dense or sparse features, with an optional weight norm."""

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.linear import linear
from gnn_depth.nn.functional.segments import targets
from gnn_depth.nn.functional.sparse_features import SparseFeatures
from gnn_depth.nn.parts import WeightNorm


class Linear(nn.Linear):
    """``torch.nn.Linear`` for dense or sparse features, with an optional weight norm.

    Attributes:
        weight: The parameter, shape (outputs, inputs).
        weight_norm: The norm that the stack has placed here, or None.
    """

    weight_norm: WeightNorm | None

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, bias)
        self.register_module("weight_norm", None)

    @property
    def normed_weight(self) -> Float[Tensor, "outputs inputs"]:
        """The matrix of the map: the parameter, normalised if there is a norm."""
        if self.weight_norm is None:
            return self.weight
        return self.weight_norm(self.weight)

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        if isinstance(x, SparseFeatures):
            return x.linear(self.normed_weight, self.bias)
        return linear(x, self.normed_weight, self.bias)

    def of_targets(
        self, x: Tensor | SparseFeatures, graph: Graph
    ) -> Float[Tensor, "targets outputs"]:
        """Apply the map to the features of the targets, which on a block are the first rows."""
        if isinstance(x, SparseFeatures):
            return targets(self(x), graph)
        return self(targets(x, graph))
