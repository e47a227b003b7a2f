"""The raw files of Planetoid (Yang, Cohen & Salakhutdinov, ICML 2016), checked and read."""

import io
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.checksums import GEOM_GCN, PLANETOID
from gnn_depth.data.features import coalesce
from gnn_depth.data.unpickle import CsrMatrix, loads
from gnn_depth.data.verify import DataFile, read_verified

URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
SPLITS_URL = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/splits"
# Nodes, features and classes of each set.
SIZES = {"Cora": (2708, 1433, 7), "CiteSeer": (3327, 3703, 6), "PubMed": (19717, 500, 3)}
NUM_VAL = 500


@dataclass(frozen=True)
class Citations:
    """What the raw files of a set say.

    Attributes:
        x, y, edge_index: Features, classes and edges; both directions of an edge, no self-loops.
        train_mask, val_mask, test_mask: The public split.
        train_features_only: Whether all nodes outside the training and test sets have no features at all,
            as in a PubMed rebuilt from the files ``x`` and ``tx``.
    """

    x: Tensor
    y: Tensor
    edge_index: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    train_features_only: bool


def read_citations(root: Path, name: str) -> Citations:
    """Read ``<root>/<name>/raw/ind.*``, downloading what is not there.

    Raises:
        DataError: A file is missing, is not the published one, or does not fit the others.
    """
    nodes, features, classes = SIZES[name]
    x, allx, tx = (_matrix(root, name, part, features) for part in ("x", "allx", "tx"))
    ally, ty = (_matrix(root, name, part, classes) for part in ("ally", "ty"))
    test = _test_index(root, name)
    _check_sizes(root, name, (x, allx, tx, ally, ty, test), nodes)
    # Test nodes stand at the end in the order of test.index. CiteSeer's list lacks 15 nodes, whose features
    # and class nobody knows: they get zeros here, hence class 0, and are in no mask of the public split.
    full_x, full_y = np.zeros((nodes, features), np.float32), np.zeros((nodes, classes), np.float32)
    full_x[: len(allx)], full_y[: len(ally)] = allx, ally
    full_x[test], full_y[test] = tx, ty
    index = np.arange(nodes)
    train, val = index < len(x), (index >= len(x)) & (index < len(x) + NUM_VAL)
    return Citations(
        x=torch.from_numpy(full_x),
        y=torch.from_numpy(full_y.argmax(1)),
        edge_index=_edges(root, name, nodes),
        train_mask=torch.from_numpy(train),
        val_mask=torch.from_numpy(val),
        test_mask=torch.from_numpy(np.isin(index, test)),
        train_features_only=not allx[len(x) :].any(),
    )


def read_split(root: Path, name: str, split_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """One of the ten splits of Pei et al. (*Geom-GCN*, ICLR 2020): train, validation and test mask."""
    file_name = f"{name.lower()}_split_0.6_0.2_{split_index}.npz"
    # The PubMed files have no known checksum. They cannot run code (no pickles allowed); shapes are checked.
    path = root / name / "geom-gcn" / "raw" / file_name
    file = DataFile(path, f"{SPLITS_URL}/{file_name}", _known(GEOM_GCN, file_name))
    masks = []
    try:
        with np.load(io.BytesIO(read_verified(file)), allow_pickle=False) as arrays:
            for key in ("train_mask", "val_mask", "test_mask"):
                mask = arrays[key]
                if mask.shape != (SIZES[name][0],) or not np.isin(mask, (0, 1)).all():
                    raise DataError(f"{key} in {str(path)!r} is not one yes or no for each node of {name}.")
                masks.append(torch.from_numpy(mask.astype(bool)))
    except DataError:
        raise
    except Exception as error:
        raise damaged(path, error) from None
    return masks[0], masks[1], masks[2]


def damaged(path: Path, reason: object) -> DataError:
    """The error for a file whose content makes no sense."""
    return DataError(
        f"data file {str(path)!r} cannot be used: {reason}\n"
        "It is damaged or is another file. Move it away, and it will be downloaded again."
    )


def _file(root: Path, name: str, part: str) -> DataFile:
    file_name = f"ind.{name.lower()}.{part}"
    return DataFile(root / name / "raw" / file_name, f"{URL}/{file_name}", _known(PLANETOID, file_name))


def _known(table: dict[str, str], name: str) -> tuple[str, ...]:
    return (table[name],) if name in table else ()


def _unpickle(file: DataFile) -> Any:
    # PubMed's `allx` alone has no known checksum (published and rebuilt ones are about): the restricted unpickler
    # is what makes it safe to read, and _check_sizes compares its training rows with `x`, which has a checksum.
    content = read_verified(file)
    try:
        return loads(content)
    except DataError as error:
        raise damaged(file.path, error) from None


def _matrix(root: Path, name: str, part: str, columns: int) -> np.ndarray:
    file = _file(root, name, part)
    content = _unpickle(file)
    try:
        matrix = content.dense() if isinstance(content, CsrMatrix) else content
    except DataError as error:
        raise damaged(file.path, error) from None
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "fiu" or matrix.shape[1:] != (columns,):
        raise damaged(file.path, f"it is no matrix of numbers with {columns} columns.")
    return matrix


def _test_index(root: Path, name: str) -> np.ndarray:
    file = _file(root, name, "test.index")
    try:
        return np.array(read_verified(file).split(), np.int64)
    except (ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise damaged(file.path, error) from None


def _check_sizes(root: Path, name: str, parts: tuple[np.ndarray, ...], nodes: int) -> None:
    """Files that each are what they should be, and together are one data set."""
    x, allx, tx, ally, ty, test = parts
    # The rows of `allx` that have a checksum elsewhere.
    if len(allx) != len(ally) or not np.array_equal(allx[: len(x)], x):
        raise damaged(_file(root, name, "allx").path, f"its {len(allx)} rows do not agree with the files x and ally.")
    if not len(tx) == len(ty) == len(test) == len(np.unique(test)):
        raise damaged(_file(root, name, "test.index").path, f"{len(test)} test nodes, {len(tx)} rows of features.")
    if test.min() < len(allx) or test.max() != nodes - 1:
        raise damaged(_file(root, name, "test.index").path, f"test nodes run from {test.min()} to {test.max()}.")


def _edges(root: Path, name: str, nodes: int) -> Tensor:
    file = _file(root, name, "graph")
    neighbours = _unpickle(file)
    try:
        counts = [len(targets) for targets in neighbours.values()]
        source = np.repeat(np.fromiter(neighbours.keys(), np.int64), counts)
        target = np.fromiter(chain.from_iterable(neighbours.values()), np.int64, sum(counts))
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise damaged(file.path, error) from None
    edge_index = torch.from_numpy(np.stack([source, target]))
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < nodes:
        raise damaged(file.path, f"it names a node outside 0 to {nodes - 1}.")
    return coalesce(edge_index[:, source != target], nodes, undirected=False)
