"""Scale features by numbers that are fitted on the training rows, and check those of new data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, get_args

import torch
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.schema import Column, Method, Scaling, Schema, Unknown, features_of
from gnn_depth.registry import unknown as unknown_word

METHODS: tuple[Method, ...] = get_args(Method)
REST = "*"
ROWS = 4096  # that are looked at together
UNIT = 1e-3  # a sum that is as near to 1 is 1: features have float32's digits
#: A word for all columns, or a word for each: ``{age: standard, "*": log1p}``.
PerColumn: TypeAlias = str | dict[str, str]


def words_of_columns(
    option: str, value: str | Mapping[Any, str], columns: Sequence[str], words: Iterable[str]
) -> dict[str, str]:
    """The word of an option for each column.

    Args:
        option: Its name, for messages.
        value: A word for all columns, or some columns with a word each; ``*`` is the rest. Columns
            that are not named have the first word.
        columns: The names of the columns.
        words: The accepted words, of which the first is the default.

    Raises:
        DataError: A column or word does not exist.
    """
    words = list(words)
    if isinstance(value, str):
        value = {REST: value}
    given = {str(name): word for name, word in value.items()}  # YAML reads a name 1 as a number
    for name, word in given.items():
        if word not in words:
            raise DataError(unknown_word(option, str(word), words))
        if name != REST and name not in columns:
            raise DataError(unknown_word(f"column of {option}", name, columns))
    rest = given.get(REST, words[0])
    return {name: given.get(name, rest) for name in columns}


def scalable(columns: Sequence[Column]) -> list[str]:
    """The names of the columns that are one number each."""
    return [one.name for one in columns if one.kind != "category" and one.width == 1]


def scaled_in(columns: Sequence[Column]) -> list[str]:
    """The names of the columns that have a scaling."""
    return [one.name for one in columns if one.scaling is not None]


def fit_columns(
    columns: Sequence[Column], x: Tensor, rows: Tensor, methods: Mapping[str, str], fill: str
) -> tuple[Column, ...]:
    """Columns with means, fills and scalings that fit some rows.

    Args:
        columns: The columns, in the order of their features.
        x: Their features, of all rows; NaN where a number is missing.
        rows: A mask of the rows to fit: those to train on.
        methods: The scaling by name of the columns that are one number each.
        fill: What stands for missing numbers: ``mean``, ``median``, ``zero``, or ``error``.
    """
    fitted = []
    first = 0
    for column in columns:
        values = x[rows, first].double()
        first += column.width
        if column.name not in methods:
            # No category, and the centre of the circles of a date, are zeros.
            zero = None if fill == "error" else 0.0
            fitted.append(replace(column, fill=zero))
            continue
        known = values[~values.isnan()]
        mean = median = commonest = 0.0
        span: tuple[float, ...] = ()
        if len(known):
            mean, median = known.mean().item(), known.median().item()
            span = known.min().item(), known.max().item()
            counts = torch.unique(known, return_counts=True)[1]
            commonest = int(counts.max()) / len(known)
        filler = None
        if fill != "error":
            filler = {"mean": mean, "median": median, "zero": 0.0}[fill]
            values = values.nan_to_num(filler)  # before the scaling, which then fits them too
        scaling = None
        method: Any = methods[column.name]
        if method != "none":
            scaling = Scaling.fit(method, values)
        column = replace(column, mean=mean, span=span, rows=len(known), commonest=commonest)
        fitted.append(replace(column, fill=filler, scaling=scaling))
    return tuple(fitted)


def below_zero(columns: Sequence[Column], x: Tensor, methods: Mapping[str, str]) -> list[str]:
    """A sentence on the columns whose logarithm is taken and that have numbers below zero."""
    found = []
    first = 0
    for column in columns:
        count = int((x[:, first] < 0).sum())
        first += column.width
        if count and methods.get(column.name) == "log1p":
            found.append(f"{column.name!r} ({count:,} rows)")
    if not found:
        return []
    return [
        f"log1p of numbers below zero in {', '.join(found)}: it is sign(x) log(1 + |x|), the "
        "logarithm of the absolute value with the sign."
    ]


def scaled_features(columns: Sequence[Column], x: Tensor) -> Tensor:
    """The features of columns after their fills and scalings, in float64 where any is scaled."""
    if all(column.fill is None and column.scaling is None for column in columns):
        return x
    x = x.double().clone()
    first = 0
    for column in columns:
        if column.fill is not None:
            x[:, first] = x[:, first].nan_to_num(column.fill)
        if column.scaling is not None:
            x[:, first] = column.scaling.apply(x[:, first])
        first += column.width
    return x


def flags_in(x: Tensor) -> tuple[int, ...]:
    """Positions of the features that are 0 or 1 in every row."""
    if not len(x):
        return ()
    is_flag = torch.ones(x.shape[1], dtype=torch.bool)
    for rows in torch.split(x, ROWS):  # a block at a time, as x may fill a part of the memory
        is_flag &= ((rows == 0) | (rows == 1)).all(0)
    return tuple(is_flag.nonzero().flatten().tolist())


def _sums(x: Tensor) -> Tensor:
    """The sum of the absolute values of each row, in float64."""
    sums = []
    for rows in torch.split(x, ROWS):
        sums.append(torch.linalg.vector_norm(rows.double(), 1, dim=1))
    return torch.cat(sums)


def has_unit_rows(x: Tensor) -> bool:
    """True if each row sums to 1 in absolute value, or is zero; false for features of 0 and 1."""
    if not len(x):
        return False
    sums = _sums(x)
    sums = sums[sums > 0]  # the row of a node without words stays zero
    if not len(sums) or bool(((sums - 1).abs() >= UNIT).any()):
        return False
    # One-hot rows sum to 1 too, and say nothing of a division.
    return len(flags_in(x)) < x.shape[1]


def check_unnamed(x: Tensor, schema: Schema, unknown: Unknown) -> None:
    """Refuse features without names that cannot be those of a model.

    Raises:
        DataError: Their number differs, one that was always 0 or 1 has another value, or rows that
            always summed to 1 have another sum.
    """
    wanted = schema.num_features
    if isinstance(wanted, int) and x.shape[1] != wanted:
        named = ""
        if schema.named:
            named = f" ({', '.join(features_of(schema.columns)[:9])}, ...)"
        raise DataError(f"the model needs {wanted:,} features{named}, and x has {x.shape[1]:,}.")
    if unknown == "ignore":
        return
    if schema.named:
        raise DataError(
            "the model knows its columns by name, and x has none: give a table with the columns "
            f"{', '.join(column.name for column in schema.columns)}. With unknown ignore the "
            "features are taken in the order in which the model was trained on them."
        )
    # Without names only what a feature looked like can tell that columns were exchanged.
    flags = torch.tensor(schema.flags, dtype=torch.long)
    wrong = ((x[:, flags] != 0) & (x[:, flags] != 1)).nonzero()
    if len(wrong):
        row, place = wrong[0].tolist()
        column = int(flags[place])
        raise DataError(
            f"x[{row}, {column}] is {x[row, column].item():g}, and the model knows this feature as "
            "0 or 1: the columns may be in another order. If they are not: unknown ignore."
        )
    if schema.unit_rows:
        sums = _sums(x)
        wrong = ((sums > 0) & ((sums - 1).abs() >= UNIT)).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"the features of node {row} sum to {sums[row].item():g}, and those that the model "
                "was trained on summed to 1 at every node: divide them by their sum "
                "(NormalizeFeatures of PyTorch Geometric). If they are right: unknown ignore."
            )
