"""The version of a data set: a checksum of what a training sees of it."""

import hashlib

from torch import Tensor

from gnn_depth.data.base import NodeBatch


def fingerprint(batch: NodeBatch) -> str:
    """SHA-256 of features, classes, edges and masks, with their shapes and types, in hex.

    Equal for equal data whatever it is called and wherever it lies; another split, another missing-feature mask or a
    changed file changes it.
    """
    whole = hashlib.sha256()
    for part in (batch.x, batch.y, batch.graph.edge_index, *batch.masks):
        whole.update(_head(part))
        whole.update(part.detach().cpu().contiguous().numpy().data)
    return whole.hexdigest()


def _head(part: Tensor) -> bytes:
    return f"{part.dtype} {tuple(part.shape)};".encode()
