"""Read targets: classes, labels or numbers, and which rows have none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.checks import DataError, task_of
from gnn_depth.data.features import warn_of_lost_digits
from gnn_depth.data.schema import Schema
from gnn_depth.registry import unknown as unknown_word

#: Names of two classes, the second being the positive one.
SIGNS = (("no", "yes"), ("false", "true"), ("negative", "positive"), ("0", "1"), ("-1", "1"))


@dataclass(eq=False)
class Targets:
    """The targets of nodes or graphs.

    Attributes:
        y: As in ``NodeBatch``; 0 in rows without a target.
        labelled: The rows that have one.
        names: Of the classes or numbers; None if they have no names.
    """

    y: Tensor
    labelled: Tensor
    names: list[str] | None = None


def read_targets(
    values: Tensor | np.ndarray, notes: list[str], names: Sequence[str] = ()
) -> Targets:
    """Read classes, labels or numbers.

    Integers are classes, in two dimensions labels of 0 and 1; text is the names of classes; floats
    are numbers to predict. Rows without a target have -1 beside classes 0, 1, ..., empty text or
    NaN. Of several labels or numbers some may be missing.

    Args:
        values: A tensor, or an array of text.
        notes: Gets a sentence for each decision.
        names: Names of numbers to predict.

    Raises:
        DataError: A value is none of these, the first one is named; or no row has a target.
    """
    # The type decides, not the values: floats that are whole are never taken for classes.
    if not isinstance(values, Tensor):
        found = _of_classes(values.astype(str))
    elif values.is_floating_point():
        rows = values.reshape(len(values), -1)
        labelled = ~rows.isnan().all(1)
        y = rows.masked_fill(~labelled[:, None], 0).reshape(values.shape)
        if not warn_of_lost_digits("y", rows, "scale_target", notes):
            y = y.float()
        found = Targets(y, labelled, list(names) or None)
    elif values.dim() == 2:
        labelled = ~(values == -1).all(1)
        y = values.long().masked_fill(~labelled[:, None], 0)
        if (y == -1).any() and y.abs().max() == 1:
            y = y.float().masked_fill(y == -1, torch.nan)
        found = Targets(y, labelled)
    else:
        found = _of_classes(values.long().numpy())
    without = int((~found.labelled).sum())
    if without == len(found.y):
        raise DataError(f"none of the {without:,} rows has a target in y.")
    missing = int(found.y.isnan().sum())
    if missing:
        notes.append(
            f"{missing:,} of {found.y.numel():,} targets are missing (-1 or NaN): losses and "
            "metrics leave them out."
        )
    if without:
        notes.append(
            f"{without:,} of {len(found.y):,} rows have no target (-1, NaN or empty), and are in "
            "no mask."
        )
    return found


def conform_targets(found: Targets, schema: Schema) -> Targets:
    """Targets as a trained model counts them: its classes, by name.

    Raises:
        DataError: They are of another task, or have a class that the model does not know.
    """
    task, outputs = task_of(found.y), list(schema.outputs)
    # Numbers that happen to be all 0 and 1 look like labels.
    if task != schema.task and (task, schema.task) != ("multilabel", "regression"):
        raise DataError(f"the model was trained for {schema.task}, and these targets are {task}.")
    if schema.task != "multiclass":
        here = found.y[0].numel()
        if here != len(outputs):
            raise DataError(
                f"the model was trained on {len(outputs)} targets, and here are {here}."
            )
        if schema.task == "regression":
            found.y = found.y.float()
        return Targets(found.y, found.labelled, outputs)
    assert found.names is not None, "classes have names"
    y = torch.from_numpy(pd.Index(outputs).get_indexer(found.names))[found.y]
    strange = ((y < 0) & found.labelled).nonzero().flatten()
    if len(strange):
        row = int(strange[0])
        where = f"class in {len(strange):,} rows, first y[{row}]"
        raise DataError(unknown_word(where, found.names[int(found.y[row])], outputs))
    return Targets(y.masked_fill(~found.labelled, 0), found.labelled, outputs)


def positive_class(names: Sequence[str], counts: Sequence[int]) -> str:
    """The positive one of two classes: the one that its name tells, or else the rarer one.

    Args:
        names: Of the two classes.
        counts: Training rows of each; empty if they are not counted. The second is the positive one
            of classes that are equally frequent, or not counted.
    """
    lower = [name.strip().casefold() for name in names]
    for signs in SIGNS:
        if set(lower) == set(signs):
            return names[lower.index(signs[1])]
    if counts and counts[0] < counts[1]:
        return names[0]
    return names[1]


def _of_classes(values: np.ndarray) -> Targets:
    """Classes by number or by name; they are numbered anew, and keep their values as names."""
    if values.ndim != 1:
        raise DataError(f"y is text of shape {values.shape}, and needs one name of a class a row.")
    if values.dtype.kind == "i" and (values < -1).any():
        row = int((values < -1).argmax())
        raise DataError(
            f"y[{row}] is {values[row]}: classes are 0, 1, 2, ...; -1 marks a row without a class."
        )
    found, place = np.unique(values, return_inverse=True)
    texts = found.astype(str)
    missing = ["", "-1"]
    # -1 beside 0, 1, ... marks a row without a class, as LINKX's data has it; beside 1 alone it is
    # the other class.
    if {*texts} - {""} == {"-1", "1"}:
        missing = [""]
    names = texts[~np.isin(texts, missing)]
    with suppress(ValueError):  # other names than numbers stay in alphabetical order
        names = names[np.argsort(names.astype(float), kind="stable")]
    y = torch.from_numpy(pd.Index(names).get_indexer(texts)[place])
    return Targets(y.clamp_min(0), y >= 0, names.tolist())
