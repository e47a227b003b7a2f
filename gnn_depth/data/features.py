"""Read the features of nodes and edges, and say where float32 or their sizes do harm."""

import math
from collections.abc import Collection, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.schema import Column, Unknown

LARGEST_ONE_HOT = 2**29  # numbers: 2 GiB
WHOLE = 2**24  # float32 holds every integer up to here
# The option of the data that scales the columns of an array.
SCALED_BY = {"x": "standardize", "edge_attr": "edge_standardize"}
# Columns whose largest values differ by more than this factor train badly together. On a column of
# signal beside one of noise that is 100 times as large a GCN lost 5 points to standardised columns
# and a GAT 16; at 1,000 times both guessed, at 10 times they lost 1 and 6. The papers' data sets
# reach 23.
UNEQUAL = 100.0


def read_features(
    name: str,
    values: Tensor,
    notes: list[str],
    columns: Sequence[str] = (),
    to_train: bool = True,
    scaled: Collection[str] = (),
) -> Tensor:
    """Features as float32, shape (rows, columns).

    A single column of integers becomes one-hot. What float32 cannot hold, and columns of very
    different size, are told in ``notes``.

    Args:
        name: ``x`` or ``edge_attr``.
        values: Numbers, with a row for each node or edge.
        notes: Gets a sentence for each decision.
        columns: Names of the columns.
        to_train: Whether a model is trained on them, which columns of very different size may
            spoil.
        scaled: Names of the columns that are scaled already.

    Raises:
        DataError: A number is beyond the range of float32, or one-hot columns are too many.
    """
    if values.dim() == 1:
        values = values[:, None]
    if values.dim() > 2:
        width = math.prod(values.shape[1:])
        notes.append(f"{name} of shape {tuple(values.shape)} is read as {width} features.")
        values = values.reshape(len(values), width)
    # As PyTorch Geometric's data has types of nodes, such as atoms: their order means nothing.
    if _is_one_of_integers(values):
        return _one_hot(name, values[:, 0].long(), notes)
    x = values.float()
    if values.dtype in (torch.float64, torch.int64):
        _check_precision(name, values, x, notes, columns, to_train, scaled)
    if to_train:
        _compare_sizes(name, x, notes, columns, scaled)
    return x


def _is_one_of_integers(values: Tensor) -> bool:
    """True for a single column of integers, shape (rows, 1)."""
    is_integer = values.dtype != torch.bool and not values.is_floating_point()
    return is_integer and values.dim() == 2 and values.shape[1] == 1 and len(values) > 0


def one_column_of_integers(values: Tensor) -> tuple[str, ...] | None:
    """The categories that a single column of integers becomes; None of other features."""
    if values.dim() == 1:
        values = values[:, None]
    if not _is_one_of_integers(values):
        return None
    low, high = (int(extreme) for extreme in values.aminmax())
    if (high - low + 1) * len(values) > LARGEST_ONE_HOT:
        return ()  # refused when it is read
    return tuple(map(str, range(low, high + 1)))


def one_hot_as_trained(values: Tensor, column: Column, unknown: Unknown) -> Tensor:
    """A single column of integers as the categories of a trained model.

    Raises:
        DataError: The model does not know one of the integers.
    """
    position = {value: number for number, value in enumerate(column.values)}
    found = [position.get(str(value), -1) for value in values.flatten().tolist()]
    places = torch.tensor(found)
    strange = (places < 0).nonzero().flatten()
    if len(strange) and unknown == "error":
        row = int(strange[0])
        raise DataError(
            f"x[{row}] is {int(values.flatten()[row])}, and the model knows the values "
            f"{column.values[0]} to {column.values[-1]} only ({len(strange):,} such rows). With "
            "unknown ignore they have none of these values."
        )
    one_hot = F.one_hot(places.clamp_min(0), len(column.values)).float()
    return one_hot.masked_fill((places < 0)[:, None], 0)


def _one_hot(name: str, values: Tensor, notes: list[str]) -> Tensor:
    low, high = (int(extreme) for extreme in values.aminmax())
    width = high - low + 1
    if width * len(values) > LARGEST_ONE_HOT:
        raise DataError(
            f"{name} is one column of integers from {low} to {high}, and one-hot it would have "
            f"{width:,} columns. If they are sizes, give floats: {name}.float()."
        )
    notes.append(
        f"{name} is one column of integers, and becomes one-hot with {width:,} columns. If they "
        f"are sizes, give floats: {name}.float()."
    )
    return F.one_hot(values - low, width).float()


def _check_precision(
    name: str,
    exact: Tensor,
    rounded: Tensor,
    notes: list[str],
    columns: Sequence[str],
    to_train: bool,
    scaled: Collection[str],
) -> None:
    beyond = (rounded.isinf() & exact.isfinite()).nonzero()
    if len(beyond):
        row, column = beyond[0].tolist()
        raise DataError(
            f"{name}[{row}, {column}] is {exact[row, column].item():g}"
            f"{_named(column, columns)}, beyond the range of float32 (3.4e+38): divide the column."
        )
    if exact.numel() == 0:
        return
    moved = (exact - rounded.double()).abs().nan_to_num(0)
    # Identifiers and counts are exact or wrong.
    whole = (exact.abs() > WHOLE) & (exact == exact.round()) & (moved > 0)
    # Rounding that is small beside the spread of a column does no harm, unless it is a number of
    # something.
    spread = exact.double().std(0, correction=0).nan_to_num(0)
    lost = (whole | ((moved > 1e-3 * spread) & (spread > 0))).nonzero()
    if len(lost):
        row, column = lost[0].tolist()
        advice = "."  # the scaling of a trained model is what it is
        if to_train:
            is_scaled = bool(columns) and columns[column] in scaled
            advice = f": {_scale(name, is_scaled)}"
        notes.append(
            f"{name}[{row}, {column}] is {exact[row, column].item():.17g}"
            f"{_named(column, columns)}, and float32 rounds it to "
            f"{rounded[row, column]:.17g}{advice}"
        )


def _unequal_columns(x: Tensor) -> dict[int, float]:
    """The largest and the smallest column, and their largest values, if these differ too much."""
    if x.numel() == 0:
        return {}
    # Columns of zeros say nothing, and what is not finite is refused elsewhere.
    size = x.abs().nan_to_num(0, 0, 0).amax(0)
    used = size.nonzero().flatten()
    if len(used) < 2:
        return {}
    large, small = used[size[used].argmax()], used[size[used].argmin()]
    if size[large] <= UNEQUAL * size[small]:
        return {}
    return {int(large): float(size[large]), int(small): float(size[small])}


def columns_differ(x: Tensor | None) -> bool:
    """True if features, shape (rows, columns), have columns of very different size."""
    return x is not None and bool(_unequal_columns(x))


def _compare_sizes(
    name: str, x: Tensor, notes: list[str], columns: Sequence[str], scaled: Collection[str]
) -> None:
    unequal = _unequal_columns(x)
    if not unequal:
        return
    words = []
    for column, size in unequal.items():
        words.append(f"column {column}{_named(column, columns)} reaches {size:.3g}")
    large = next(iter(unequal))
    is_scaled = bool(columns) and columns[large] in scaled
    where = ""
    if is_scaled:  # then a single wrong value is the likely cause
        where = f" in row {int(x[:, large].abs().argmax())}"
    notes.append(
        f"{name} has columns of very different size: {' and '.join(words)}{where}. Training may "
        f"fail: {_scale(name, is_scaled)}"
    )


def _scale(name: str, is_scaled: bool) -> str:
    """Advice for columns that need a scale."""
    if name not in SCALED_BY:  # weights of edges, which may not be negative
        return (
            "divide the weights, or read the column as a feature of the edges (edge_features), "
            "which edge_standardize scales."
        )
    if is_scaled:
        return "the column is scaled already; look for a wrong value, or scale it by log1p."
    return (
        f"--data.{SCALED_BY[name]} standard, in Python GraphSource(..., "
        f"{SCALED_BY[name]}='standard'), scales them."
    )


def _named(column: int, columns: Sequence[str]) -> str:
    return f" ({columns[column]!r})" if columns else ""
