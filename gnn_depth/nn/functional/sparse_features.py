"""Features that are mostly zero, such as bags of words, as rows of a sparse matrix."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.weak import WeakTensorKeyDictionary

from gnn_depth.csr import EdgeRows
from gnn_depth.nn.functional.dropout import dropout_at
from gnn_depth.nn.functional.kernels import bag_sum, with_jvp

#: A sparse product is faster below this fraction of non-zeros, for matrices of at least this many
#: numbers.
DENSEST, SMALLEST = 0.1, 2**16


@dataclass(frozen=True)
class SparseFeatures:
    """A matrix (nodes, features) stored by its non-zeros.

    Attributes:
        values: The non-zeros, row by row, shape (non-zeros,).
        positions: Their positions in the flattened matrix, int32; shape (non-zeros,).
        rows: Their order by rows and by columns.
    """

    values: Tensor
    positions: Tensor
    rows: EdgeRows

    def dense(self) -> Tensor:
        """The matrix with its zeros."""
        flat = self.values.new_zeros(self.rows.shape[0] * self.rows.shape[1])
        return flat.index_put((self.positions.long(),), self.values).view(self.rows.shape)

    def dropout(
        self, p: float, training: bool = True, rows: Tensor | None = None
    ) -> "SparseFeatures":
        """Dropout of the matrix: zeros stay zero, so only the non-zeros need a mask."""
        positions = self.positions
        if rows is not None and training:
            columns = self.rows.shape[1]
            positions = (
                rows[positions.div(columns, rounding_mode="floor")] * columns + positions % columns
            ).int()
        return replace(self, values=dropout_at(positions, self.values, p, training))

    def linear(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The product with a weight of shape (outputs, features), plus a bias."""
        out = _product(weight.t(), self, False)
        return out if bias is None else out + bias


def sparse_features(x: Tensor) -> Tensor | SparseFeatures:
    """The sparse form of features if it saves time, otherwise the features themselves.

    The sparse form is cached as long as the tensor exists. Features that need a gradient stay
    dense.
    """
    if x.dim() != 2 or x.numel() < SMALLEST or not x.is_floating_point() or _is_differentiated(x):
        return x
    version, sparse = _KNOWN.get(x, (None, None))  # type: ignore[no-untyped-call]
    if version != x._version:
        sparse = _sparse(x) if torch.count_nonzero(x) < DENSEST * x.numel() else None
        _KNOWN[x] = x._version, sparse
    return x if sparse is None else sparse


_KNOWN: "WeakTensorKeyDictionary" = WeakTensorKeyDictionary()


def _is_differentiated(x: Tensor) -> bool:
    if x.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    # Outside a forward-mode level nothing has a tangent, and unpacking fails.
    in_level = torch.autograd.forward_ad._current_level >= 0
    return in_level and torch.autograd.forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def _sparse(x: Tensor) -> SparseFeatures:
    row, column = x.nonzero(as_tuple=True)
    positions = (row * x.shape[1] + column).int()
    return SparseFeatures(
        x[row, column], positions, EdgeRows(column, row, (x.shape[0], x.shape[1]), heads=1)
    )


class _Product(Function):
    """The matrix, or its transpose, times a dense one; each product is the gradient of the
    other."""

    @staticmethod
    def forward(dense: Tensor, x: SparseFeatures, transposed: bool) -> Tensor:
        ptr, index, order = x.rows.csr(transposed)
        return bag_sum(dense, index, ptr, x.values if order is None else x.values[order]).to(
            dense.dtype
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.x, ctx.transposed = inputs
        ctx.save_for_backward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _product(grads[0], ctx.x, not ctx.transposed), None, None


_product = with_jvp(_Product)
