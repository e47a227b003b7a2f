"""The files that tables come in: CSV and Parquet."""

import csv
import gzip
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth.data.tables import MISSING, Table

CSV = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
PARQUET = ".parquet"
SUFFIXES = (*CSV, PARQUET)
ROWS = 200_000  # of a piece


def is_table(path: str) -> bool:
    """Whether a file's name is that of a table."""
    return path.lower().endswith(SUFFIXES)


def open_table(path: Path) -> Table:
    """The table in a file, by its name; nothing is read yet."""
    suffix = next((suffix for suffix in CSV if path.name.lower().endswith(suffix)), None)
    return ParquetTable(path) if suffix is None else CsvTable(path, CSV[suffix])


class CsvTable(Table):
    """A table as text, gzipped or not.

    Args:
        path: The file.
        separator: What stands between the values.
    """

    def __init__(self, path: Path, separator: str) -> None:
        super().__init__(path)
        self.separator = separator

    def place(self, row: int) -> str:
        # Looked for only where something is wrong: quoted text may have several lines, and empty ones do not count.
        with self._open() as file:
            records = self._records(file)
            lines = (line for position, (line, _) in enumerate(records) if position == row + 1)
            return f"line {next(lines)}"

    def _header(self) -> list[str]:
        with self._open() as file:
            records = self._records(file)
            _, names = next(records, (0, []))
            line, first = next(records, (0, []))
        names = [name.strip() for name in names]
        if not names:
            raise self.refused("it is empty; the first line must have the names of the columns.")
        if all(_is_number(name) for name in names):
            raise self.refused(
                f"its first line is {self.separator.join(names)[:60]!r}, numbers where the names of the columns "
                "must be. Write a first line of names, such as source,target."
            )
        other = next((mark for mark in ";\t|, " if len(names) == 1 and mark in names[0]), None)
        if other is not None:
            raise self.refused(
                f"its values seem to be separated by {other!r}, not by {self.separator!r}. To save it anew: "
                f"pandas.read_csv({str(self.path)!r}, sep={other!r}).to_csv('new.csv', index=False)"
            )
        if len(first) > len(names):
            raise self.refused(f"line {line} has {len(first)} values, but there are names for {len(names)} columns.")
        return names

    def _pieces(self, columns: list[str], text: set[str]) -> Iterator[pd.DataFrame]:
        # All columns are read: with some alone, pandas passes over lines that have too many values.
        missing = {name: [] if name in text else list(MISSING) for name in self.columns}
        with pd.read_csv(
            self.path,
            sep=self.separator,
            names=self.columns,
            header=0,
            index_col=False,
            dtype=dict.fromkeys(text, object),
            keep_default_na=False,
            na_values=missing,
            skipinitialspace=True,
            chunksize=ROWS,
            low_memory=False,  # or a column may come to have two types, with a warning
            encoding="utf-8-sig",
        ) as reader:
            for piece in reader:
                yield piece[columns].copy() if text else piece[columns]

    def _open(self) -> TextIOWrapper:
        if self.path.suffix.lower() == ".gz":
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open(encoding="utf-8-sig", newline="")

    def _records(self, file: TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
        """The last line of each record, and its values."""
        reader = csv.reader(file, delimiter=self.separator, skipinitialspace=True)
        return ((reader.line_num, record) for record in reader if len(record) > 1 or "".join(record).strip())


class ParquetTable(Table):
    """A table as columns, of the libraries that write it."""

    def place(self, row: int) -> str:
        return f"row {row} (from 0)"

    def _header(self) -> list[str]:
        with self._file() as file:
            # What pandas keeps of its index is no column of the user's.
            return [name for name in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", name)]

    def _pieces(self, columns: list[str], text: set[str]) -> Iterator[pd.DataFrame]:
        row = 0
        with self._file() as file:
            for batch in file.iter_batches(ROWS, columns=columns):
                piece = batch.to_pandas(ignore_metadata=True)[columns]
                piece.index = pd.RangeIndex(row, row + len(piece))
                row += len(piece)
                yield piece.assign(**{name: _as_text(piece[name]) for name in text})

    def _file(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise self.refused("Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'.") from None
        return ParquetFile(self.path)


def _as_text(column: pd.Series) -> pd.Series:
    missing = column.isna()
    # Integers of which one is missing come as floats.
    if column.dtype.kind == "f" and (column[~missing] % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype(object).map(str).where(~missing, "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
