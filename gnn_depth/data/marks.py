"""Marks of a missing value in a table: words such as NA, and numbers such as -999."""

import re

import numpy as np
import pandas as pd

#: Ways to write a missing value; in a column of text only an empty value is missing.
MISSING = ("", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")
REPEATED = 3  # rows of a number that may stand for a missing one, and different numbers beside it


def stripped(column: pd.Series) -> pd.Series:
    """The values of a column as text without surrounding spaces, empty where one is missing."""
    return column.where(column.notna(), "").astype(str).str.strip()


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
