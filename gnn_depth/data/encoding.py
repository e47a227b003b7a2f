"""Turn the columns of a table into features, and those of later tables in the same way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pandas as pd

from gnn_depth.data.checks import listed
from gnn_depth.data.notation import (
    DECIMAL_COMMA,
    MISSING,
    date_formats_of,
    formats_in_words,
    stripped,
)
from gnn_depth.data.schema import Column, Unknown
from gnn_depth.registry import hint

NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?"
DAY = 86_400e6  # microseconds, in which 9999-12-31 is a date too
YEAR, WEEK = 365.2425, 7.0  # days
MAX_ROWS = 3  # rows that a message names
MAX_UNREAD = 9  # columns that a message lists
NO_COLUMN = "there is no column"  # begins what is said of a column that a table lacks
MAX_SHOWN = 40  # characters of a value in a message


@dataclass
class Encoder:
    """Makes features of columns, and collects what is wrong with them.

    Args:
        unknown: Refuse values that a column cannot have (``error``), or read them as no value.
        fills: Missing numbers are filled in later, so they may be missing.

    Attributes:
        faults: What is wrong, a sentence for each column.
        notes: What was decided, one sentence each.
        blanks: The number of missing values that are filled in, by column.
    """

    unknown: Unknown = "error"
    fills: bool = False
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blanks: dict[str, int] = field(default_factory=dict)

    def encode(self, column: Column, values: pd.Series) -> np.ndarray:
        """The features of a column, shape (rows, width)."""
        if column.kind == "category":
            return self._one_hot(column, values)
        if column.kind == "date":
            return self._dates(column, values)
        return self._numbers(column, values)[:, None]

    def _numbers(self, column: Column, values: pd.Series) -> np.ndarray:
        if values.dtype.kind in "biuf":
            numbers = values.to_numpy(np.float64, copy=True)
            blank = np.isnan(numbers)
        else:
            values = stripped(values)
            numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64).copy()
            blank = values.isin(MISSING).to_numpy()
        wrong = ~np.isfinite(numbers) & ~blank
        if wrong.any():
            what = "is no finite number"
            if re.fullmatch(DECIMAL_COMMA, str(values.iloc[int(wrong.argmax())])):
                what += "; decimal ',' (--data.decimal ,) reads decimal commas"
            self._fault(column, what, wrong, values)
        self._count_blanks(column, blank)
        # A model that was trained without gaps has nothing to fill them with but the mean.
        uses_mean = self.unknown == "ignore" and column.fill is None and not self.fills
        numbers[blank | wrong] = column.mean if uses_mean else np.nan
        return numbers

    def _one_hot(self, column: Column, values: pd.Series) -> np.ndarray:
        texts = in_text(values)
        places = pd.Index(column.values, dtype=object).get_indexer(texts)
        _place_numbers(places, texts, column.values)
        blank = (texts == "").to_numpy()
        strange = (places < 0) & ~blank
        if strange.any():
            self._fault(column, "is no category of the model", strange, texts, column.values)
        self._count_blanks(column, blank)
        features = np.zeros((len(texts), len(column.values)))
        known = np.flatnonzero(places >= 0)
        features[known, places[known]] = 1
        return features

    def _dates(self, column: Column, values: pd.Series) -> np.ndarray:
        moments, blank = moments_of(values)
        wrong = np.isnan(moments) & ~blank
        if wrong.any():
            what = "is no date such as 2024-12-31"
            formats = date_formats_of(values.astype(str).str.strip()[wrong])
            if formats:
                what += f"; {formats_in_words(formats)}"
            self._fault(column, what, wrong, values.astype(str))
        self._count_blanks(column, blank)
        if column.dates == "cyclic":
            # As points on circles December is next to January, and Sunday to Monday.
            angles = 2 * np.pi * np.stack([moments / YEAR, moments / WEEK], 1)
            features = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(len(moments), 4)
            return np.nan_to_num(features)  # the centre of both circles
        days = moments - moments_of(pd.Series([column.first]))[0][0]
        if self.unknown == "ignore" and column.fill is None:
            days[np.isnan(days)] = column.mean
        return days[:, None]

    def _count_blanks(self, column: Column, blank: np.ndarray) -> None:
        """Count the missing values of a column that are filled in, or note that none may be."""
        if not blank.any():
            return
        if column.fill is None and not self.fills:
            self._fault(column, "is missing", blank)
            return
        kinds = {"number": "numbers", "category": "categories", "date": "dates"}
        self.blanks[f"{kinds[column.kind]} of {column.name!r}"] = int(blank.sum())

    def note_blanks(self, count: int, rows: str) -> None:
        """Tell how many values of so many rows were missing and are filled in, by column."""
        if self.blanks:
            each = ", ".join(f"{blank:,} {what}" for what, blank in self.blanks.items())
            self.notes.append(f"missing and filled in, of {count:,} {rows}: {each}.")

    def _fault(
        self,
        column: Column,
        what: str,
        rows: np.ndarray,
        values: pd.Series | None = None,
        known: Sequence[str] = (),
    ) -> None:
        """Note what is wrong in some rows."""
        numbers = np.flatnonzero(rows)
        shown = listed(numbers, MAX_ROWS)
        if len(numbers) == 1:
            shown += f" alone of {len(rows):,}"
        value, near = "", ""
        if values is not None:
            text = str(values.iloc[numbers[0]])[:MAX_SHOWN]
            value, near = f" {text!r}", hint(text, known)
        said = f"{column.name!r}:{value} {what} (row {shown}, from 0).{near}"
        if self.unknown == "ignore":
            self.notes.append(f"{said} Taken as missing.")
        else:
            self.faults.append(said)


def moments_of(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Dates as days since 1970, NaN where there is none, and which rows have no value."""
    if values.dtype.kind == "M":
        dates, blank = pd.to_datetime(values, utc=True), values.isna().to_numpy()
    elif values.dtype.kind in "biuf":
        dates, blank = days_in_digits(values), values.isna().to_numpy()
    else:
        texts = stripped(values)
        blank = texts.isin(MISSING).to_numpy()
        # 20241231 is a date, and 1234 is no year.
        texts = texts.mask(texts.str.fullmatch(r"\d+") & (texts.str.len() != 8), "")
        dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    # In nanoseconds, the default of pandas, dates would end in 2262.
    days = dates.astype("datetime64[us, UTC]").astype(np.int64).to_numpy() / DAY
    days[dates.isna().to_numpy()] = np.nan  # NaT is the least integer
    return days, blank


def days_in_digits(numbers: pd.Series) -> pd.Series:
    """Numbers such as 20241231 as dates, and no date for another number."""
    in_range = (numbers >= 19000101) & (numbers < 22000101) & (numbers % 1 == 0)
    fits = in_range | (numbers == 99991231)  # which stands for no end
    texts = numbers.where(fits).map("{:.0f}".format, na_action="ignore")
    return pd.to_datetime(texts, format="%Y%m%d", errors="coerce", utc=True)


def date_column(name: str, values: pd.Series, dates: str) -> Column:
    """A new column of dates, whose days are counted from the first one."""
    moments, _ = moments_of(values)
    known = moments[~np.isnan(moments)]
    first = "1970-01-01"
    if len(known):
        first = str(day_of(known.min()))
    return Column(name, "date", dates=dates, first=first)


def day_of(moment: float) -> np.datetime64:
    """The day of a moment, which is in days since 1970."""
    return np.datetime64(int(np.floor(moment)), "D")


def category_column(name: str, values: pd.Series) -> Column:
    """A new column of categories, in alphabetical order."""
    texts = in_text(values)
    # Sorted, so that the order of the rows does not decide which feature is which.
    return Column(name, "category", tuple(sorted(texts[texts != ""].unique())))


def in_text(column: pd.Series) -> pd.Series:
    """Text without surrounding spaces, empty where the value is missing."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # integers with a missing value among them come as floats
    # Each different value is turned into text once, which is far faster than row by row.
    column = column.astype("category")
    texts = [str(value).strip() for value in column.cat.categories]
    # A missing value has the code -1, which is the last text.
    return pd.Series(np.array([*texts, ""], object)[column.cat.codes], column.index, object)


def _place_numbers(places: np.ndarray, texts: pd.Series, known: Sequence[str]) -> None:
    """Give texts that are no category the place of the one category that is the same number.

    A table's 1.0 is read as 1 if all its numbers are whole. 01 is no number but text.
    """
    place: dict[Decimal, int] = {}
    for position, value in enumerate(known):
        if re.fullmatch(NUMBER, value):
            # 1 and 1.0 are two categories here: then 1.00 is neither.
            is_taken = Decimal(value) in place
            place[Decimal(value)] = -1 if is_taken else position
    strange = np.flatnonzero(places < 0)
    for text in texts.iloc[strange].unique():
        if re.fullmatch(NUMBER, text):
            rows = strange[(texts.iloc[strange] == text).to_numpy()]
            places[rows] = place.get(Decimal(text), -1)


def missing_columns(
    columns: Sequence[Column],
    there: Sequence[str],
    encoder: Encoder,
    row: str = "node",
    unread: Sequence[str] = (),
) -> set[str]:
    """The columns of a model that a table lacks, each a fault or a note.

    Args:
        columns: The columns of the model.
        there: The columns of the table.
        encoder: Gets the faults or notes.
        row: What a row of the table is.
        unread: The columns of the table that the model does not know: one may be the column under
            another name.
    """
    lacking = set()
    others = ""
    if unread:
        others = f" Columns that the model does not know: {', '.join(unread[:MAX_UNREAD])}."
    for column in columns:
        if column.name in there:
            continue
        lacking.add(column.name)
        said = f"{NO_COLUMN} {column.name!r}.{hint(column.name, there) or others}"
        if encoder.unknown == "ignore":
            encoder.notes.append(f"{said} Every {row} gets {_stand_in_words(column)}.")
        else:
            encoder.faults.append(said)
    return lacking


def stand_in(column: Column, rows: int) -> np.ndarray:
    """The features of a column that a table lacks."""
    if column.width == 1 and column.kind != "category":
        return np.full((rows, 1), column.stand_in)
    return np.zeros((rows, column.width))


def _stand_in_words(column: Column) -> str:
    if column.kind == "category":
        return "none of its categories"
    if column.dates == "cyclic":
        return "no date"
    if column.kind == "date":
        return "the day that stands for a missing one"
    if column.fill is None:
        return f"{column.stand_in:.6g}, the mean of the training"
    return f"{column.stand_in:.6g}, which stands for a missing one"
