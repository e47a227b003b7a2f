"""Say where the columns of new data are unlike those that a model was trained on."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.scaling import below_zero
from gnn_depth.data.schema import Column

MOST = 0.5  # a column of which a larger share is far outside the training's range is told
EXTREME = 100  # widths of the training's range: a single number farther away is told
# Of numbers that are not negative all lie below this part of the training's mean, if so many are
# there: as shares in place of percent. Of a lognormal column of deviation 3 it is a chance of 4e-4.
SMALL, ENOUGH = 0.1, 30
# More rows than this share lie outside the training's range, and more than would by chance: both
# ends of what n rows span leave on average 2 / (n + 1) of further rows of the same kind outside.
OUTSIDE, CHANCE = 0.05, 1e-4


def out_of_range(columns: Sequence[Column], x: Tensor) -> list[str]:
    """Sentences on the columns of new data whose numbers are unlike those of the training.

    These are numbers outside the training's range: 5% of the rows, and more than by chance; or half
    of them far outside; or one 100 widths away; or all less than a tenth of the mean; or 2 in a
    column of 0 and 1. Also dates outside, numbers that have become constant, and the first ones
    below zero of which a logarithm is taken. Other units and exchanged columns do this; more rows
    of the same kind do not.

    Args:
        columns: The columns of the model, in the order of their features.
        x: Their features before any scaling, NaN where a number is missing.
    """
    if sum(column.width for column in columns) != x.shape[1]:  # refused later
        return []
    units: list[str] = []
    dates: list[str] = []
    constant: list[str] = []
    methods = {}  # of the columns that had no number below zero in the training
    first = 0
    for column in columns:
        values = x[:, first].double()
        first += column.width
        values = values[~values.isnan()]
        if not column.span or not len(values):
            continue
        low, high = column.span
        if column.kind == "date":
            outside = _outside_dates(column, values)
            if outside is not None:
                dates.append(_described(column, values, outside))
            continue
        if column.scaling is not None and low >= 0:
            methods[column.name] = column.scaling.method
        outside = _outside_numbers(column, values)
        if outside is not None:
            units.append(_described(column, values, outside))
        elif _became_constant(column, values):
            constant.append(
                f"{column.name!r} is {values[0]:,g} in all {len(values):,} rows (in training "
                f"{low:,g} to {high:,g})"
            )
    notes = below_zero(columns, x, methods)
    if units:
        notes.append(
            f"far outside the range of the training: {', '.join(units)}. Are the units the same, "
            "and the columns in their places?"
        )
    if dates:
        notes.append(
            f"dates outside those of the training: {', '.join(dates)}. The model has seen no such "
            "days, and days drift from one month to the next; days before the date of the table, "
            "as a column of numbers, do not, nor does dates cyclic."
        )
    if constant:
        notes.append(f"constant, and not so in the training: {', '.join(constant)}.")
    return notes


def _described(column: Column, values: Tensor, outside: Tensor) -> str:
    """A column with the share, count and range of its rows outside, and the training's range."""
    share = f"{100 * outside.double().mean():.3g}%"
    count = int(outside.sum())
    rows = "row" if count == 1 else "rows"
    ends = [values.min().item(), values.max().item(), *column.span]
    if column.kind == "date":
        day = np.datetime64(column.first)
        shown = [str(day + int(end)) for end in ends]
    else:
        shown = [f"{end:,g}" for end in ends]
    low, high, trained_low, trained_high = shown
    return (
        f"{column.name!r} ({share}, {count:,} {rows}: {low} to {high}, in training {trained_low} "
        f"to {trained_high})"
    )


def _outside_numbers(column: Column, values: Tensor) -> Tensor | None:
    """The rows outside the training's range if they are worth a sentence, otherwise None."""
    low, high = column.span
    are_flags = (low, high) == (0, 1) and bool((values == values.round()).all())
    other = (values != 0) & (values != 1)
    if are_flags and other.any():
        return other
    # From the plainest sign of other units to the weakest: the first that holds is told.
    far = _far_outside(values, low, high)
    if far.double().mean() > MOST:
        return far
    outside = (values < low) | (values > high)
    # The one value of a constant column may be a year, which the next table does not have.
    if low < high and _is_no_chance(outside, column.rows):
        return outside
    # Shares in place of percent may lie within the training's range: its mean tells them.
    if low >= 0 and len(values) >= ENOUGH and 0 < values.max() < SMALL * column.mean:
        return torch.ones_like(values, dtype=torch.bool)
    far = _extreme(values, low, high)
    return far if far.any() else None


def _outside_dates(column: Column, values: Tensor) -> Tensor | None:
    """The dates outside those of the training if they are worth a sentence, otherwise None."""
    low, high = column.span
    outside = (values < low) | (values > high)
    is_no_chance = outside.double().mean() > MOST or _is_no_chance(outside, column.rows)
    if is_no_chance or _extreme(values, low, high).any():
        return outside
    return None


def _is_no_chance(outside: Tensor, trained_rows: int) -> bool:
    """True if more new rows are outside the range of the training's rows than by chance."""
    count, rows = int(outside.sum()), len(outside)
    if trained_rows < 2 or count <= OUTSIDE * rows:
        return False
    from scipy.stats import betabinom

    # The ranks of new rows among those of the training, if all are drawn alike.
    return bool(betabinom.sf(count - 1, rows, 2, trained_rows - 1) < CHANCE)


def _became_constant(column: Column, values: Tensor) -> bool:
    """True if all values are equal, and those of the training were so rarely that it is no
    chance."""
    low, high = column.span
    value = values[0].item()
    # A column that is not there has one number in every row, which is said elsewhere.
    if low == high or not (values == value).all() or value == column.stand_in:
        return False
    if not column.rows or not column.commonest:
        return False
    # Laplace's rule of succession: a share of 1 in few rows is no certainty.
    largest = (column.commonest * column.rows + 1) / (column.rows + 2)
    return bool(largest ** (len(values) - 1) < CHANCE)


def _far_outside(values: Tensor, low: float, high: float) -> Tensor:
    margin = (high - low or abs(high)) / 2  # a constant column has no width
    far = (values > high + margin) | (values < low - margin)
    # Numbers of one sign have a scale: half of the smallest is far, however near in widths.
    if low > 0:
        far |= values < low / 2
    if high < 0:
        far |= values > high / 2
    return far


def _extreme(values: Tensor, low: float, high: float) -> Tensor:
    width = high - low or abs(high)
    if width == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    return (values > high + EXTREME * width) | (values < low - EXTREME * width)
