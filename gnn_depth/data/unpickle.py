"""Reading the old pickles of Planetoid without running what they say."""

import io
import pickle
from collections import defaultdict
from typing import Any

import numpy as np

from gnn_depth.data.checks import DataError


class CsrMatrix:
    """What a pickled ``scipy.sparse.csr_matrix`` holds: its attributes, kept as data."""

    __slots__ = ("state",)

    state: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def dense(self) -> np.ndarray:
        """The matrix in full.

        Raises:
            DataError: The pointers, columns and values do not fit each other.
        """
        try:
            rows, columns = (int(size) for size in self.state["_shape"])
            ptr, index, value = (np.asarray(self.state[key]) for key in ("indptr", "indices", "data"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the sparse matrix lacks a part: {error!r}.") from None
        integers = ptr.dtype.kind == index.dtype.kind == "i" and value.dtype.kind in "fiu"
        whole = integers and ptr.shape == (rows + 1,) and index.shape == value.shape == (ptr[-1],) and ptr[0] == 0
        if not whole or (np.diff(ptr) < 0).any() or (index < 0).any() or (index >= columns).any():
            raise DataError("the parts of the sparse matrix do not fit each other.")
        matrix = np.zeros((rows, columns), value.dtype)
        matrix[np.repeat(np.arange(rows), np.diff(ptr)), index] = value
        return matrix


def _encode(text: str, encoding: str) -> bytes:
    """The only use of ``codecs.encode`` in these files: Python 3 keeps bytes as latin-1 text in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


def _dtype(kind: str, align: int = 0, copy: int = 0) -> np.dtype:
    """NumPy deprecates the integers that old pickles give here."""
    return np.dtype(kind, align=bool(align), copy=bool(copy))


_reconstruct: Any = np.empty(0).__reduce__()[0]

# All that these files may call, by the names that Python 2 and 3, old and new NumPy and SciPy give it.
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): CsrMatrix,
    ("scipy.sparse._csr", "csr_matrix"): CsrMatrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("__builtin__", "int"): int,
    ("builtins", "list"): list,
    ("builtins", "int"): int,
    # Empty arrays of Python 3 hold their bytes so.
    ("__builtin__", "bytes"): bytes,
    ("_codecs", "encode"): _encode,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def loads(content: bytes) -> Any:
    """The arrays, matrices and lists in a pickle that holds nothing else.

    A pickle is a program: the checksum says that it is the published one, and this says that even an unknown one
    can do no more than build arrays.

    Raises:
        DataError: It is damaged, or asks for anything else, which is not run.
    """
    try:
        return _Restricted(io.BytesIO(content), encoding="latin1").load()
    # Damaged pickles raise whatever the constructors of their parts raise.
    except Exception as error:
        raise DataError(f"it is no pickle of arrays, and was not run: {error}.") from None
