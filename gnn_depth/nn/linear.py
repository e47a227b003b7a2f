"""Linear map of dense or sparse features."""

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.linear import linear
from gnn_depth.nn.functional.segments import targets
from gnn_depth.nn.functional.sparse_features import SparseFeatures


class Linear(nn.Linear):
    """``torch.nn.Linear`` that takes sparse features too, and multiplies their non-zeros only."""

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        if isinstance(x, SparseFeatures):
            return x.linear(self.weight, self.bias)
        return linear(x, self.weight, self.bias)

    def of_targets(self, x: Tensor | SparseFeatures, graph: Graph) -> Float[Tensor, "targets outputs"]:
        """What it gives for the targets among the sources: all of them, but of a block."""
        return targets(self(x), graph) if isinstance(x, SparseFeatures) else self(targets(x, graph))
