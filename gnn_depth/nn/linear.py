"""Linear map of dense or sparse features."""

from torch import Tensor, nn

from gnn_depth.nn.functional.sparse_features import SparseFeatures


class Linear(nn.Linear):
    """``torch.nn.Linear`` that takes sparse features too, and multiplies their non-zeros only."""

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        if isinstance(x, SparseFeatures):
            return x.linear(self.weight, self.bias)
        return super().forward(x)
