"""A user's table of nodes: ids, classes, features and splits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.tables import MISSING, Table, repeated
from gnn_depth.registry import unknown

SPLITS = ("train", "val", "test")
MANY = 1000  # different values are no category any more


@dataclass(frozen=True)
class NodeColumns:
    """Which columns of a table of nodes are what.

    Args:
        label: The class of each node.
        id: What edges call a node; by default the first column.
        split: Which of train, val and test a node is in, if it is given.
        features: Columns of numbers; by default all that are nothing else.
        categories: Columns of text, each value of which becomes a feature of 0 and 1.
    """

    label: str
    id: str | None
    split: str | None
    features: Sequence[str] | None
    categories: Sequence[str]

    def of(self, table: Table) -> "NodeColumns":
        """The same with names that the table has, and none left open.

        Raises:
            DataError: The table lacks one, or one is asked to be two things.
        """
        names = [self.id or table.columns[0], self.label, *([self.split] if self.split else []), *self.categories]
        names = [table.column(name) for name in (*names, *(self.features or []))]
        twice = repeated(names)
        if twice is not None:
            raise table.refused(
                f"column {twice!r} is asked to be several things: the id is {names[0]!r}, the label {self.label!r}"
                f"{f', the split {self.split!r}' if self.split else ''}; all others are features or categories, once."
            )
        features = [name for name in table.columns if name not in names] if self.features is None else self.features
        return NodeColumns(self.label, names[0], self.split, features, self.categories)

    @property
    def text(self) -> list[str]:
        """Those that are read as text."""
        return [name for name in (self.id, self.label, self.split, *self.categories) if name]


@dataclass(frozen=True, eq=False)
class Nodes:
    """A table of nodes, read.

    Attributes:
        x: Features, shape (nodes, features).
        columns: What was read; the id and the features are named.
        text: The columns of text.
    """

    x: np.ndarray
    columns: NodeColumns
    text: dict[str, np.ndarray]


def read_nodes(table: Table, wanted: NodeColumns) -> Nodes:
    """Read a table of nodes.

    Raises:
        DataError: It cannot be read, lacks a column, or has a feature that is missing or no number.
    """
    columns = wanted.of(table)
    features = list(columns.features or [])
    x: list[np.ndarray] = []
    text: dict[str, list[np.ndarray]] = {name: [] for name in columns.text}
    for piece in table.pieces([*columns.text, *features], columns.text):
        x.append(_numbers(table, piece, features))
        for name in columns.text:
            text[name].append(piece[name].to_numpy())
    if not x or not sum(map(len, x)):
        raise table.refused("it has no rows; every node needs one.")
    whole = {name: np.concatenate(parts) for name, parts in text.items()}
    x += [np.concatenate(x)] if len(x) > 1 else []
    encoded = [_one_hot(table, name, whole[name]) for name in columns.categories]
    return Nodes(np.concatenate([x[-1], *encoded], 1) if encoded else x[-1], columns, whole)


def _numbers(table: Table, piece: pd.DataFrame, names: list[str]) -> np.ndarray:
    """Columns of numbers as float32, shape (rows, columns)."""
    no_numbers = [name for name in names if piece[name].dtype.kind not in "biuf"]
    if no_numbers:
        raise _no_numbers(table, piece, no_numbers)
    with np.errstate(over="ignore"):  # what overflows is refused as infinite
        x = piece[names].to_numpy(np.float32, copy=True)  # or it may be read-only
    if not np.isfinite(x).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
        value = piece[names[column]].iloc[row]
        said = "is missing" if pd.isna(value) else f"is {value}"
        raise DataError(
            f"{table.at(piece.index[row])}: {names[column]!r} {said}; features must be finite numbers.\n"
            "Fill it first, or leave the column out: `features` lists those to take."
        )
    return x


def _no_numbers(table: Table, piece: pd.DataFrame, names: list[str]) -> DataError:
    rows = []
    for name in names[:5]:
        column = piece[name]
        bad = pd.to_numeric(column, errors="coerce").isna() if column.dtype.kind == "O" else column.notna()
        position = int(np.argmax(bad & column.notna())) if (bad & column.notna()).any() else int(np.argmax(bad))
        value = column.iloc[position]
        said = "is missing" if pd.isna(value) else f"is {str(value)[:40]!r}"
        rows.append(f"  {table.place(piece.index[position])}: {name!r} {said}")
    rows += [f"  and {len(names) - 5} columns more"] if len(names) > 5 else []
    return table.refused(
        "features must be numbers, and these columns are not:\n" + "\n".join(rows) + "\n"
        f"Each value of theirs becomes a feature of 0 and 1 with `categories`: --data.categories '[{names[0]}]'; "
        "or list the features that you want: --data.features '[...]'.\n"
        "A column of train, val and test is named by `split`."
    )


def _one_hot(table: Table, name: str, values: np.ndarray) -> np.ndarray:
    """A column of text as columns of 0 and 1, one for each value, in order."""
    codes, found = pd.factorize(values, sort=True)
    if "" in found:
        row = int(np.argmax(values == ""))
        raise DataError(f"{table.at(row)}: category {name!r} is missing. Give it a value, such as `unknown`.")
    if len(found) > MANY:
        raise table.refused(f"category {name!r} has {len(found)} different values; more than {MANY} are none any more.")
    one_hot = np.zeros((len(values), len(found)), np.float32)
    one_hot[np.arange(len(values)), codes] = 1
    return one_hot


def classes_of(table: Table, name: str, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Class of each node, whether it has a label, and the names of the classes, numbers in numerical order.

    Raises:
        DataError: There is no label, one reads as a missing value, or they are no classes.
    """
    codes, found = pd.factorize(labels, sort=False)
    names = [str(label) for label in found if label != ""]
    for row, label in _first_rows(codes, found):
        if label in MISSING[1:]:
            raise DataError(
                f"{table.at(row)}: label {label!r} reads as if it were missing. "
                "Leave it empty for a node without a label; give the class another name if it is one."
            )
    labelled = labels != ""
    if not names:
        raise table.refused(f"no node has a label: column {name!r} is empty.")
    if len(names) > 100 and 2 * len(names) > labelled.sum():
        raise table.refused(
            f"label {name!r} has {len(names)} different values in {labelled.sum()} rows: these are no classes."
        )
    names = _in_order(names)
    place = {label: position for position, label in enumerate(names)} | {"": 0}
    return np.array([place[label] for label in found])[codes], labelled, names


def _first_rows(codes: np.ndarray, found: np.ndarray) -> list[tuple[int, str]]:
    """Where each value stands first."""
    _, rows = np.unique(codes, return_index=True)
    return list(zip(rows.tolist(), found, strict=True))


def _in_order(names: list[str]) -> list[str]:
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def split_of(table: Table, name: str, splits: np.ndarray, labelled: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes to train, validate and test on: those in the split that have a label.

    Raises:
        DataError: A split is called otherwise.
    """
    codes, found = pd.factorize(splits)
    for row, split in _first_rows(codes, found):
        if split and split.lower() not in SPLITS:
            raise DataError(f"{table.at(row)}: {unknown(name, split, SPLITS)} Or nothing, for none of them.")
    lower = np.array([split.lower() for split in found])
    train, val, test = (torch.from_numpy((lower == split)[codes] & labelled) for split in SPLITS)
    return train, val, test
