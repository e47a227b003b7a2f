"""A table in a file, read a piece at a time; whatever is wrong is named by file and line."""

import csv
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pandas as pd

from gnn_depth.data.checks import DataError
from gnn_depth.registry import nearest

LISTED = 20  # columns that a message names at most
#: Ways to write that a value is missing; where text is meant, only nothing at all is.
MISSING = ("", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")


class Table(ABC):
    """A table in a file.

    It is read in pieces, so that memory holds what is made of the table and not the table itself.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def columns(self) -> list[str]:
        """The names of its columns.

        Raises:
            DataError: It cannot be read, or has no sound names.
        """
        with self._in_words():
            names = self._header()
        if "" in names:
            raise self.refused(
                f"column {names.index('') + 1} has no name. If pandas wrote its index there, write with index=False."
            )
        twice = repeated(names)
        if twice is not None:
            raise self.refused(f"two columns are called {twice!r}.")
        return names

    def column(self, name: str) -> str:
        """The column that is called so.

        Raises:
            DataError: There is none; the message has the near miss and the columns.
        """
        if name in self.columns:
            return name
        near = nearest(name, self.columns)
        others = [
            ", ".join(self.columns[:LISTED]),
            *([f"... {len(self.columns)} in all"] * (len(self.columns) > LISTED)),
        ]
        hint = f" Did you mean {near!r}?" if near else ""
        raise self.refused(f"unknown column {name!r}.{hint} Available: {', '.join(others)}.")

    def pieces(self, columns: Collection[str], text: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Some columns, some rows at a time; the index counts the rows from 0.

        Args:
            columns: Which ones.
            text: Those among them to be taken as text, without the spaces around it, and empty where nothing stands;
                the others get the type that their values have.

        Raises:
            DataError: The file cannot be read.
        """
        with self._in_words():
            for piece in self._pieces(list(columns), set(text)):
                if piece.empty:  # of a table without rows
                    continue
                for name in text:
                    piece[name] = pd.Series([value.strip() for value in piece[name]], piece.index, object)
                yield piece

    def at(self, row: int) -> str:
        """File and place of a row, to begin a message with."""
        return f"{str(self.path)!r}, {self.place(row)}"

    def refused(self, why: str) -> DataError:
        """What to raise where the table as a whole is at fault."""
        return DataError(f"table {str(self.path)!r}: {why}")

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row stands, as a person counts."""

    @abstractmethod
    def _header(self) -> list[str]: ...

    @abstractmethod
    def _pieces(self, columns: list[str], text: set[str]) -> Iterator[pd.DataFrame]: ...

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say what a damaged file makes the libraries say."""
        try:
            yield
        except (DataError, MemoryError):
            raise
        except UnicodeDecodeError:
            raise self.refused("it is not UTF-8. Save it as UTF-8, in a spreadsheet as 'CSV UTF-8'.") from None
        except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:  # pandas and pyarrow raise ValueErrors
            raise self.refused(f"it cannot be read: {_plain(error)}") from None


def repeated(names: Sequence[str]) -> str | None:
    """The first name that is there more than once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _plain(error: Exception) -> str:
    said = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if said:
        return (
            f"line {said[2]} has {said[3]} values for {said[1]} columns. Text that has a separator in it needs quotes."
        )
    return str(error).strip().removeprefix("Error tokenizing data. C error: ") or type(error).__name__
