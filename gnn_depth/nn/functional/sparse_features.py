"""Features that are mostly zero, such as bags of words, as rows of a sparse matrix."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.weak import WeakTensorKeyDictionary

from gnn_depth.csr import pointers
from gnn_depth.nn.functional.dropout import dropout_at
from gnn_depth.nn.functional.kernels import bag_sum, with_jvp

#: Below this share of non-zeros a sparse product wins, and only for matrices of this many numbers or more.
DENSEST, SMALLEST = 0.1, 2**16


@dataclass(frozen=True)
class SparseFeatures:
    """A matrix (nodes, features) by its non-zeros, in the order of its rows and in that of its columns.

    Attributes:
        shape: Nodes and features.
        values: The non-zeros, row by row.
        ptr, column: CSR of the matrix, int32.
        transposed_ptr, transposed_row: CSR of its transpose, int32.
        transposed_order: Position in ``values`` of each entry of the transpose.
    """

    shape: tuple[int, int]
    values: Tensor
    ptr: Tensor
    column: Tensor
    transposed_ptr: Tensor
    transposed_row: Tensor
    transposed_order: Tensor

    def dropout(self, p: float, training: bool = True) -> "SparseFeatures":
        """What dropout makes of the matrix: a zero that is dropped stays zero."""
        row = torch.repeat_interleave(torch.arange(self.shape[0], device=self.ptr.device), self.ptr.diff())
        positions = (row * self.shape[1] + self.column).int()
        return replace(self, values=dropout_at(positions, self.values, p, training))

    def linear(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The product with a weight of shape (outputs, features), plus a bias."""
        out = _linear(weight, self)
        return out if bias is None else out + bias


def sparse_features(x: Tensor) -> Tensor | SparseFeatures:
    """The sparse form of features where it pays, otherwise the features themselves.

    It is made once for a tensor and kept as long as the tensor; features that are differentiated stay as they are.
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
    order = torch.argsort(column, stable=True)
    return SparseFeatures(
        shape=(x.shape[0], x.shape[1]),
        values=x[row, column],
        ptr=pointers(row, x.shape[0]).int(),
        column=column.int(),
        transposed_ptr=pointers(column, x.shape[1]).int(),
        transposed_row=row[order].int(),
        transposed_order=order,
    )


class _Linear(Function):
    @staticmethod
    def forward(weight: Tensor, x: SparseFeatures) -> Tensor:
        return bag_sum(weight.t(), x.column, x.ptr, x.values).to(weight.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.x = inputs
        ctx.save_for_backward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _linear_transposed(grads[0], ctx.x), None


class _LinearTransposed(Function):
    """The adjoint of the product: from gradients (nodes, outputs) to those of the weight (outputs, features)."""

    @staticmethod
    def forward(grad: Tensor, x: SparseFeatures) -> Tensor:
        values = x.values[x.transposed_order]
        return bag_sum(grad, x.transposed_row, x.transposed_ptr, values).t().to(grad.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.x = inputs
        ctx.save_for_backward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _linear(grads[0], ctx.x), None


_linear: Callable[..., Tensor] = with_jvp(_Linear, lambda ctx, weight_t, _: _linear(weight_t, ctx.x))
_linear_transposed: Callable[..., Tensor] = with_jvp(
    _LinearTransposed, lambda ctx, grad_t, _: _linear_transposed(grad_t, ctx.x)
)
