"""Features that are mostly zero, such as bags of words, as rows of a sparse matrix."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnn_depth import torch_internals
from gnn_depth.csr import EdgeRows
from gnn_depth.nn.functional.dropout import dropout_at
from gnn_depth.nn.functional.rules import Primitive, bag_sum, linear
from gnn_depth.nn.functional.segments import plus

#: A sparse product is faster below this fraction of non-zeros,
DENSEST = 0.1
#: for matrices of at least this many numbers.
SMALLEST = 2**16
#: One of so many non-zeros is compared at every call with what was read when the form was made.
COMPARED = 8


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
            # The rows of a shard get the mask that they have in the whole matrix.
            columns = self.rows.shape[1]
            row = rows[positions.div(columns, rounding_mode="floor")]
            positions = (row * columns + positions % columns).int()
        return replace(self, values=dropout_at(positions, self.values, p, training))

    def linear(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The product with a weight of shape (outputs, features), plus a bias."""
        return plus(_product(weight.t(), self, False), bias)


def sparse_features(x: Tensor) -> Tensor | SparseFeatures:
    """The sparse form of features if it saves time, otherwise the features themselves.

    The sparse form is kept while the tensor lives and is unchanged. Changes by torch's operations
    are counted. Of others, through NumPy or ``.data``, those are seen that change one of the
    non-zeros compared here, which are spread over all rows: give ``x.clone()`` after a smaller one.
    Features that need a gradient stay dense.
    """
    # Exported models take dense features, and so does what is differentiated by them.
    if torch_internals.is_traced() or x.requires_grad:
        return x
    if x.dim() != 2 or x.numel() < SMALLEST or not x.is_floating_point():
        return x
    version = torch_internals.version(x)
    before, sparse = _KNOWN.get(x, (None, None))  # type: ignore[no-untyped-call]
    if version is None or version != before or not _holds(sparse, x):
        sparse = None
        # Tensors that are made in inference mode could not be trained with later.
        with torch.inference_mode(False):
            if torch.count_nonzero(x) < DENSEST * x.numel():
                sparse = sparse_form(x)
        # Tensors of inference mode count no changes, so their form cannot be trusted later.
        if version is not None:
            _KNOWN[x] = version, sparse
    if sparse is None:
        return x
    return sparse


def _holds(sparse: SparseFeatures | None, x: Tensor) -> bool:
    """True if a form still has the non-zeros of the features that are compared."""
    # On other devices a comparison would wait for what is queued there.
    if sparse is None or x.device.type != "cpu":
        return True
    if x.shape != sparse.rows.shape:
        return False
    compared = sparse.positions[::COMPARED].long()
    return torch.equal(x.detach().reshape(-1)[compared], sparse.values[::COMPARED])


#: Features -> their version when it was looked at, and the sparse form; None if it saves no time.
_KNOWN: "WeakTensorKeyDictionary" = WeakTensorKeyDictionary()


def sparse_form(x: Tensor) -> SparseFeatures:
    """The sparse form of a matrix of features."""
    row, column = x.nonzero(as_tuple=True)
    rows = EdgeRows(column, row, (x.shape[0], x.shape[1]))
    positions = (row * x.shape[1] + column).int()
    return SparseFeatures(x[row, column], positions, rows)


def _multiply(dense: Tensor, x: SparseFeatures, transposed: bool) -> Tensor:
    ptr, index, order = x.rows.csr(transposed)
    values = x.values
    if order is not None:
        values = values[order]
    return bag_sum(dense, index, ptr, values).to(dense.dtype)


def _reference(dense: Tensor, x: SparseFeatures, transposed: bool) -> Tensor:
    matrix = x.dense().t() if transposed else x.dense()
    return matrix.to(dense.dtype) @ dense


#: _product(dense, x, transposed): the matrix, or its transpose, times a dense one.
_product: Primitive = linear(
    _multiply, lambda grad, x, transposed: _product(grad, x, not transposed), _reference
)
