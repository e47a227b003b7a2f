"""Features of nodes and edges: fitted columns, one-hot integers, and float32 where it is safe."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.schema import Column, Fitted, Unknown, fit_columns
from gnn_depth.data.table_reader import encoded

LARGEST_ONE_HOT = 2**29  # numbers: 2 GiB
MOST_SPANS = 100  # columns without names whose ranges are remembered
WHOLE = 2**24  # float32 holds every integer up to here
# Columns whose largest values differ by more than this factor train badly together. On a column of
# signal beside one of noise that is 100 times as large a GCN lost 5 points to standardised columns
# and a GAT 16. The papers' data sets reach 23.
UNEQUAL = 100.0


def read_features(
    name: str,
    values: Tensor,
    columns: Sequence[Column],
    rows: Tensor | None,
    notes: list[str],
    standardize: bool = False,
    width: Any = None,
    unknown: Unknown = "error",
) -> tuple[Tensor, Sequence[Column]]:
    """Features as a model gets them, shape (rows, features), and their columns with what was
    fitted.

    A single column of integers becomes one-hot: PyTorch Geometric's data has types of atoms so, and
    their order means nothing.

    Args:
        name: ``x`` or ``edge_attr``.
        values: A row for each node or edge; NaN where a value is missing.
        columns: The columns of a table, or of a trained model; empty for features without names.
        rows: A mask of the training rows, which decide spans, medians and scalings; None for a
            trained model, whose columns are fitted already.
        notes: Gets a sentence for each decision.
        standardize: Whether numbers are scaled.
        width: Number of features that a trained model without columns needs; None for any.
        unknown: What to do with categories that a trained model does not know.

    Raises:
        DataError: A number is infinite, one-hot columns would be too many, their number is not that
            of a trained model, or it does not know a category.
    """
    values = values.reshape(len(values), -1)
    is_integer = values.dtype != torch.bool and not values.is_floating_point()
    is_category = is_integer and values.shape[1] == 1 and len(values) > 0
    if not columns and rows is not None:
        if is_category:
            low, high = (int(extreme) for extreme in values.aminmax())
            count = high - low + 1
            becomes = (
                f"{name} is one column of integers from {low} to {high}, and becomes one-hot with "
                f"{count:,} columns. If they are sizes, give floats: {name}.float()."
            )
            if count * len(values) > LARGEST_ONE_HOT:
                raise DataError(f"{becomes} These are too many columns.")
            notes.append(becomes)
            columns = [Column(name, "category", tuple(map(str, range(low, high + 1))))]
        # Ranges tell later whether new data has other units.
        elif rows.any() and (standardize or values.shape[1] <= MOST_SPANS):
            columns = [Column(str(position)) for position in range(values.shape[1])]
    if is_category and len(columns) == 1 and columns[0].values:
        frame = pd.DataFrame({columns[0].name: values[:, 0].numpy().astype(str)})
        values = torch.from_numpy(encoded(frame, [asdict(columns[0])], unknown)).float()
    if rows is not None:
        columns = fit_columns(columns, values, rows, standardize)
    else:
        if columns:
            width = sum(column.width for column in columns)
        if width is not None and values.shape[1] != width:
            raise DataError(
                f"the model needs {width} features in {name}, and here are {values.shape[1]:,}."
            )
        _note_other_ranges(values, columns, notes)
    if any(column.fill is not None or column.scaling is not None for column in columns):
        values = Fitted(columns)(values)
    warn_of_lost_digits(name, values, "standardize", notes)
    x = values.float()
    if rows is not None and not standardize and columns_differ(x):
        notes.append(
            f"columns of {name} differ in size by a factor above {UNEQUAL:g}, which may spoil the "
            "training: standardize true (--data.standardize true) scales those of nodes."
        )
    return x, columns


def _note_other_ranges(values: Tensor, columns: Sequence[Column], notes: list[str]) -> None:
    """Note the columns that lie wholly outside the range of the training."""
    outside = []
    first = 0
    for column in columns:
        known = values[:, first][~values[:, first].isnan()]
        first += column.width
        if not column.span or not len(known):
            continue
        low, high = column.span
        if known.min() > high or known.max() < low:
            here = f"{known.min():g} to {known.max():g}"
            outside.append(f"{column.name} ({here}, trained on {low:g} to {high:g})")
    if outside:
        notes.append(f"columns wholly outside the range of the training: {', '.join(outside)}.")


def columns_differ(x: Tensor) -> bool:
    """True if features, shape (rows, columns), have columns of very different size."""
    if x.numel() == 0:
        return False
    # Columns of zeros say nothing, and what is not finite is refused elsewhere.
    size = x.abs().nan_to_num(0, 0, 0).amax(0)
    size = size[size > 0]
    return len(size) > 1 and bool(size.max() > UNEQUAL * size.min())


def warn_of_lost_digits(name: str, exact: Tensor, option: str, notes: list[str]) -> bool:
    """Note the first number, shape (rows, columns), that float32 rounds too much; true if there is
    one.

    The option is what keeps the digits.
    """
    if exact.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.bool) or not len(exact):
        return False
    rounded = exact.float()
    moved = (exact - rounded.double()).abs()
    # Identifiers and counts are exact or wrong; rounding of others matters beside their spread.
    is_whole = (exact.abs() > WHOLE) & (exact == exact.round())
    values = exact.double()
    known = torch.where(values.isnan(), values.nanmean(0), values)
    spread = known.std(0, correction=0)
    lost = ((moved > 0) & (is_whole | ((moved > 1e-3 * spread) & (spread > 0)))).nonzero()
    if not len(lost):
        return False
    row, column = lost[0].tolist()
    notes.append(
        f"{name}[{row}, {column}] is {exact[row, column].item():.17g}, and float32 rounds it to "
        f"{rounded[row, column]:.17g}: {option} true (--data.{option} true) keeps the digits."
    )
    return True
