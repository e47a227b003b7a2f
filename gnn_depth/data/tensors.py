"""Turn the arrays that users give into dense tensors, or say why not."""

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError

LARGEST = torch.iinfo(torch.int64).max


def is_text(value: object) -> bool:
    """True for an array or list of text, such as the names of classes."""
    if isinstance(value, Tensor) or hasattr(value, "toarray"):
        return False
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return True
    if array.dtype.kind != "O" or not array.size:
        return False
    return all(isinstance(item, str) for item in array.flat)


def as_tensor(name: str, value: object) -> Tensor:
    """A tensor, array, list or sparse matrix as a dense tensor in main memory.

    Raises:
        DataError: It holds no plain numbers; the message names it and the way out.
    """
    if hasattr(value, "toarray"):  # a sparse matrix of SciPy
        value = value.toarray()
    elif hasattr(value, "to_dense") and not isinstance(value, Tensor):  # SparseTensor
        value = value.to_dense()
    if not isinstance(value, Tensor):
        value = _from_numpy(name, value)
    if value.is_meta:
        raise DataError(f"{name} has no values: it is on the device 'meta'. Give a filled tensor.")
    if value.is_quantized:
        raise DataError(f"{name} is quantised: give {name}.dequantize().")
    if value.dtype in (torch.uint16, torch.uint32, torch.uint64):  # for which PyTorch can do little
        value = _from_numpy(name, value.cpu().numpy())
    if value.is_nested:
        raise DataError(f"{name} is a nested tensor: give {name}.to_padded_tensor(0).")
    if value.is_complex():
        raise DataError(f"{name} is complex: give torch.view_as_real({name}).flatten(1).")
    if value.layout != torch.strided:
        value = value.to_dense()
    return value.detach().cpu()


def _from_numpy(name: str, value: object) -> Tensor:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(
            f"{name} is a masked array, whose hidden values are unknown: fill them, as in "
            f"{name}.astype(float).filled(numpy.nan)."
        )
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise DataError(f"{name} is no array of numbers: {error}.") from None
    kinds = {"b": np.bool_, "i": np.int64, "u": np.int64}
    dtype = kinds.get(array.dtype.kind)
    if array.dtype.kind == "f":  # float64 stays, so that lost digits can be told
        dtype = np.float32 if array.dtype.itemsize <= 4 else np.float64
    if dtype is None:
        held = "text" if is_text(array) else f"values of the type {array.dtype}"
        raise DataError(f"{name} holds {held}, and must hold numbers.")
    if array.dtype.kind == "u" and array.size and int(array.max()) > LARGEST:
        raise DataError(f"{name} holds integers above {LARGEST}: give floats, or number them anew.")
    # The copy has the native byte order, and may be written to.
    return torch.from_numpy(np.array(array, dtype, order="C"))
