"""How people write numbers, dates and missing values in tables: decimal commas, days first, signs
of currencies, NA and -999."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from gnn_depth.data.checks import DataError

#: Ways to write a missing value; in a column of text only an empty value is missing.
MISSING = ("", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")
REPEATED = 3  # rows of a number that may stand for a missing one, and different numbers beside it
#: Dates that are read as dates: year, month and day, with a time of day or without.
ISO_DATE = r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?"
OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?"
# 1.004,50 and 17,2; a list of two numbers has a space or brackets.
DECIMAL_COMMA = r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][+-]?\d+)?"
# 2,515,506.25, and 25 in the same column.
THOUSANDS = r"[+-]?\d{1,3}(,\d{3})*(\.\d+)?"
# 1.004 and 1.004,50, where the decimals have a comma.
POINTED = r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"
#: Signs and codes of currencies, percent, and units after a space.
SIGN = re.compile(r"([€$£¥%]|\b(?:EUR|USD|GBP|CHF|JPY)\b|(?<=\d) [A-Za-zµ°]{1,3}$)")
NEARLY_ALL = 0.9  # of a column of one kind; the rest may be odd words
YEARS = ("%Y", "%y")
TIMES = ("", " %H:%M", " %H:%M:%S")
#: The codes of strptime that tell the day, the month and the year; %j is the day of the year.
DAY_OF, MONTH_OF, YEAR_OF = {"%d", "%j"}, {"%m", "%b", "%B", "%j"}, {"%Y", "%y"}


def stripped(column: pd.Series) -> pd.Series:
    """The values of a column as text without surrounding spaces, empty where one is missing."""
    return column.where(column.notna(), "").astype(str).str.strip()


@dataclass(frozen=True)
class Notation:
    """How numbers and dates of a table are written.

    Attributes:
        decimal: Begins the decimals of a number: a point or a comma.
        date_formats: Formats of dates as ``strptime`` takes them, beside 2024-12-31.

    Raises:
        DataError: A format has no day, month or year.
    """

    decimal: str = "."
    date_formats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for form in self.date_formats:
            codes = set(re.findall("%.", form))
            # Without one of the three strptime fills in 1900 or January 1, and says nothing.
            if not (codes & DAY_OF and codes & MONTH_OF and codes & YEAR_OF):
                raise DataError(
                    f"date_format {form!r} must have a day, a month and a year, as '%d.%m.%Y' has "
                    "for 31.12.2024 or '%m/%d/%Y' for 12/31/2024."
                )

    def plain(self, column: pd.Series, notes: list[str]) -> pd.Series:
        """A column with its numbers as 1234.5 and its dates as 2024-12-31; other text stays.

        Args:
            column: As it was read.
            notes: Gets a sentence on what may be taken in two ways.
        """
        if column.dtype.kind in "biufM":
            return column
        texts = stripped(column)
        there = ~texts.isin(MISSING)
        for form in self.date_formats:
            # All dates of a column are written in one way; a word that is no date stays, and is
            # refused later with its row.
            dates = pd.to_datetime(texts[there], format=form, errors="coerce", utc=True)
            if dates.notna().mean() > NEARLY_ALL:
                known = dates.dropna()
                return column.mask(column.index.isin(known.index), _iso(known))
        if self.decimal == ",":
            return _with_points(column, texts, there, notes)
        return column


def _iso(dates: pd.Series) -> pd.Series:
    """Dates as text, with the time of day where one has it."""
    moments = dates.dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    if (moments == days).all():
        moments = days
    return pd.Series(np.datetime_as_string(moments), dates.index, object)


def _with_points(
    column: pd.Series, texts: pd.Series, there: pd.Series, notes: list[str]
) -> pd.Series:
    """A column of numbers with decimal commas as one with points."""
    known = texts[there]
    # Mostly numbers, or it is text: versions and addresses have points too.
    fits = known.str.fullmatch(rf"{DECIMAL_COMMA}|{POINTED}|[+-]?\d+")
    if not len(known) or fits.mean() <= NEARLY_ALL:
        return column
    pointed = known[known.str.fullmatch(POINTED)]
    if len(pointed):  # 1.004 may be a number just above 1
        first = pointed.iloc[0]
        number = first.replace(".", "").replace(",", ".")
        notes.append(f"{column.name!r} has points between thousands: {first} is read as {number}.")
    numbers = known[fits].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return column.astype(object).mask(column.index.isin(numbers.index), numbers)


def date_formats_of(texts: pd.Series) -> tuple[str, ...]:
    """The formats, of those with day or month first, by which all of some texts are dates."""
    # The first text is looked at before the 12 formats are tried, which is slow on text.
    if not len(texts) or re.fullmatch(OTHER_DATE, texts.iloc[0]) is None:
        return ()
    separator = re.sub(r"\d", "", texts.iloc[0])[0]
    # Months come before days in American dates only, which have no points.
    orders = [("%d", "%m")] if separator == "." else [("%d", "%m"), ("%m", "%d")]
    found = []
    for (first, second), year, time in product(orders, YEARS, TIMES):
        form = separator.join([first, second, year]) + time
        if pd.to_datetime(texts, format=form, errors="coerce").notna().all():
            found.append(form)
    return tuple(found)


def sign_of(texts: pd.Series) -> str:
    """The sign beside nearly all numbers of a column, such as € or kg; empty if there is none."""
    signs = texts.str.extract(SIGN, expand=False).fillna("")
    if not len(signs):
        return ""
    sign = str(signs.mode().iloc[0])  # of mixed currencies none is the sign of all
    has_number = texts.str.replace(sign, "", regex=False).str.strip().str.fullmatch(r"[-+]?[\d.,]+")
    fits = (signs == sign) & has_number
    if fits.mean() <= NEARLY_ALL:
        return ""
    return sign.strip()


def formats_in_words(formats: Sequence[str]) -> str:
    """The option that reads dates of these formats."""
    first = f"date_format '{formats[0]}' (--data.date_format '{formats[0]}')"
    if len(formats) == 1:
        return f"{first} reads these"
    return f"if the day is first: {first}; if the month is: '{formats[1]}'"


def mark_among(numbers: np.ndarray) -> tuple[float, int] | None:
    """A number such as -999, 9999 or -1 that seems to stand for a missing one, and its count."""
    values, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    if len(values) < 2:
        return None
    # Marks are chosen so that no value is beyond them: the lowest number, or the highest.
    for place, rest in ((0, slice(1, None)), (-1, slice(None, -1))):
        mark, count = float(values[place]), int(counts[place])
        if _is_mark(mark, count, values[rest], counts[rest]):
            return mark, count
    return None


def _is_mark(mark: float, count: int, others: np.ndarray, counts: np.ndarray) -> bool:
    """True if the lowest or highest number of a column is far from the others or of another sign.

    Args:
        mark: This number.
        count: Its rows.
        others: The other values, in order.
        counts: The rows of each.
    """
    low, high = float(others[0]), float(others[-1])
    gap = max(low - mark, mark - high)
    # People write -99, 999 and the like for missing, so a single one is enough.
    if re.fullmatch(r"-9{2,}|9{3,}", f"{mark:.6g}"):
        is_far = gap > max(high - low, abs(mark) / 2)
        return is_far or mark < 0 <= low
    # Any other number must be whole and repeated: a lone one may be an outlier.
    if mark % 1 or count < REPEATED or len(others) < REPEATED:
        return False
    if gap > high - low:
        return True
    if mark not in (-1, -9) or low < 0:
        return False
    # Integers may begin at -1 by chance; but not if most others are 0, if none is near, or if -1
    # itself stands out.
    are_whole = bool((others % 1 == 0).all())
    are_mostly_lowest = bool(counts[0] == counts.max())
    stands_out = count >= counts.max() and count > 2 * counts[0]
    return not are_whole or gap > 1 or are_mostly_lowest or stands_out
