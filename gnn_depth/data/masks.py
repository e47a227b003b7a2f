"""Read the rows to train, validate and test on: masks, a split, or a random draw."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnn_depth.data.checks import MASKS, SPLITS, DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.tensors import as_tensor


def given_masks(
    arrays: Mapping[str, Any], rows: int, column: int, notes: list[str]
) -> dict[str, Tensor]:
    """The masks among some arrays, each of shape (rows,).

    Args:
        arrays: Masks of a single split, or with a column for each of several.
        rows: Number of targets.
        column: Which of several splits to use.
        notes: Gets a sentence if there are several.

    Raises:
        DataError: A mask has another shape, or other values than true and false.
    """
    found = {}
    for name in MASKS:
        if name not in arrays:
            continue
        mask = arrays[name]
        if mask.dim() > 2:  # the number of rows was checked graph by graph
            raise DataError(
                f"{name} must be true or false for each of {rows:,} rows, not of shape "
                f"{tuple(mask.shape)}."
            )
        if not ((mask == 0) | (mask == 1)).all():
            raise DataError(f"{name} must be true or false for each row.")
        found[name] = mask.bool()
    shapes = {tuple(mask.shape) for mask in found.values()}
    if len(shapes) > 1:
        each = ", ".join(f"{name} {tuple(mask.shape)}" for name, mask in found.items())
        raise DataError(f"the masks have different shapes: {each}.")
    if not shapes or shapes == {(rows,)}:
        return found
    _, count = shapes.pop()
    if column >= count:
        raise DataError(
            f"mask_column is {column}, and the masks have the columns 0 to {count - 1}."
        )
    if count > 1:
        notes.append(f"the masks hold {count} splits: number {column} is used (mask_column).")
    return {name: mask[:, column] for name, mask in found.items()}


def complete_masks(
    masks: dict[str, Tensor], val_share: float | None, seed: int, notes: list[str]
) -> tuple[Tensor, Tensor, Tensor]:
    """All three masks; with ``val_share``, validation takes this part of the training rows.

    Raises:
        DataError: One is missing, or none is and ``val_share`` is given.
    """
    missing = [name for name in MASKS if name not in masks]
    if val_share is not None:
        if missing != ["val_mask"]:
            raise DataError(
                "val_share is for data with train_mask and test_mask only, and here "
                f"{' and '.join(masks) or 'no mask'} is given: leave val_share out."
            )
        train = masks["train_mask"].nonzero().flatten()
        # One at least: without any the best epoch could not be chosen.
        count = max(1, round(val_share * len(train)))
        chosen = train[Draws(seed, "val share").permutation(len(train))[:count]]
        val = torch.zeros_like(masks["train_mask"])
        val[chosen] = True
        notes.append(f"{len(chosen):,} of {len(train):,} training rows validate (val_share).")
        return masks["train_mask"] & ~val, val, masks["test_mask"]
    if missing:
        are_given = "is given" if len(masks) == 1 else "are given"
        are_not = "is not" if len(missing) == 1 else "are not"
        said = (
            f"{' and '.join(masks)} {are_given}, and {' and '.join(missing)} {are_not}: give all "
            "three, or none. To validate on part of the training rows, give train_mask and "
            "test_mask, and val_share=0.2."
        )
        # A mask under another name was noted, and a note is not shown beside an error.
        for note in notes:
            if f"meant as {missing[0]}," in note:
                said += f" {note}"
        raise DataError(said)
    return masks["train_mask"], masks["val_mask"], masks["test_mask"]


def split_masks(count: int, split: Mapping[str, object]) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of the rows to train, validate and test on, given their numbers or masks.

    Raises:
        DataError: A list is missing, or a number is out of range.
    """
    given = type(split).__name__
    if isinstance(split, Mapping):
        given = ", ".join(map(str, split)) or "none"
    if not isinstance(split, Mapping) or set(split) != set(SPLITS):
        raise DataError(f"a split has lists called {', '.join(SPLITS)}, not {given}.")
    masks = torch.zeros(3, count, dtype=torch.bool)
    for name, mask in zip(SPLITS, masks, strict=True):
        rows = as_tensor(name, split[name])
        # Only a mask of the right length: short ones are lists of 0 and 1 by mistake.
        if rows.dtype == torch.bool and rows.shape == mask.shape:
            rows = rows.nonzero().flatten()
        if rows.numel() == 0:  # an empty list of Python holds floats
            continue
        if rows.is_floating_point() or rows.dtype == torch.bool:
            raise DataError(
                f"{name} of the split has numbers of rows, or a mask of shape ({count},), not "
                f"{rows.dtype} of shape {tuple(rows.shape)}."
            )
        # A negative number would count from the end.
        outside = rows[(rows < 0) | (rows >= count)]
        if len(outside):
            raise DataError(f"{name} has row {int(outside[0])}, and rows are 0 to {count - 1}.")
        mask[rows.long()] = True
    return masks[0], masks[1], masks[2]
