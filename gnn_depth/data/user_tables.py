"""A user's graph in two tables: edges, and nodes with their features and classes."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from gnn_depth.data.checks import DataError
from gnn_depth.data.tables import Table
from gnn_depth.data.user_files import Content
from gnn_depth.data.user_nodes import NodeColumns, classes_of, read_nodes, split_of

# What stands the same after reading it as a number: no leading zero or sign, and room in int64.
WHOLE = r"0|-?[1-9]\d{0,17}"


def read_tables(edges: Table, nodes: Table, wanted: NodeColumns, ends: Sequence[str]) -> Content:
    """Read a graph from two tables.

    Args:
        edges: An edge in each row; an id that is no node's is refused.
        nodes: A node in each row.
        wanted: Which columns of the nodes are what.
        ends: The columns of the edges that hold sources and targets; the first two if it is empty.

    Raises:
        DataError: They cannot be read or do not fit each other; file and line are named.
    """
    read = read_nodes(nodes, wanted)
    columns, text = read.columns, read.text
    ids = Ids(nodes, str(columns.id), text[str(columns.id)])
    y, labelled, names = classes_of(nodes, columns.label, text[columns.label])
    split = columns.split
    masks = split_of(nodes, split, text[split], labelled) if split else None
    return Content(
        x=torch.from_numpy(read.x),
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(_edge_index(edges, _ends(edges, ends, ids), ids)),
        masks=masks,
        labelled=torch.from_numpy(labelled),
        node_ids=ids.values,
        class_names=names,
    )


class Ids:
    """Where each node id stands.

    Where all ids are plain integers they are compared as such, in a twentieth of the time. Otherwise an id is text as
    it stands in the file: ``007`` is not ``7`` then.

    Args:
        table: Where they come from.
        name: The column.
        texts: The ids, in the order of the nodes.

    Raises:
        DataError: One is missing, or stands twice.
    """

    def __init__(self, table: Table, name: str, texts: np.ndarray) -> None:
        self.table, self.name, self.texts = table, name, texts
        row = _first(texts == "")
        if row is not None:
            raise DataError(f"{table.at(row)}: {name!r} is missing; every node needs an id.")
        whole = pd.Series(texts).str.fullmatch(WHOLE).all()
        self.values = texts.astype(np.int64) if whole else texts
        codes, _ = pd.factorize(self.values)
        row = _first(codes != np.arange(len(codes)))
        if row is not None:
            other = table.place(int(codes[row]))  # up to there each id has been new
            raise DataError(f"{table.at(row)}: id {texts[row]!r} stands in {other} already; every node needs its own.")

    @property
    def whole(self) -> bool:
        """Whether all of them are integers."""
        return self.values.dtype == np.int64

    @cached_property
    def _numbers(self) -> pd.Index:
        return pd.Index(self.values)

    @cached_property
    def _text(self) -> pd.Index:
        return pd.Index(self.texts, dtype=object)

    def find(self, column: pd.Series) -> np.ndarray:
        """Position of each id, -1 where there is none."""
        index = self._numbers if column.dtype.kind == "i" else self._text
        return index.get_indexer(column.to_numpy())

    def unknown(self, value: str) -> str:
        """What to say of an id that no node has."""
        if not value:
            return "is missing"
        return f"{value!r} is no {self.name!r} of {str(self.table.path)!r}, whose ids are like {self.texts[0]!r}"


def _ends(table: Table, ends: Sequence[str], ids: Ids) -> list[str]:
    names = [table.column(name) for name in ends or table.columns[:2]]
    if len(names) != 2 or names[0] == names[1]:
        raise table.refused(f"an edge has two ends, in a column each; there is {', '.join(names)}.")
    if all(ids.find(pd.Series([name], dtype=object)) >= 0 for name in names):
        raise table.refused(
            f"its first line is an edge, {', '.join(names)}, where the names of the columns must be.\n"
            "Write a first line of names, such as source,target."
        )
    return names


def _edge_index(table: Table, ends: list[str], ids: Ids) -> np.ndarray:
    """Positions of sources and targets, shape (2, edges)."""
    found = _find(table, ends, ids, text=False) if ids.whole else None
    if found is None:
        found = _find(table, ends, ids, text=True)
    assert found is not None
    return found


def _find(table: Table, ends: list[str], ids: Ids, text: bool) -> np.ndarray | None:
    """The same, reading ids as text or as they come; None where these are then no integers."""
    found = [np.empty((2, 0), np.int64)]
    for piece in table.pieces(ends, ends if text else ()):
        if not text and any(piece[name].dtype.kind != "i" for name in ends):
            return None
        rows = np.stack([ids.find(piece[name]) for name in ends])
        position = _first(rows.min(0) < 0)
        if position is not None:
            end = ends[int(rows[0, position] >= 0)]
            raise DataError(f"{table.at(piece.index[position])}: {end} {ids.unknown(str(piece[end].iloc[position]))}.")
        found.append(rows)
    return np.concatenate(found, 1)


def _first(fault: np.ndarray) -> int | None:
    """Index of the first True, or None."""
    return int(fault.argmax()) if fault.any() else None
