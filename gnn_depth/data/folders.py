"""Folders that hold a graph: the raw files of OGB, and data sets of DGL in CSV files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.data.checks import DataError
from gnn_depth.data.table_files import TableFile
from gnn_depth.yaml_limits import safe_load

OGB_SPLITS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}  # its file names


def read_ogb(folder: Path, notes: list[str]) -> list[dict[str, np.ndarray | int]] | None:
    """Read the arrays of each graph in a folder of OGB's raw CSV files; None if it is none.

    Args:
        folder: The folder ``raw``, or the one that it is in. The split is read from the folder
            ``split`` beside it.
        notes: Gets a sentence for each decision.

    Raises:
        DataError: A file is missing, or their lengths do not fit.
    """
    raw = folder / "raw" if (folder / "raw").is_dir() else folder
    if _csv(raw, "edge") is None:
        return None
    # All graphs are in the same files, one after another; two lists have their sizes.
    edges = _table(raw, "edge")
    x = _table(raw, "node-feat", needed=False)
    edge_attr = _table(raw, "edge-feat", needed=False)
    nodes = _counts(raw, "num-node-list")
    of_edges = _counts(raw, "num-edge-list")
    per_graph = _csv(raw, "graph-label") is not None
    labels, rows_of_y = "node-label", int(nodes.sum())
    if per_graph:
        labels, rows_of_y = "graph-label", len(nodes)
    y = _table(raw, labels)
    # OGB marks unknown labels by NaN, which integers cannot hold.
    is_whole = not np.isnan(y).any() and np.array_equal(y, np.round(y))
    dtype = np.int64 if is_whole else np.float64
    y = y.astype(dtype)
    _check_length(raw, "edge", edges, int(of_edges.sum()))
    _check_length(raw, "the labels", y, rows_of_y)
    masks = _masks(raw.parent / "split", len(y), notes)
    graphs = []
    first_node = first_edge = 0
    for number, (count, edge_count) in enumerate(zip(nodes, of_edges, strict=True)):
        last_node, last_edge = first_node + count, first_edge + edge_count
        own_nodes, own_edges = slice(first_node, last_node), slice(first_edge, last_edge)
        rows = slice(number, number + 1) if per_graph else own_nodes
        arrays: dict[str, np.ndarray | int] = {
            "edge_index": edges[own_edges].T.astype(np.int64),
            "num_nodes": int(count),
            "y": y[rows],
        }
        if x is not None:
            arrays["x"] = x[own_nodes]
        if edge_attr is not None:
            arrays["edge_attr"] = edge_attr[own_edges]
        for name, mask in masks.items():
            arrays[name] = mask[rows]
        graphs.append(arrays)
        first_node, first_edge = last_node, last_edge
    return graphs


def _csv(folder: Path, name: str) -> Path | None:
    for suffix in (".csv.gz", ".csv"):
        path = folder / f"{name}{suffix}"
        if path.is_file():
            return path
    return None


def _table(folder: Path, name: str, needed: bool = True) -> Any:
    """The numbers of a file without a first line of names; None if it need not be there."""
    path = _csv(folder, name)
    if path is None:
        if needed:
            raise DataError(f"the folder {str(folder)!r} of OGB has no {name}.csv.gz.")
        return None
    try:
        return pd.read_csv(path, header=None, skipinitialspace=True).to_numpy()
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from None


def _counts(folder: Path, name: str) -> np.ndarray:
    counts: np.ndarray = _table(folder, name)[:, 0]
    return counts.astype(np.int64)


def _check_length(folder: Path, name: str, values: np.ndarray, wanted: int) -> None:
    if len(values) != wanted:
        raise DataError(f"{str(folder)!r}: {name} has {len(values):,} rows, and needs {wanted:,}.")


def _masks(folder: Path, rows: int, notes: list[str]) -> dict[str, np.ndarray]:
    """The split of OGB: numbers of nodes or graphs, in a folder named by its kind."""
    kinds = sorted(each for each in folder.glob("*") if each.is_dir())
    if not kinds:  # a random split is drawn, and told
        return {}
    if len(kinds) > 1:
        names = ", ".join(kind.name for kind in kinds)
        raise DataError(f"{str(folder)!r} has several splits, {names}: leave one of them there.")
    notes.append(f"the split is that of {kinds[0].name}.")
    masks = {}
    for name, file in OGB_SPLITS.items():
        mask = np.zeros(rows, bool)
        numbers = _counts(kinds[0], file)
        # NumPy would count a negative number from the end.
        outside = numbers[(numbers < 0) | (numbers >= rows)]
        if len(outside):
            raise DataError(
                f"{str(kinds[0])!r}: {file} has row {outside[0]}, and rows are 0 to {rows - 1}."
            )
        mask[numbers] = True
        masks[name] = mask
    return masks


def read_dgl(folder: Path) -> tuple[TableFile, TableFile] | None:
    """The tables of nodes and of edges in a folder of DGL's CSV data sets; None if it is none.

    Raises:
        DataError: It has several graphs, or several types of nodes or edges.
    """
    meta = folder / "meta.yaml"
    if not meta.is_file():
        return None
    content = safe_load(meta.read_text(encoding="utf-8"))
    tables = []
    for kind in ("node_data", "edge_data"):
        try:
            names = [each["file_name"] for each in content[kind]]
        except (KeyError, TypeError):
            raise DataError(
                f"{str(meta)!r} has no node_data and edge_data with file names."
            ) from None
        if len(names) != 1:
            raise DataError(
                f"{str(meta)!r} has {len(names)} types of nodes or edges, and a graph here has one."
            )
        separated_by = "tab" if content.get("separator") == "\t" else None
        table = TableFile(folder / names[0], separated_by=separated_by)
        # Ids begin anew in each graph there, so that edges would join them.
        if "graph_id" in table.columns:
            raise table.error("it has several graphs: give them as Data of PyTorch Geometric.")
        tables.append(table)
    return tables[0], tables[1]
