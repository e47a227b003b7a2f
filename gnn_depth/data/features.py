"""Read the features of nodes and edges, and say where float32 or their sizes do harm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gnn_depth.data.checks import DataError

LARGEST_ONE_HOT = 2**29  # numbers: 2 GiB
WHOLE = 2**24  # float32 holds every integer up to here
SCALE = (
    "subtract the mean of each column, and divide by its deviation, as the option standardize of "
    "the data does with x (GraphSource(data, standardize=True), --data.standardize true)."
)
UNEQUAL = 1e5  # columns whose largest values differ by this factor do not train together


def read_features(
    name: str, values: Tensor, notes: list[str], columns: Sequence[str] = ()
) -> Tensor:
    """Features as float32, shape (rows, columns).

    A single column of integers becomes one-hot. What float32 cannot hold, and columns of very
    different size, are told in ``notes``.

    Args:
        name: ``x`` or ``edge_attr``.
        values: Numbers, with a row for each node or edge.
        notes: Gets a sentence for each decision.
        columns: Names of the columns.

    Raises:
        DataError: A number is beyond the range of float32, or one-hot columns are too many.
    """
    if values.dim() == 1:
        values = values[:, None]
    if values.dim() > 2:
        width = math.prod(values.shape[1:])
        notes.append(f"{name} of shape {tuple(values.shape)} is read as {width} features.")
        values = values.reshape(len(values), width)
    if is_one_hot(values):
        return _one_hot(name, values[:, 0].long(), notes)
    x = values.float()
    if values.dtype in (torch.float64, torch.int64):
        _check_precision(name, values, x, notes, columns)
    _compare_sizes(name, x, notes, columns)
    return x


def is_one_hot(values: Tensor) -> bool:
    """True for a single column of integers, which becomes one-hot."""
    is_integer = values.dtype != torch.bool and not values.is_floating_point()
    return is_integer and values.numel() == len(values) > 0


@dataclass(frozen=True, eq=False)
class Scaling:
    """The mean and the deviation of each column of features.

    Attributes:
        columns: Means, and deviations; 1 for a column without any.
    """

    columns: Float[Tensor, "2 columns"]

    @classmethod
    def of(cls, values: Tensor, rows: Bool[Tensor, "nodes"]) -> "Scaling":
        """Those of some rows, without unknown values (NaN)."""
        wide = values.reshape(len(values), -1)[rows].double()
        absent = wide.isnan()
        known = (~absent).sum(0).clamp_min(1)
        mean = wide.masked_fill(absent, 0).sum(0) / known
        squares = (wide - mean).masked_fill(absent, 0).square().sum(0)
        deviation = (squares / known).sqrt()
        return cls(torch.stack([mean, torch.where(deviation > 0, deviation, 1.0)]))

    def applied(self, values: Tensor) -> Float[Tensor, "nodes columns"]:
        """Features with the means subtracted, divided by the deviations.

        Raises:
            DataError: They have another number of columns.
        """
        wide = values.reshape(len(values), -1).double()
        mean, deviation = self.columns
        if wide.shape[1] != len(mean):
            raise DataError(
                f"the model was trained on {len(mean)} columns of x, and here are {wide.shape[1]}."
            )
        if wide.isinf().any():  # refused later, by its place
            return wide
        return (wide - mean) / deviation


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
    name: str, exact: Tensor, rounded: Tensor, notes: list[str], columns: Sequence[str]
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
    whole = (exact.abs() > WHOLE) & (exact == exact.round()) & (moved > 0)
    # Rounding that is small beside the spread of a column does no harm, unless it is a number of
    # something.
    spread = exact.double().std(0, correction=0).nan_to_num(0)
    lost = (whole | ((moved > 1e-3 * spread) & (spread > 0))).nonzero()
    if len(lost):
        row, column = lost[0].tolist()
        notes.append(
            f"{name}[{row}, {column}] is {exact[row, column].item():.17g}"
            f"{_named(column, columns)}, and float32 rounds it to {rounded[row, column]:.17g}: "
            f"{SCALE}"
        )


def _compare_sizes(name: str, x: Tensor, notes: list[str], columns: Sequence[str]) -> None:
    if x.numel() == 0:
        return
    # Columns of zeros say nothing, and what is not finite is refused elsewhere.
    size = x.abs().nan_to_num(0, 0, 0).amax(0)
    used = size.nonzero().flatten()
    if len(used) < 2:
        return
    large, small = used[size[used].argmax()], used[size[used].argmin()]
    if size[large] <= UNEQUAL * size[small]:
        return
    words = []
    for column in (int(large), int(small)):
        words.append(f"column {column}{_named(column, columns)} reaches {size[column]:.3g}")
    notes.append(
        f"{name} has columns of very different size: {' and '.join(words)}. Training may fail: "
        f"{SCALE}"
    )


def _named(column: int, columns: Sequence[str]) -> str:
    return f" ({columns[column]!r})" if columns else ""
