"""The roles of the columns of nodes that no option names."""

import re
from collections.abc import Sequence
from dataclasses import replace

from gnn_depth.data.checks import MASKS
from gnn_depth.data.columns import FOLD, ColumnFacts, Proposal, facts_of
from gnn_depth.data.table_files import TableFile
from gnn_depth.data.table_roles import NodeColumns

#: The word for a part of a split in the name of a column.
PART = re.compile(r"(?<![a-z])(train|val|valid|validation|dev|test)(ing)?(?![a-z])")


def are_dates(column: ColumnFacts, columns: NodeColumns) -> bool:
    """True for dates, and for numbers such as 20241231 in a column that ``dates`` names."""
    is_named = not isinstance(columns.dates, str) and column.name in columns.dates
    return column.kind == "dates" or (column.are_days and is_named)


def keep_given(proposal: Proposal, columns: NodeColumns) -> None:
    """Add what was given of an option to what is proposed, which would stand in its place."""
    for name, given in (("categories", columns.categories), ("drop", columns.drop)):
        if given and name in proposal.options:
            proposal.options[name] = [*given, *proposal.options[name]]


def with_defaults(
    nodes: TableFile, columns: NodeColumns, notes: list[str]
) -> tuple[NodeColumns, list[str]]:
    """The roles with their defaults, and the columns that are masks."""
    columns = replace(columns, id=columns.id or nodes.columns[0])
    if columns.features is not None:
        columns = replace(columns, features=nodes.expanded(columns.features))
    named = list(filter(None, [columns.id, columns.label, columns.split]))
    named += [*columns.categories, *columns.targets, *columns.drop]
    found = [name for name in MASKS if name in nodes.columns and name not in named]
    masks = found
    if columns.split:
        masks = []  # which are no features, either
        if found:
            notes.append(f"{' and '.join(found)} are not read: split is {columns.split!r}.")
    elif found:
        notes.append(f"{' and '.join(found)} are the split.")
    elif "split" in nodes.columns and "split" not in [*named, *(columns.features or ())]:
        columns = replace(columns, split="split")
        named.append("split")
        notes.append("the column split is the split.")
    used = nodes.distinct([*named, *found, *(columns.features or ())])
    if columns.features is None:
        rest = [name for name in nodes.columns if name not in used]
        columns = replace(columns, features=rest)
        _refuse_split(nodes, rest)
        _note_folds(nodes, rest, notes)
    return columns, masks


def _refuse_split(nodes: TableFile, features: Sequence[str]) -> None:
    """Refuse columns of true and false that look like a split and would become features."""
    parts = [name for name in features if PART.search(name.lower())]
    # A test alone may be one of blood.
    if not any("train" in name.lower() for name in parts):
        return
    frame = nodes.read(parts)
    found = [name for name in parts if set(frame[name].unique()) <= {True, False}]
    if found:
        raise nodes.error(
            f"{' and '.join(found)} hold true and false, and look like the split: call them "
            "train_mask, val_mask and test_mask. If they are features, list all in `features`."
        )


def _note_folds(nodes: TableFile, features: Sequence[str], notes: list[str]) -> None:
    """Tell which features seem to number the parts of a split."""
    named = [name for name in features if FOLD.search(name.lower())]
    if not named:  # nothing has to be read
        return
    frame = nodes.read(named)
    found = [repr(name) for name in named if facts_of(name, frame[name]).may_be_split]
    if found:
        are = "is a feature" if len(found) == 1 else "are features"
        notes.append(
            f"{' and '.join(found)} {are}, and may number the parts of a split: drop leaves it "
            "out; split takes a column of train, val and test."
        )
