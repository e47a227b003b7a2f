"""Read targets: classes, labels or numbers, and which rows have none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError, task_of
from gnn_depth.data.notation import MISSING, mark_among, stripped
from gnn_depth.data.schema import Schema, Unknown
from gnn_depth.registry import unknown as unknown_word

#: Names of classes that may mark rows without one.
UNKNOWN = ("unknown", "unk", "?", "-", "missing", "unlabeled", "unlabelled", "undefined")
#: Names of two classes of which the second is the positive one.
SIGNS = (("no", "yes"), ("false", "true"), ("negative", "positive"), ("0", "1"), ("-1", "1"))
#: Integers that are written the same after reading: no leading zero or plus, and they fit into
#: int64.
INTEGER = r"0|-?[1-9]\d{0,17}"
MANY_CLASSES = 100  # from here on, nearly as many classes as rows are no classes
FEW_VALUES = 20  # floats with so few different whole values may be meant as classes


@dataclass(eq=False)
class Targets:
    """The targets of nodes or graphs.

    Attributes:
        y: As in ``NodeBatch``; 0 in rows without a target.
        labelled: The rows that have one.
        names: Of the classes; None if the outputs have no names.
        notes: What was decided, one sentence each.
    """

    y: Tensor
    labelled: Tensor
    names: list[str] | None
    notes: list[str]


def read_targets(
    values: Tensor | np.ndarray,
    rows: str,
    missing_label: float | str | None = None,
    names: Sequence[str] | None = None,
    must_occur: bool = True,
) -> Targets:
    """Read classes, labels or numbers.

    Integers are classes, in two dimensions labels of 0 and 1; text is the names of classes; floats
    are numbers to predict. Without a target are -1 beside classes 0, 1, ..., empty text, NaN, and
    ``missing_label``.

    Args:
        values: A tensor, or an array of text.
        rows: What has targets: ``nodes`` or ``graphs``.
        missing_label: A further mark of a row without a target; then -1 is none.
        names: Names of numbers to predict.
        must_occur: Whether it is told if no target is ``missing_label``.

    Raises:
        DataError: A value is none of these, the first one is named; or no row has a target.
    """
    # The type decides, not the values: floats that are whole are never taken for classes.
    if not isinstance(values, Tensor):
        found = _of_text(np.asarray(values, object), missing_label)
    elif values.is_floating_point():
        found = _of_numbers(values, missing_label, names)
    elif values.dim() == 2:
        found = _of_labels(values.long(), missing_label)
    else:
        found = _of_classes(values.long(), missing_label)
    if not found.labelled.any():
        raise DataError(f"none of the {len(found.y):,} {rows} has a target in y.")
    without = int((~found.labelled).sum())
    if must_occur and missing_label is not None and not _occurs(values, missing_label):
        found.notes.insert(0, f"missing_label is {missing_label!r}, and no y has this value.")
    is_byte = isinstance(values, Tensor) and values.dtype == torch.uint8
    if is_byte and missing_label is None and bool((values == 255).any()):
        found.notes.append(
            "y has the class 255, which -1 becomes as uint8. If it marks rows without a class, say "
            "so with missing_label 255."
        )
    if without:
        mark = _mark(values, missing_label)
        found.notes.insert(
            0,
            f"{without:,} of {len(found.y):,} {rows} have no target (y is {mark}), and are in no "
            "mask.",
        )
    return found


def _occurs(values: Tensor | np.ndarray, missing_label: float | str) -> bool:
    """True if a target has the value of ``missing_label``."""
    number = _number(missing_label)
    if isinstance(values, Tensor):
        if number is None:  # in a table it stood for the NaN of a number
            return values.is_floating_point() and bool(values.isnan().any())
        return bool((values == number).any())
    column = stripped(pd.Series(np.asarray(values, object).ravel()))
    if (column == str(missing_label)).any():
        return True
    return number is not None and bool((pd.to_numeric(column, errors="coerce") == number).any())


def no_targets(rows: int, schema: Schema) -> Targets:
    """Stand-ins for the targets of rows that only get predictions."""
    labelled = torch.zeros(rows, dtype=torch.bool)
    names = list(schema.outputs)
    shape = (rows,) if schema.task == "multiclass" else (rows, len(names))
    dtype = torch.long if schema.task in ("multiclass", "multilabel") else torch.float
    return Targets(torch.zeros(shape, dtype=dtype), labelled, names, [])


def positive_class(names: Sequence[str], counts: Sequence[int]) -> str:
    """The positive one of two classes: the one that its name tells, or else the rarer one.

    Args:
        names: Of the two classes.
        counts: Training rows of each; empty if they are not counted. The second is the positive one
            of classes that are equally frequent, or not counted.
    """
    first, second = names
    # A column with gaps holds the classes 0 and 1 as floats: 0.0 and 1.0.
    plain = [name.strip().casefold().removesuffix(".0") for name in names]
    for negative, positive in SIGNS:
        if plain == [negative, positive]:
            return second
        if plain == [positive, negative]:
            return first
    if counts and counts[0] < counts[1]:
        return first
    return second


def as_trained(found: Targets, schema: Schema, unknown: Unknown) -> Targets:
    """Targets as a trained model counts them: its classes, by name.

    Raises:
        DataError: They are of another task, or have a class that the model does not know.
    """
    task = task_of(found.y)
    # Numbers that happen to be all 0 and 1 look like labels, and labels may come as floats.
    if task != schema.task and {task, schema.task} != {"multilabel", "regression"}:
        raise DataError(f"the model was trained for {schema.task}, and these targets are {task}.")
    outputs = len(schema.outputs)
    if schema.task != "multiclass":
        here = 1 if found.y.dim() == 1 else found.y.shape[1]
        if here != outputs:
            raise DataError(f"the model was trained on {outputs} targets, and here are {here}.")
        dtype = torch.float32 if schema.task == "regression" else torch.long
        return replace(found, y=found.y.to(dtype), names=list(schema.outputs))
    assert found.names is not None, "classes have names"
    numbers = {name: number for number, name in enumerate(schema.outputs)}
    number_of = torch.tensor([numbers.get(name, -1) for name in found.names])
    y = number_of[found.y]
    strange = (y < 0) & found.labelled
    notes = found.notes
    if strange.any():
        rows = strange.nonzero().flatten()
        name = found.names[int(found.y[rows[0]])]
        fault = unknown_word(f"class in {len(rows):,} rows, first y[{int(rows[0])}]", name, numbers)
        if unknown == "error":
            raise DataError(f"{fault} The model was trained on these classes only.")
        notes = [*notes, f"{fault} These rows are in no mask."]
    labelled = found.labelled & ~strange
    return Targets(y.masked_fill(~labelled, 0), labelled, list(schema.outputs), notes)


def _mark(values: Tensor | np.ndarray, missing_label: float | str | None) -> str:
    """How rows without a target are marked, in words."""
    if isinstance(values, Tensor) and not values.is_floating_point():
        # Integers have no NaN: the label that is given takes the place of -1.
        return "-1" if missing_label is None else repr(missing_label)
    mark = "NaN" if isinstance(values, Tensor) else "empty or -1"
    if missing_label is None:
        return mark
    return f"{mark} or {missing_label!r}"


def _of_text(values: np.ndarray, missing_label: float | str | None) -> Targets:
    """Classes by name; names that are all integers are classes by number."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"y is text of shape {values.shape}, and needs one name of a class a row.")
    column = stripped(pd.Series(values))
    labelled = (column != "").to_numpy(copy=True)
    if missing_label is not None:
        labelled &= (column != str(missing_label)).to_numpy()
        if not isinstance(missing_label, str):  # the number -1 is written -1 or -1.0
            labelled &= (pd.to_numeric(column, errors="coerce") != missing_label).to_numpy()
    # NA may be a class, such as Namibia, so it is neither dropped nor kept without asking.
    marks = np.flatnonzero(column.isin(MISSING[1:]).to_numpy() & labelled)
    if len(marks):
        value = column.iloc[marks[0]]
        raise DataError(
            f"y[{marks[0]}] is {value!r}, which looks like a missing value: leave it empty, or say "
            f"so with missing_label {value!r}, or give the class another name."
        )
    known = column[labelled]
    # The numbers of classes follow the same rules in a table as in a tensor.
    if len(known) and known.str.fullmatch(INTEGER).all():
        numbers = torch.zeros(len(column), dtype=torch.long)
        numbers[torch.from_numpy(labelled)] = torch.tensor(known.astype(np.int64).to_numpy())
        return _of_classes(numbers, missing_label, labelled)
    names = sorted(known.unique())
    with suppress(ValueError):  # names that are no numbers stay in alphabetical order
        names = sorted(names, key=float)
    _check_number_of_classes(len(names), len(known))
    notes = _doubtful_names(names)
    y = np.maximum(pd.Index(names, dtype=object).get_indexer(column.astype(object)), 0)
    y[~labelled] = 0  # -1 is no index, and a missing label may look like a class
    return Targets(torch.from_numpy(y), torch.from_numpy(labelled), names, notes)


def _doubtful_names(names: Sequence[str]) -> list[str]:
    """Sentences about names that may be one class, or none."""
    notes = []
    same: dict[str, str] = {}  # the first name of each key
    for name in names:
        key = name.casefold()
        with suppress(ValueError):
            key = repr(float(name))  # 1 and 1.0 are one number
        if key in same:
            notes.append(f"{same[key]!r} and {name!r} are two classes: write them alike if not.")
        same.setdefault(key, name)
        if name.casefold() in UNKNOWN:
            notes.append(
                f"{name!r} is a class. If it marks rows without one, say so with missing_label "
                f"{name!r}."
            )
    return notes


def _of_classes(values: Tensor, missing_label: float | str | None, labelled: Any = None) -> Targets:
    """Classes by number; they are numbered anew, and keep their values as names."""
    known = torch.ones(len(values), dtype=torch.bool)
    if labelled is not None:
        known = torch.from_numpy(labelled)
    number = _number(missing_label)
    if number is not None:
        known = known & (values != number)
    # -1 beside 0, 1, ... marks a row without a class, as LINKX's data has it; beside 1 alone it is
    # the other class.
    elif missing_label is None and not _are_signs(values[known]):
        known = known & (values != -1)
    negative = (known & (values < 0)).nonzero()
    if len(negative) and not _are_signs(values[known]):
        row = int(negative[0])
        raise DataError(
            f"y[{row}] is {int(values[row])}: classes are 0, 1, 2, ... If it marks a row without a "
            f"class, say so with missing_label {int(values[row])}."
        )
    classes, numbered = torch.unique(values[known], return_inverse=True)
    _check_number_of_classes(len(classes), int(known.sum()))
    y = torch.zeros_like(values)
    y[known] = numbered
    return Targets(y, known, [str(value) for value in classes.tolist()], [])


def _are_signs(values: Tensor) -> bool:
    """True if the values are -1 and 1, which are two classes."""
    return torch.equal(torch.unique(values), torch.tensor([-1, 1]))


def _check_number_of_classes(classes: int, rows: int) -> None:
    # Identifiers and amounts in place of classes would make a useless model with a huge last layer.
    if classes > MANY_CLASSES and 2 * classes > rows:
        raise DataError(
            f"y has {classes:,} different classes in {rows:,} rows. Numbers to predict are floats "
            "(y.float()), or `targets` of a table."
        )


def _of_labels(values: Tensor, missing_label: float | str | None) -> Targets:
    """Labels of 0 and 1, in two dimensions."""
    number = _number(missing_label)
    if number is None:
        number = -1
    # A row with some labels missing is no row without a target, and is refused below.
    labelled = ~(values == number).all(1)
    wrong = (((values < 0) | (values > 1)).any(1) & labelled).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"y[{row}] is {values[row].tolist()}: in two dimensions y has labels of 0 and 1, or "
            "floats."
        )
    y = values.masked_fill(~labelled[:, None], 0)
    return Targets(y, labelled, None, _one_hot_note(y[labelled]))


def _of_numbers(
    values: Tensor, missing_label: float | str | None, names: Sequence[str] | None
) -> Targets:
    """Numbers to predict, in one dimension or two."""
    rows = values.reshape(len(values), -1) if len(values) else values.new_empty(0, 1)
    number = _number(missing_label)
    absent = rows.isnan()
    if number is not None:
        absent |= rows == number
    infinite = rows.isinf().any(1).nonzero()
    if len(infinite):
        row = int(infinite[0])
        raise DataError(
            f"y[{row}] is {values[row].tolist()}: targets must be finite, or NaN where there is "
            "none."
        )
    labelled = ~absent.any(1)
    notes = []
    partly = int((~labelled & ~absent.all(1)).sum())
    if partly:
        notes.append(f"{partly:,} of them have some of their targets, which are not used.")
    y = rows.masked_fill(~labelled[:, None], 0).reshape(values.shape)
    known = y[labelled]
    y = _as_float32(y, known, notes)
    listed = list(names or ()) or None
    for column in rows[labelled].double().unbind(1):
        mark = mark_among(column.numpy())
        if listed is not None or mark is None:  # the reader of a table has looked
            continue
        value, count = mark
        notes.append(
            f"y is {value:g} in {count:,} rows, far from its other numbers. If that means missing, "
            f"say so with missing_label {value:g}, in Python GraphSource(..., "
            f"missing_label={value:g})."
        )
    if y.dim() == 2:
        notes += _one_hot_note(known)
        return Targets(y, labelled, listed, notes)
    like_classes = (known == known.round()) & (known >= 0) & (known <= MANY_CLASSES)
    if like_classes.all():
        different = torch.unique(known)
        if 0 < len(different) <= FEW_VALUES:
            shown = ", ".join(f"{value:g}" for value in different[:3].tolist())
            notes.append(
                f"y holds floats ({shown}, ...), so they are numbers to predict. If they are "
                "classes, give integers: y.long(), or `label` of a table."
            )
    return Targets(y, labelled, listed, notes)


def _as_float32(y: Tensor, known: Tensor, notes: list[str]) -> Tensor:
    """Numbers in float32; unless that makes different ones equal, or infinite."""
    if not len(known):  # which is refused
        return y.float()
    # Only what has a target counts: the other rows are 0.
    narrow = known.float()
    if not narrow.isfinite().all():
        largest = known.abs().max().item()
        raise DataError(
            f"y reaches {largest:g}, beyond the range of float32 (3.4e+38): divide the targets."
        )
    if known.dtype != torch.float64:
        return y.float()
    columns = known.reshape(len(known), -1).T
    for column, rounded in zip(columns, columns.float(), strict=True):
        are_merged = len(torch.unique(column)) > len(torch.unique(rounded))
        if are_merged and _digits_matter(column, rounded):
            value = float(column[(column != rounded.double()).nonzero()[0]])
            notes.append(
                f"y holds numbers that float32 cannot tell apart, such as {value:.17g}: they stay "
                "float64, but the loss is computed in the precision of the model. Subtract their "
                "mean and divide by their deviation, or train with --trainer.precision 64-true."
            )
            return y
    return y.float()


def _digits_matter(exact: Tensor, rounded: Tensor) -> bool:
    """True if rounding moves integers, or values by more than a thousandth of their spread."""
    most = (exact - rounded.double()).abs().max()
    are_integers = bool((exact == exact.round()).all())
    return bool(most > 0) and (are_integers or bool(most > 1e-3 * exact.std(correction=0)))


def _one_hot_note(known: Tensor) -> list[str]:
    if task_of(known) != "multilabel" or known.shape[1] < 2 or not (known.sum(1) == 1).all():
        return []
    return [
        f"each row of y has a single 1, and is read as {known.shape[1]} labels that are true or "
        "false. If they are classes, give their numbers: y.argmax(1)."
    ]


def _number(missing_label: float | str | None) -> float | None:
    """A mark of missing labels as a number, if it is one."""
    if missing_label is None:
        return None
    try:
        return float(missing_label)
    except ValueError:  # text
        return None
