"""Checks that every data set must pass; an error names the first faulty index."""

from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from gnn_depth.data.batch import NodeBatch
from gnn_depth.registry import first_of, unknown

SPLITS = ("train", "val", "test")
MASKS = tuple(f"{split}_mask" for split in SPLITS)
NUMBER = "number_of_node"  # follows each node through transforms: its number from 1 on
LABELLED = "has_target"  # follows each row: True where it has a target
#: The arrays of a graph that are read, by the names of PyTorch Geometric.
READ = ("x", "y", "edge_index", "edge_weight", "edge_attr", *MASKS, "num_nodes")
MAX_LISTED = 5  # classes that a sentence lists
#: Sets by the word for their rows, and what follows for a class that they lack.
ABSENT = {
    "training": "it cannot be learned",
    "validation": "the best epoch is chosen without it",
    "test": "the result says nothing about it",
}


class DataError(ValueError):
    """Data is missing, damaged or inconsistent; the message says what to do."""


def match_choice(option: str, value: str, choices: Iterable[str]) -> str:
    """The choice that equals ``value``, ignoring case.

    Raises:
        ValueError: There is none; the message has the nearest match and the choices.
    """
    by_lower = {choice.lower(): choice for choice in choices}
    if value.lower() not in by_lower:
        raise ValueError(unknown(option, value, by_lower.values()))
    return by_lower[value.lower()]


def check_batch(batch: NodeBatch, trained: bool = False) -> None:
    """Check for faults that would not stop training but give wrong numbers.

    One node, isolated nodes and no edges at all are legal.
    :class:`~gnn_depth.graph.Graph` checks the edges. For a model that is ``trained``, classes and
    training nodes may be absent.

    Raises:
        DataError: There is a fault; the message names the first faulty index.
    """
    x, y, masks, num_nodes = batch.x, batch.y, batch.masks, batch.graph.num_nodes
    if num_nodes == 0:
        raise DataError("the graph has no nodes.")
    if x.dim() != 2 or x.shape[1] == 0 or not x.is_floating_point():
        raise DataError(
            f"x must be floats of shape (nodes, features), at least one feature (a constant 1, for "
            f"example), not {x.dtype} {tuple(x.shape)}."
        )
    if len(x) != num_nodes:
        raise DataError(f"x has {len(x)} rows, but the graph has {num_nodes} nodes.")
    rows = batch.graph.num_graphs if batch.per_graph else num_nodes
    has_known_type = y.dtype in (torch.long, torch.bool) or y.is_floating_point()
    if len(y) != rows or y.dim() > 2 or not has_known_type:
        raise DataError(
            f"y must be classes (torch.int64, shape ({rows},)), labels of 0 and 1 (shape ({rows}, "
            f"labels)), or numbers (floats), not {y.dtype} {tuple(y.shape)}."
        )
    for name, mask in zip(MASKS, masks, strict=True):
        if mask.shape != (rows,) or mask.dtype != torch.bool:
            raise DataError(
                f"{name} must be {torch.bool} of shape ({rows},), not {mask.dtype} "
                f"{tuple(mask.shape)}."
            )
    used = masks[0] | masks[1] | masks[2]
    _check_targets(y, used, trained)
    for (name, mask), (other_name, other) in combinations(zip(MASKS, masks, strict=True), 2):
        shared = _first(mask & other)
        if shared is not None:
            raise DataError(
                f"node {shared} is in {name} and in {other_name}: the masks must be disjoint."
            )
    if trained:
        return
    if not masks[0].any():
        raise DataError("train_mask is empty: there is no node to train on.")
    known = y[used]
    # Of a single row, and of labels, one value says nothing.
    if task_of(known) != "multilabel" and len(known) > 1 and not (known != known[:1]).any():
        raise DataError(
            f"the target is {known[0].tolist()} in all {len(known):,} rows that have one: a model "
            "has nothing to learn. Add rows with other targets, or choose another target (label or "
            "targets of a table, --data.label COLUMN; y of arrays)."
        )


def check_finite(x: Tensor) -> None:
    """Check that no feature is NaN or infinite.

    Raises:
        DataError: One is; the message names the first.
    """
    # NaN wins every comparison of aminmax, so one pass without a temporary finds both NaN and Inf.
    if not all(extreme.isfinite() for extreme in x.aminmax()):
        node, feature = (~x.isfinite()).nonzero()[0].tolist()
        raise DataError(
            f"x[{node}, {feature}] is {x[node, feature].item()}: features must be finite. Fill "
            "single ones first: x.nan_to_num(0), or the option missing of tables. Where all are "
            "unknown outside the training set, wrap the data in MissingFeatures with rate 1.0."
        )


def task_of(y: Tensor) -> str:
    """Name of the task that targets are for: classes, labels of 0 and 1 in two dimensions, or
    numbers."""
    # Labels may come as floats, as losses take them, so the values decide and not the type.
    if y.dim() == 2 and bool(((y == 0) | (y == 1) | y.isnan()).all()):
        return "multilabel"
    return "regression" if y.is_floating_point() else "multiclass"


def num_outputs_of(y: Tensor) -> int:
    """Number of classes, labels or numbers."""
    if task_of(y) == "multiclass":
        return int(y.max()) + 1
    return y[0].numel()


def class_counts(y: Tensor, rows: Tensor) -> tuple[int, ...]:
    """How many of some rows have each class, or each label; empty for numbers, and where
    labels are missing.

    Args:
        y: The targets of all rows.
        rows: A mask of the rows to count.
    """
    task = task_of(y)
    if task == "regression" or y.isnan().any():
        return ()
    if task == "multilabel":
        return tuple(y[rows].long().sum(0).tolist())
    return tuple(torch.bincount(y[rows], minlength=num_outputs_of(y)).tolist())


def class_notes(
    y: Tensor, masks: Sequence[Tensor], names: Sequence[str] | None = None
) -> list[str]:
    """Sentences about classes, or targets of several, that cannot be learned or measured because a
    set lacks them.

    Args:
        y: The targets.
        masks: The rows to train, validate and test on. A set without rows lacks no class.
        names: Names of the classes or targets; by default their numbers.
    """
    notes: list[str] = []
    for (of_set, follows), mask in zip(ABSENT.items(), masks, strict=True):
        what, counts = "class", class_counts(y, mask)
        if y.is_floating_point() or y.dim() > 1:
            known = ~y.reshape(len(y), -1)[mask].isnan()
            what, counts = "target", tuple(known.sum(0).tolist())
        named = zip(names or range(len(counts)), counts, strict=True)
        absent = [repr(str(name)) for name, count in named if not count]
        if absent and mask.any():
            shown = first_of(absent, MAX_LISTED)
            notes.append(f"no {of_set} row has the {what} {shown}: {follows}.")
    return notes


def _check_targets(y: Tensor, used: Tensor, trained: bool) -> None:
    if y.is_floating_point():
        # NaN is how a target is said to be missing: a used row must have one that is finite.
        rows = y.view(len(y), -1)
        fault = (rows.isinf().any(1) | rows.isnan().all(1)) & used
        remedy = "targets must be finite, or be left out of the masks."
    elif y.dim() == 2:
        fault = ((y < 0) | (y > 1)).any(1)
        remedy = "in two dimensions y has labels of 0 and 1, or floats."
    else:
        fault = y < 0
        remedy = (
            "classes are 0, 1, 2, ... Give a node without a class any class, and leave it out of "
            "the masks."
        )
        found = torch.unique(y)
        missing = _first(found != torch.arange(len(found)))
        # The classes of a model need not all occur in new data.
        if missing is not None and not fault.any() and not trained:
            fault = y > missing
            remedy = f"classes must be 0, 1, 2, ..., but no node has class {missing}."
    row = _first(fault)
    if row is not None:
        raise DataError(f"y[{row}] is {y[row].tolist()}: {remedy}")


def _first(fault: Tensor) -> int | None:
    """Index of the first True, or None."""
    found = fault.nonzero()
    if len(found):
        return int(found[0])
    return None
