"""The version of a data set: a checksum of what a training sees of it."""

import hashlib

from torch import Tensor


def fingerprint(*parts: Tensor) -> str:
    """SHA-256 of tensors, with their shapes and types, in hex: of features, classes, edges and masks, say.

    Equal for equal data whatever it is called and wherever it lies; another split, another missing-feature mask or a
    changed file changes it.
    """
    whole = hashlib.sha256()
    for part in parts:
        whole.update(_head(part))
        whole.update(part.detach().cpu().contiguous().numpy().data)
    return whole.hexdigest()


def _head(part: Tensor) -> bytes:
    return f"{part.dtype} {tuple(part.shape)};".encode()
