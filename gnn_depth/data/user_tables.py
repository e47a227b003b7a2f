"""A user's graph in two tables: edges, and nodes with their features and classes."""

import csv
import gzip
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.checks import SPLITS, DataError
from gnn_depth.data.user_arrays import EdgeColumns, UserContent
from gnn_depth.registry import hint, unknown

CSV = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
SUFFIXES = (*CSV, ".parquet")
#: Ways to write a missing number; in a column of text only an empty value is missing.
MISSING = ("", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")
#: Integers that are written the same after reading: no leading zero or plus, and they fit into
#: int64.
INTEGER = r"0|-?[1-9]\d{0,17}"
MAX_LISTED = 20  # columns that a message lists
ONE_ROLE = (
    "every column has one: id (by default the first column), label or target, split, category or "
    "feature; of edges "
    "source, target, weight or feature."
)


@dataclass(frozen=True)
class NodeColumns:
    """The roles of the columns of a table of nodes."""

    label: str | None  # the class of each node; None if numbers are predicted
    id: str | None = (
        None  # the name of each node in the table of edges; by default the first column
    )
    split: str | None = None  # train, val or test for each node, if it is given
    features: Sequence[str] | None = (
        None  # columns of numbers; by default all that have no other role
    )
    categories: Sequence[str] = ()  # columns of text; each value becomes a feature of 0 and 1
    targets: Sequence[str] = ()  # columns of numbers to predict, instead of a label


def read_tables(
    edges: "Table", nodes: "Table", columns: NodeColumns, of_edges: EdgeColumns
) -> UserContent:
    """Read a graph from two tables, with an edge or a node in each row.

    Raises:
        DataError: They cannot be read or do not fit each other; the message names file and line.
    """
    columns = replace(columns, id=columns.id or nodes.columns[0])
    text = [
        name for name in (columns.id, columns.label, columns.split, *columns.categories) if name
    ]
    used = nodes.distinct([*text, *columns.targets, *(columns.features or ())])
    if columns.features is None:
        columns = replace(columns, features=[name for name in nodes.columns if name not in used])
    features = list(columns.features or ())
    frame = nodes.read([*text, *features, *columns.targets], text)
    if not len(frame):
        raise nodes.error("it has no rows; every node needs one.")
    x = _finite(
        nodes,
        frame[features],
        "features must be finite numbers. Fill it in, or leave the column out: `features` lists "
        "those to use. A column "
        "of text can be one of `categories`, whose values become features of 0 and 1, or the "
        "`split`.",
    )
    if columns.categories:
        x = np.concatenate([x, _one_hot(nodes, frame[list(columns.categories)])], 1)
    ids = _ids(nodes, frame[columns.id])
    if columns.label:
        y, labelled, class_names = _classes(nodes, frame[columns.label])
    else:
        y, labelled, class_names = _targets(nodes, frame[list(columns.targets)])
    return UserContent(
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(
            _edge_index(edges, of_edges, ids, f"{columns.id!r} of {str(nodes.path)!r}")
        ),
        masks=_masks(nodes, frame[columns.split], labelled) if columns.split else None,
        labelled=torch.from_numpy(labelled),
        node_ids=ids.to_numpy(),
        class_names=class_names,
        of_edges=_of_edges(edges, of_edges),
    )


def is_table(path: str) -> bool:
    """True if the file name has the suffix of a table."""
    return path.lower().endswith(SUFFIXES)


class Table:
    """A table in a CSV or Parquet file, read on demand, whose errors name the file and the line or
    row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: The separator of a CSV file; None for Parquet.
        self.separator = next(
            (CSV[suffix] for suffix in CSV if path.name.lower().endswith(suffix)), None
        )

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns, none of which is missing or repeated."""
        with self._errors():
            if self.separator is None:  # without the index that pandas stores as a column
                stored = self._parquet_file().schema_arrow.names
                names = [name for name in stored if not re.fullmatch(r"__index_level_\d+__", name)]
            else:
                names = self._csv_columns(self.separator)
        if "" in names:
            raise self.error(
                f"column {names.index('') + 1} has no name. If pandas wrote its index there, write "
                "with index=False."
            )
        if repeated := _repeated(names):
            raise self.error(f"two columns are called {repeated!r}.")
        return names

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Check that names are those of columns, each in one role; an error has the nearest match
        and the columns."""
        for name in names:
            if name not in self.columns:
                listed = ", ".join(self.columns[:MAX_LISTED])
                more = f", ... {len(self.columns)} in all" if len(self.columns) > MAX_LISTED else ""
                raise self.error(
                    f"unknown column {name!r}.{hint(name, self.columns)} Available: {listed}{more}."
                )
        if repeated := _repeated(names):
            raise self.error(f"column {repeated!r} has several roles, and {ONE_ROLE}")
        return list(names)

    def read(self, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
        """Some columns, of which ``text`` come without surrounding spaces, and empty where the
        value is missing.

        The type of the others depends on their values.
        """
        with self._errors(), warnings.catch_warnings():
            if self.separator is None:
                frame = self._parquet_file().read(list(columns)).to_pandas(ignore_metadata=True)
            else:
                warnings.simplefilter(
                    "ignore", pd.errors.DtypeWarning
                )  # mixed types are refused, with the line
                # All columns are read: with some of them, pandas accepts lines that have too many
                # values.
                frame = pd.read_csv(
                    self.path,
                    sep=self.separator,
                    names=self.columns,
                    header=0,
                    index_col=False,
                    dtype=dict.fromkeys(text, object),
                    keep_default_na=False,
                    na_values={
                        name: [] if name in text else list(MISSING) for name in self.columns
                    },
                    skipinitialspace=True,
                    encoding="utf-8-sig",
                )
            return frame[list(columns)].assign(**{name: _as_text(frame[name]) for name in text})

    def place(self, row: int) -> str:
        """The line or row in the file of a row counted from 0."""
        if self.separator is None:
            return f"row {row} (from 0)"
        # The lines are counted only after an error: quoted text may span lines, and empty lines do
        # not count.
        with self._open() as file:
            records = self._records(file, self.separator)
            return f"line {next(line for position, (line, _) in enumerate(records) if position == row + 1)}"

    def error(self, reason: str) -> DataError:
        """The error for a fault of the table as a whole."""
        return DataError(f"table {str(self.path)!r}: {reason}")

    def check_rows(self, faulty: Any, reason: Callable[[int], str]) -> None:
        """Refuse the first faulty row, for the reason that a function of it gives."""
        rows = np.flatnonzero(faulty)
        if len(rows):
            row = int(rows[0])
            raise DataError(f"{str(self.path)!r}, {self.place(row)}: {reason(row)}")

    def _csv_columns(self, separator: str) -> list[str]:
        with self._open() as file:
            records = self._records(file, separator)
            _, names = next(records, (0, []))
            line, first = next(records, (0, []))
        names = [name.strip() for name in names]
        if not names:
            raise self.error("it is empty; the first line must have the names of the columns.")
        other = next((mark for mark in ";\t|, " if len(names) == 1 and mark in names[0]), None)
        if other is not None:
            raise self.error(
                f"its values seem to be separated by {other!r}, not by {separator!r}. To convert "
                "it: "
                f"pandas.read_csv({str(self.path)!r}, sep={other!r}).to_csv('new.csv', index=False)"
            )
        if len(first) > len(names):
            raise self.error(f"line {line} has {len(first)} values for {len(names)} columns.")
        return names

    def _open(self) -> TextIOWrapper:
        if self.path.suffix.lower() == ".gz":
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open(encoding="utf-8-sig", newline="")

    def _records(self, file: TextIOWrapper, separator: str) -> Iterator[tuple[int, list[str]]]:
        """The last line of each record, and its values."""
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        return (
            (reader.line_num, record)
            for record in reader
            if len(record) > 1 or "".join(record).strip()
        )

    def _parquet_file(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise self.error(
                "Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'."
            ) from None
        return ParquetFile(self.path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Name the file in the errors that pandas, pyarrow and gzip raise for damaged files."""
        try:
            yield
        except (DataError, MemoryError):
            raise
        except UnicodeDecodeError:
            raise self.error(
                "it is not UTF-8. Save it as UTF-8, in a spreadsheet as 'CSV UTF-8'."
            ) from None
        except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
            reason = (
                str(error).strip().removeprefix("Error tokenizing data. C error: ")
                or type(error).__name__
            )
            if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
                reason = (
                    f"line {found[2]} has {found[3]} values for {found[1]} columns. "
                    "Text that contains a separator needs quotes."
                )
            raise self.error(f"it cannot be read: {reason}") from None


def _ids(table: Table, column: pd.Series) -> pd.Index:
    """The ids of the nodes: int64 if all are plain integers, otherwise text, so that ``007`` is not
    ``7``."""
    table.check_rows(column == "", lambda _: f"{column.name!r} is missing; every node needs an id.")
    integers = bool(column.str.fullmatch(INTEGER).all())
    ids = pd.Index(column.to_numpy(), dtype=object).astype(np.int64 if integers else object)
    table.check_rows(
        ids.duplicated(),
        lambda row: (
            f"id {column[row]!r} is already in {table.place(int((ids == ids[row]).argmax()))}; "
            "every node needs its own."
        ),
    )
    return ids


def _edge_index(table: Table, columns: EdgeColumns, ids: pd.Index, source: str) -> np.ndarray:
    """Positions of sources and targets in ``ids``, which come from the column ``source``; shape (2,
    edges)."""
    names = list(columns.ends or table.columns[:2])
    if len(names) != 2:
        raise table.error(f"an edge has two ends, in two columns, not in {', '.join(names)}.")
    table.distinct([*names, *columns.of_each])
    if all(re.fullmatch(INTEGER, name) or name in ids for name in names):
        raise table.error(
            f"its first line, {', '.join(names)}, is an edge instead of column names.\n"
            "Write a first line of names, such as source,target."
        )
    # Integers are far faster to read and find than text.
    frame = table.read(names) if ids.dtype == np.int64 else None
    if frame is None or any(frame[name].dtype.kind != "i" for name in names):
        frame = table.read(names, text=names)
        ids = pd.Index([str(value) for value in ids], dtype=object)
    found = np.stack([ids.get_indexer(frame[name]) for name in names])

    def reason(row: int) -> str:
        name = names[int(found[0, row] >= 0)]
        value = str(frame[name].iloc[row])
        if not value:
            return f"{name} is missing."
        return f"{name} {value!r} is not an id in the column {source}, whose ids look like {str(ids[0])!r}."

    table.check_rows((found < 0).any(0), reason)
    return found


def _of_edges(table: Table, columns: EdgeColumns) -> dict[str, Any]:
    """Weights and features of the edges, as arguments of a graph."""
    found = {}
    if columns.weight:
        weight = _finite(
            table, table.read([columns.weight]), "edge_weight must be finite numbers."
        )[:, 0]
        table.check_rows(
            weight < 0, lambda row: f"{columns.weight!r} is {weight[row]:g}, below zero."
        )
        found["edge_weight"] = torch.from_numpy(weight)
    if columns.features:
        features = _finite(
            table, table.read(columns.features), "edge_features must be finite numbers."
        )
        found["edge_attr"] = torch.from_numpy(features)
    return found


def _targets(table: Table, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The numbers to predict at each node (0 where one is missing), whether it has all of them, and
    their names."""
    numbers = _finite(
        table, frame, "targets must be finite numbers, or empty for a node without one.", empty=True
    )
    known = ~np.isnan(numbers).any(1)
    if not known.any():
        raise table.error(f"no node has a target: {', '.join(frame)} is empty.")
    numbers[~known] = 0
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers, known, list(frame)


def _finite(table: Table, frame: pd.DataFrame, rule: str, empty: bool = False) -> np.ndarray:
    """Columns of finite numbers as float32, shape (rows, columns); with ``empty``, NaN where a
    value is missing."""
    others = [name for name in frame if frame[name].dtype.kind not in "biuf"]  # text, dates
    numbers = frame.assign(
        **{name: pd.to_numeric(frame[name].astype(str), errors="coerce") for name in others}
    )
    with np.errstate(over="ignore"):  # an overflow is refused as infinite
        x = numbers.to_numpy(np.float32, copy=True)  # without the copy it may be read-only
    fits = np.isfinite(x) | (frame.isna().to_numpy(bool) & empty)

    def reason(row: int) -> str:
        name = frame.columns[int(np.argmin(fits[row]))]
        value = frame[name].iloc[row]
        return f"{name!r} is {'missing' if pd.isna(value) else str(value)[:40]}; {rule}"

    table.check_rows(~fits.all(1), reason)
    return x


def _one_hot(table: Table, frame: pd.DataFrame) -> np.ndarray:
    """Columns of text as columns of 0 and 1, one for each value, in alphabetical order."""
    for name in frame:
        missing = f"category {name!r} is missing. Give it a value, such as `unknown`."
        table.check_rows(frame[name] == "", lambda _, missing=missing: missing)
    return pd.get_dummies(frame, dtype=np.float32).to_numpy(np.float32)


def _classes(table: Table, column: pd.Series) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The class of each node (0 without a label), whether it has a label, and the names of the
    classes in order."""
    table.check_rows(
        column.isin(MISSING[1:]),
        lambda row: (
            f"label {column[row]!r} looks like a missing value. Leave it empty for a node without "
            "a label, or "
            "give the class another name."
        ),
    )
    labelled = (column != "").to_numpy(copy=True)
    names = [str(name) for name in column[labelled].unique()]
    if not names:
        raise table.error(f"no node has a label: column {column.name!r} is empty.")
    if len(names) > 100 and 2 * len(names) > labelled.sum():
        raise table.error(
            f"label {column.name!r} has {len(names)} different values in {labelled.sum()} rows. "
            "Name numbers to "
            "predict as `targets`."
        )
    try:
        names.sort(key=lambda name: (float(name), name))
    except ValueError:
        names.sort()
    return np.maximum(pd.Index(names, dtype=object).get_indexer(column), 0), labelled, names


def _masks(table: Table, column: pd.Series, labelled: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes to train, validate and test on: those of the split that have a label."""
    split = column.str.lower()
    table.check_rows(
        ~split.isin([*SPLITS, ""]),
        lambda row: (
            f"{unknown(str(column.name), column[row], SPLITS)} Leave it empty for a node in none "
            "of them."
        ),
    )
    train, val, test = (
        torch.from_numpy((split == name).to_numpy(bool) & labelled) for name in SPLITS
    )
    return train, val, test


def _as_text(column: pd.Series) -> pd.Series:
    """Text without surrounding spaces, empty where the value is missing."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # integers with a missing value among them come as floats
    column = column.astype("category")
    texts = np.array([*(str(value).strip() for value in column.cat.categories), ""], object)
    return pd.Series(
        texts[column.cat.codes], column.index, object
    )  # a missing value has the code -1


def _repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs more than once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)
