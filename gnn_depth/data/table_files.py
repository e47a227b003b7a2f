"""Text tables and Parquet files, read on demand, with errors that name file and row."""

import gzip
import io
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.data.checks import SPLITS, DataError, listed
from gnn_depth.data.columns import EdgeColumns
from gnn_depth.data.encoding import MAX_SHOWN, in_text
from gnn_depth.data.notation import DECIMAL_COMMA, MISSING, THOUSANDS, Notation
from gnn_depth.data.targets import INTEGER
from gnn_depth.registry import hint, unknown

SPACES = r"\s+"
#: What separates the values in a row, by the end of the file's name; also with .gz.
CSV = {".csv": ",", ".tsv": "\t"}
for suffix in (".txt", ".content", ".cites", ".edges", ".data"):
    CSV[suffix] = SPACES
CSV |= {f"{suffix}.gz": separator for suffix, separator in CSV.items()}
SUFFIXES = (*CSV, ".parquet")
#: What separates the values in a row, by the words of the option.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "spaces": SPACES}
COMMENT = ("#", "%")  # a line that begins so is a comment
MAX_LISTED = 20  # columns that a message lists
ONE_ROLE = (
    "every column has one: id (by default the first column), label or target, split, category or "
    "feature; of edges source, target, weight or feature."
)


class TableFile:
    """A CSV or Parquet file, read on demand; errors name the file and the row.

    Args:
        path: The file.
        names: The names of the columns, of a file without a first line of names; ``word*3`` stands
            for word_0, word_1 and word_2.
        separated_by: One of :data:`SEPARATORS`; by default what the end of the file's name says.
        notation: How its numbers and dates are written.
        frame: A table of pandas, which is read as the CSV file that it would be written as; the
            path is then its name in messages.

    Attributes:
        separator: Of the values in a row; None for Parquet.
        notes: What was decided about the table, one sentence each.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str] = (),
        separated_by: str | None = None,
        notation: Notation = Notation(),  # noqa: B008  (frozen)
        frame: pd.DataFrame | None = None,
    ) -> None:
        self.path = path
        self.notation = notation
        self.notes: list[str] = []
        self.separator: str | None = None
        for suffix, separator in CSV.items():
            if path.name.lower().endswith(suffix):
                self.separator = separator
        self._is_chosen = separated_by is not None
        if separated_by and self.separator is not None:
            self.separator = SEPARATORS[separated_by]
        # A table of pandas goes through the same reader as a file, so that both give the same.
        self._text: bytes | None = None
        if frame is not None:
            self.separator = ","
            self._text = self._written(frame)
        self._names = _counted(names)
        self._skipped: list[int] = []  # lines of comments
        if names and self.separator is None:
            raise self.error(
                "it has names of its columns: node_columns and edge_columns are for "
                "text without a first line of names."
            )

    @property
    def is_frame(self) -> bool:
        """True for a table of pandas."""
        return self._text is not None

    def _written(self, frame: pd.DataFrame) -> bytes:
        """A table of pandas as a CSV file, with its index as a column if that has a name."""
        if frame.columns.nlevels > 1:
            raise self.error("its columns have several levels; give them one name each.")
        is_named = frame.index.names != [None] * frame.index.nlevels
        text: str = frame.to_csv(index=is_named, decimal=self.notation.decimal, lineterminator="\n")
        return text.encode()

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns; one with a list in each row is as many columns."""
        return self.expanded(self.stored)

    def expanded(self, names: Sequence[str]) -> list[str]:
        """Names of columns, where one that holds lists stands for feat_0, feat_1, ..."""
        found = []
        for name in names:
            width = self._widths.get(name)
            if width is None:
                found.append(name)
            else:
                found += [f"{name}_{position}" for position in range(width)]
        return found

    @cached_property
    def _widths(self) -> dict[str, int]:
        """The length of the lists in each column that holds them, as its first row has it."""
        found: dict[str, int] = {}
        first = self._read_stored(self.stored, rows=1)
        if not len(first):
            return found
        for name in self.stored:
            item = first[name].iloc[0]
            numbers = _numbers_in(item)
            # 1.004,50 and 2,515,506 are numbers, which are refused, rather than lists.
            is_one = isinstance(item, str) and re.fullmatch(DECIMAL_COMMA, item.strip())
            if numbers is None or is_one or self._has_thousands(name, item):
                continue
            width = found[name] = len(numbers)
            self.notes.append(
                f"{self.path.name}: each {name!r} is a list of {width} numbers: {width} columns, "
                f"{name}_0 to {name}_{width - 1}."
            )
        return found

    def _has_thousands(self, name: str, first: Any) -> bool:
        """True if every value of a column is a number such as 2,515,506, as the first one is."""
        if not isinstance(first, str) or not re.fullmatch(THOUSANDS, first.strip()):
            return False
        texts = self._read_stored([name])[name].dropna().astype(str).str.strip()
        return bool(texts[~texts.isin(MISSING)].str.fullmatch(THOUSANDS).all())

    @cached_property
    def stored(self) -> list[str]:
        """The names of the columns in the file, none of which is missing or repeated."""
        with self._errors():
            if self.separator is None:  # without the index that pandas stores as a column
                stored = self._parquet_file().schema_arrow.names
                names = [name for name in stored if not re.fullmatch(r"__index_level_\d+__", name)]
            else:
                names = self._heading(self.separator)
        if "" in names:
            raise self.error(
                f"column {names.index('') + 1} has no name. If pandas wrote its index there, write "
                "with index=False."
            )
        repeated = _repeated(names)
        if repeated is not None:
            raise self.error(f"two columns are called {repeated!r}.")
        return names

    def _heading(self, separator: str) -> list[str]:
        """The names of the columns: those that were given, or those of the file."""
        comments = self._find_comments()
        try:
            first = self._parse(header=None, nrows=1, dtype=str)
        except pd.errors.EmptyDataError:
            raise self.error(
                "it is empty; the first line must have the names of the columns."
            ) from None
        names = [name.strip() for name in first.iloc[0]]
        if self._names:
            if len(names) != len(self._names):
                raise self.error(
                    f"its first line has {len(names)} values, and {len(self._names)} columns are "
                    "named."
                )
            if names == self._names:
                raise self.error("its first line has these names already: name no columns.")
            return self._names
        if comments and all(_is_number(name) for name in names):
            # As np.savetxt writes them: the last comment has the names.
            last = comments[-1].lstrip("".join(COMMENT)).strip()
            named = [name.strip() for name in re.split(separator, last)]
            if len(named) == len(names) and not any(map(_is_number, named)):
                self.notes.append(
                    f"{self.path.name}: the last of its first comments has the names of the "
                    f"columns, {', '.join(named)}."
                )
                self._names = named
                return named
        # A single name that holds another sign is a whole line; in memory it is just a name.
        others = [sign for sign in ";\t|, " if sign in names[0]]
        if len(names) > 1 or not others or self._text is not None:
            return names
        other = others[0]
        if not self._is_chosen and other in ";\t|":  # no part of a name
            self.notes.append(f"{self.path.name}: its values are separated by {other!r}.")
            self.separator = other
            return self._heading(other)
        words = {sign: word for word, sign in SEPARATORS.items()}
        advice = f"separator {words.get(other, 'spaces')}"
        if self._is_chosen:
            advice = "without the option separator each table is read by its own"
        raise self.error(
            f"its values seem to be separated by {other!r}, not by {separator!r}: {advice}."
        )

    def _find_comments(self) -> list[str]:
        """Find the lines that are comments, if the first one is, and return the first ones."""
        if self._text is not None:
            return []
        opened = gzip.open if self.path.suffix == ".gz" else open
        first: list[str] = []
        # Not an option of pandas, which would also cut lines at a # inside of a value.
        with opened(self.path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file):
                if line.startswith(COMMENT):
                    self._skipped.append(number)
                    if len(first) == number:
                        first.append(line)
                elif not first:  # a file without a heading of comments may have ids with #
                    return []
        if first:
            self.notes.append(
                f"{self.path.name}: {len(self._skipped):,} lines that begin with "
                f"{first[0][0]} are comments."
            )
        return first

    def _parse(self, **options: Any) -> pd.DataFrame:
        source = self.path if self._text is None else io.BytesIO(self._text)
        return pd.read_csv(
            source,
            sep=self.separator,
            skiprows=self._skipped or None,
            keep_default_na=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
            **options,
        )

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Check that names are those of columns, each in one role; an error has the nearest match
        and the columns."""
        for name in names:
            if name not in self.columns:
                near = hint(name, self.columns)
                parts = [part.strip() for part in name.split(",")]
                if len(parts) > 1 and set(parts) <= set(self.columns):
                    near = f" A list is written in brackets: '[{', '.join(parts)}]'."
                shown = listed(self.columns, MAX_LISTED)
                raise self.error(f"unknown column {name!r}.{near} Available: {shown}.")
        repeated = _repeated(names)
        if repeated is not None:
            raise self.error(f"column {repeated!r} has several roles, and {ONE_ROLE}")
        return list(names)

    def texts(self, columns: Sequence[str]) -> pd.DataFrame:
        """Some columns as text; see :meth:`read`."""
        return self.read(columns, columns)

    def read(self, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
        """Some columns, of which ``text`` come without surrounding spaces, and empty where the
        value is missing.

        The type of the others depends on their values.
        """
        homes = {}  # the column in the file of each column
        for name in self.stored:
            homes.update(dict.fromkeys(self.expanded([name]), name))
        wanted = dict.fromkeys(homes[name] for name in columns)
        frame = self._read_stored(list(wanted), text)
        for name in wanted:
            if name in self._widths:
                frame = pd.concat([frame.drop(columns=name), self._lists(frame[name])], axis=1)
        # A column may be asked for twice, which is refused later.
        texts = {name: in_text(frame[name]) for name in text}
        return frame[list(columns)].assign(**texts)

    def _read_stored(
        self, columns: Sequence[str], text: Collection[str] = (), rows: int | None = None
    ) -> pd.DataFrame:
        """Some columns of the file, of all rows or the first ones."""
        with self._errors(), warnings.catch_warnings():
            if self.separator is None:
                file = self._parquet_file()
                if rows is None:
                    table = file.read(list(columns))
                else:
                    table = next(file.iter_batches(rows, columns=list(columns)), None)
                if table is None:  # there is no first row
                    return pd.DataFrame(columns=list(columns))
                # The metadata would bring back the index of the frame that pandas wrote.
                frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
            else:
                # Mixed types are refused, with the row.
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)
                # pandas would drop what the first row has too many.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                missing = {name: list(MISSING) for name in self.stored if name not in text}
                first_line = None if self._names else 0  # of names, which are known by now
                # All columns are read: with some of them, pandas accepts lines that have too many
                # values.
                frame = self._parse(
                    names=self.stored,
                    header=first_line,
                    index_col=False,
                    dtype=dict.fromkeys(text, object),
                    na_values=missing,
                    nrows=rows,
                    decimal=self.notation.decimal,
                    low_memory=self.notation.decimal == ".",  # which reads columns in parts
                )
        frame = frame[list(columns)]
        if self.notation == Notation():
            return frame
        notes: list[str] = []
        for name in columns:
            if name not in text:
                frame = frame.assign(**{name: self.notation.plain(frame[name], notes)})
        for note in notes:
            if f"{self.path.name}: {note}" not in self.notes:  # of an earlier reading
                self.notes.append(f"{self.path.name}: {note}")
        return frame

    def _lists(self, column: pd.Series) -> pd.DataFrame:
        """A column of lists as a column for each position."""
        lists = column.map(_numbers_in)
        width = self._widths[str(column.name)]
        fits = lists.map(lambda numbers: numbers is not None and len(numbers) == width)

        def reason(row: int) -> str:
            value = str(column.iloc[row])[:MAX_SHOWN]
            return f"{column.name!r} is {value!r}, and the first row has a list of {width} numbers."

        self.check_rows(~fits.astype(bool), reason)
        return pd.DataFrame(lists.tolist(), column.index, self.expanded([str(column.name)]))

    def edge_index(self, columns: EdgeColumns, ids: pd.Index, source: str) -> np.ndarray:
        """Positions of the ends of each row in ``ids``, which come from the column ``source``;
        shape (2, edges)."""
        names = list(columns.ends or self.columns[:2])
        if len(names) != 2:
            raise self.error(f"an edge has two ends, in two columns, not in {', '.join(names)}.")
        self.distinct([*names, *columns.of_each])
        if all(re.fullmatch(INTEGER, name) or name in ids for name in names):
            raise self.error(
                f"its first line, {', '.join(names)}, is an edge instead of column names.\n"
                "Name the columns: edge_columns [source, target]."
            )
        # Integers are far faster to read and find than text.
        frame = self.read(names) if ids.dtype == np.int64 else None
        if frame is None or any(frame[name].dtype.kind != "i" for name in names):
            frame = self.read(names, text=names)
            if ids.dtype == np.int64:  # 744.0, as programs write integers of a column with gaps
                frame = frame.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)
            ids = pd.Index([str(value) for value in ids], dtype=object)
        found = np.stack([ids.get_indexer(frame[name]) for name in names])
        faulty = (found[0] < 0) | (found[1] < 0)

        def reason(row: int) -> str:
            name = names[int(found[0, row] >= 0)]  # the first end that is no id
            value = str(frame[name].iloc[row])
            if not value:
                return f"{name} is missing."
            said = (
                f"{name} {shown_value(value)} is not an id in the column {source}, whose ids look "
                f"like {shown_value(str(ids[0]))}."
            )
            count = int(faulty.sum())
            if count > 1 and not faulty.all():
                said += (
                    f" So it is in {count:,} of {len(faulty):,} rows. If these nodes are meant to "
                    "be absent, leave such rows out, for each end: "
                    f"edges[edges[{name!r}].isin(ids)]."
                )
            return said

        self.check_rows(faulty, reason)
        return found

    def error(self, reason: str) -> DataError:
        """The error for a fault of the table as a whole."""
        return DataError(f"table {str(self.path)!r}: {reason}")

    def check_rows(self, faulty: np.ndarray | pd.Series, reason: Callable[[int], str]) -> None:
        """Refuse the first faulty row, for the reason that a function of it gives."""
        rows = np.flatnonzero(faulty)
        if len(rows):
            row = int(rows[0])
            raise DataError(f"{self.place(row)} (from 0): {reason(row)}")

    def place(self, row: int) -> str:
        """The file and the number of a row in it."""
        return f"{str(self.path)!r}, row {row}"

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
        except pd.errors.ParserWarning:
            count = len(self.stored)
            raise self.error(f"row 0 (from 0) has more values than the {count} columns.") from None
        except UnicodeDecodeError:
            raise self.error(
                "it is not UTF-8. Save it as UTF-8, in a spreadsheet as 'CSV UTF-8'."
            ) from None
        except (OSError, EOFError, ValueError, zlib.error) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
                reason = (
                    f"line {found[2]} has {found[3]} values for {found[1]} columns. "
                    "Text that contains a separator needs quotes."
                )
            raise self.error(f"it cannot be read: {reason or type(error).__name__}") from None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


def _counted(names: Sequence[str]) -> list[str]:
    """Names of columns, of which ``word*3`` stands for word_0, word_1 and word_2."""
    found = []
    for name in names:
        several = re.fullmatch(r"(.*)\*(\d+)", name)
        if several is None:
            found.append(name)
        else:
            found += [f"{several[1]}_{number}" for number in range(int(several[2]))]
    return found


def _numbers_in(value: Any) -> list[float] | None:
    """The numbers of a list, or of text such as ``0.1, 0.2``; None for another value."""
    items: Any = ()
    if isinstance(value, str):
        items = value.strip("[]() ").replace(",", " ").split()
    elif isinstance(value, list | tuple | np.ndarray):
        items = value
    if len(items) < 2 or not all(map(_is_number, items)):
        return None
    return [float(item) for item in items]


class SeveralTables(TableFile):
    """Tables of the nodes to train, validate and test on, as one with the column ``split``.

    Args:
        tables: The table of each set.
    """

    def __init__(self, tables: Mapping[str, TableFile]) -> None:
        for name in tables:
            if name not in SPLITS:
                raise DataError(unknown("set of nodes", name, SPLITS))
        first = next(iter(tables.values()))
        super().__init__(first.path)
        self.tables = tables

    @cached_property
    def columns(self) -> list[str]:
        first, *others = self.tables.values()
        for other in others:
            if set(other.columns) != set(first.columns):
                differing = sorted({*first.columns} ^ {*other.columns})
                raise other.error(
                    f"it must have the columns of {first.path.name}; they differ in "
                    f"{', '.join(differing[:MAX_LISTED])}."
                )
        if "split" in first.columns:
            raise first.error("it has a column called split, and the tables are the split.")
        for table in self.tables.values():
            self.notes += table.notes
        return [*first.columns, "split"]

    def read(self, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
        _ = self.columns  # which checks that the tables fit each other
        frames = []
        own = [name for name in columns if name != "split"]
        own_text = [name for name in text if name != "split"]
        for split, table in self.tables.items():
            frames.append(table.read(own, own_text).assign(split=split))
        return pd.concat(frames, ignore_index=True)[list(columns)]

    def error(self, reason: str) -> DataError:
        files = ", ".join(str(table.path) for table in self.tables.values())
        return DataError(f"tables {files}, one after the other: {reason}")

    def place(self, row: int) -> str:
        # The row is one of the joined table: a message has the file, and the row in it.
        for table in self.tables.values():
            length = len(table.read([]))
            if row < length:
                break
            row -= length
        return table.place(row)


def shown_value(value: str) -> str:
    return repr(value[:MAX_SHOWN])


def _repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            return name
    return None
