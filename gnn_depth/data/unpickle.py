"""Reading the old pickles of Planetoid without running what they say."""

import io
import pickle
import pickletools
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from gnn_depth.data.checks import DataError

MOST_NUMBERS = 2**28  # of a dense matrix; PubMed's has a twenty-seventh of it
MEMO = ("PUT", "BINPUT", "LONG_BINPUT")
# Not read: what makes room of a claimed size before there is anything to fill it, and what no such file has.
REFUSED = ("BYTEARRAY8", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER")


class Dtype:
    """What a pickled NumPy type says: NumPy's own would take flags and sizes from the file, and trust them."""

    __slots__ = ("code", "order")

    def __init__(self, code: str, align: int = 0, copy: int = 0) -> None:
        if not re.fullmatch("[biuf][1248]", code):
            raise pickle.UnpicklingError(f"numbers of the kind {code!r}")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = {"<": "<", ">": ">", "=": "=", "|": "="}[state[1]]

    def get(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class Array:
    """What a pickled array holds: shape, kind of number and bytes, kept as data."""

    __slots__ = ("state",)

    state: tuple[Any, ...]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, Dtype):
            raise ValueError("an array without a kind of number")
        raw = content.encode("latin1") if isinstance(content, str) else content
        values = np.frombuffer(raw, kind.get()).reshape(shape, order="F" if by_columns else "C")
        return values.astype(kind.get().newbyteorder("=") if dtype is None else dtype)


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
        if min(rows, columns) < 0 or max(rows, columns, rows * columns) > MOST_NUMBERS:
            raise DataError(f"the sparse matrix has {rows} x {columns} entries: no such file has so many.")
        integers = ptr.dtype.kind == index.dtype.kind == "i" and value.dtype.kind in "fiu"
        whole = integers and ptr.shape == (rows + 1,) and index.shape == value.shape == (ptr[-1],) and ptr[0] == 0
        if not whole or (np.diff(ptr) < 0).any() or (index < 0).any() or (index >= columns).any():
            raise DataError("the parts of the sparse matrix do not fit each other.")
        matrix = np.zeros((rows, columns), value.dtype)
        matrix[np.repeat(np.arange(rows), np.diff(ptr)), index] = value
        return matrix


class _Call:
    """A function that a pickle may call, and whose attributes it cannot set."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _encode(text: str, encoding: str) -> bytes:
    """The only use of ``codecs.encode`` in these files: Python 3 keeps bytes as latin-1 text in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Empty arrays of Python 3 hold their bytes so; ``bytes`` itself would make as many as it is asked for."""
    return b""


def _reconstruct(kind: object, shape: object, code: object) -> Array:
    """NumPy's beginning of an array, whose content follows as its state."""
    return Array()


def _not_called(*args: object) -> None:
    raise pickle.UnpicklingError("it calls what only names a kind of array")


# All that these files may call, by the names that Python 2 and 3, old and new NumPy and SciPy give it.
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Call(_not_called),
    ("numpy", "dtype"): Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Call(_reconstruct),
    ("numpy._core.multiarray", "_reconstruct"): _Call(_reconstruct),
    ("scipy.sparse.csr", "csr_matrix"): CsrMatrix,
    ("scipy.sparse._csr", "csr_matrix"): CsrMatrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("__builtin__", "int"): int,
    ("builtins", "list"): list,
    ("builtins", "int"): int,
    ("__builtin__", "bytes"): _Call(_no_bytes),
    ("_codecs", "encode"): _Call(_encode),
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
        _check_room(content)
        found = _Restricted(io.BytesIO(content), encoding="latin1").load()
        return np.asarray(found) if isinstance(found, Array) else found
    # Damaged pickles raise whatever the constructors of their parts raise.
    except Exception as error:
        raise DataError(f"it is no pickle of arrays, and was not run: {error}.") from None


def _check_room(content: bytes) -> None:
    """Refuse a pickle that claims more memory than it has bytes: the unpickler would make room for it."""
    for operation, argument, position in pickletools.genops(content):
        claims = operation.name in MEMO and int(argument or 0) > len(content)
        if claims or operation.name in REFUSED:
            raise pickle.UnpicklingError(f"{operation.name} at {position}")
