"""The roles of columns that no option names: their defaults, and errors where tables were swapped
or the ids are in other columns than the first ones."""

import re
from collections.abc import Sequence
from dataclasses import replace

from gnn_depth.data.checks import MASKS, DataError
from gnn_depth.data.columns import FOLD, ColumnFacts, EdgeColumns, NodeColumns, facts_of
from gnn_depth.data.table_files import TableFile

#: The word for a part of a split in the name of a column.
PART = re.compile(r"(?<![a-z])(train|val|valid|validation|dev|test)(ing)?(?![a-z])")
# From this share of ids on, a column of the edges is one of ids with faults, which are named by
# row elsewhere.
MOSTLY_IDS = 0.5


def are_dates(column: ColumnFacts, columns: NodeColumns) -> bool:
    """True for dates, and for numbers such as 20241231 in a column that ``dates`` names."""
    is_named = not isinstance(columns.dates, str) and column.name in columns.dates
    return column.kind == "dates" or (column.are_days and is_named)


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


def refuse_misplaced(
    edges: TableFile, nodes: TableFile, node_columns: NodeColumns, edge_columns: EdgeColumns
) -> None:
    """Refuse swapped tables, and ids of nodes in another column than the first one.

    Raises:
        DataError: The first two columns of the nodes hold only values of the first column of the
            edges; or no option names the ids, and the edges refer to another column of the nodes
            than the first one.
    """
    try:
        end_columns = list(edge_columns.ends or edges.columns[:2])
        if not set(end_columns) <= set(edges.columns):
            return
        first_of_edges = edges.texts(edges.columns[:1]).iloc[:, 0]
        ends = set(edges.texts(end_columns).to_numpy().ravel())
        node_table = nodes.texts(nodes.columns)
    except DataError:  # another fault, which is named elsewhere
        return
    leading = node_table.iloc[:, :2]
    are_ends = leading.shape[1] == 2 and bool(leading.isin(set(first_of_edges)).all(axis=None))
    # Without repetitions it is a column of ids, so these "edges" list nodes.
    if are_ends and len(leading) and first_of_edges.is_unique:
        raise DataError(
            f"the tables are in each other's place: {nodes.path.name} has edges, and "
            f"{edges.path.name} has nodes. The command takes the nodes first, then the edges; in "
            "Python nodes is the table of nodes, and path that of the edges."
        )
    if node_columns.id is not None or ends <= set(node_table.iloc[:, 0]):
        return
    for name in nodes.columns[1:]:
        if ends <= set(node_table[name]) and node_table[name].is_unique:
            raise nodes.error(
                f"the first column, {nodes.columns[0]!r}, is no id: the edges name values of "
                f"{name!r}. Say so: id {name} (--data.id {name})."
            )


def ends_by_value(
    edges: TableFile, nodes: TableFile, node_columns: NodeColumns, edge_columns: EdgeColumns
) -> list[str]:
    """The columns of the edges that hold only ids of nodes, two or more; none if an option names
    the ends, or the first two columns may be them."""
    try:
        if edge_columns.ends or len(edges.columns) < 3:
            return []
        id = node_columns.id or nodes.columns[0]
        ids = set(nodes.texts([id])[id])
        shares = edges.texts(edges.columns).isin(ids).mean()
    except (DataError, KeyError):  # another fault, which is named elsewhere
        return []
    found = [name for name in edges.columns if shares[name] == 1]
    if len(found) < 2 or shares[edges.columns[:2]].min() >= MOSTLY_IDS:
        return []
    return found


def refuse_other_ends(
    edges: TableFile, nodes: TableFile, node_columns: NodeColumns, edge_columns: EdgeColumns
) -> None:
    """Refuse edges whose ends are in other columns than the first two.

    Raises:
        DataError: The ends are in other columns; the message names them.
    """
    found = ends_by_value(edges, nodes, node_columns, edge_columns)
    if not found:
        return
    ends = f"[{found[0]}, {found[1]}]"
    raise edges.error(
        f"the first two columns, {' and '.join(map(repr, edges.columns[:2]))}, are not the ids of "
        f"nodes, and the values of {' and '.join(map(repr, found))} are. For example: ends {ends} "
        f"(--data.ends '{ends}')."
    )
