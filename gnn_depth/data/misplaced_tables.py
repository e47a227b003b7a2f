"""Better errors for tables that could not be read: they were swapped, or the ids are in other
columns than the first ones."""

from gnn_depth.data.checks import DataError
from gnn_depth.data.table_files import TableFile
from gnn_depth.data.table_roles import EdgeColumns, NodeColumns

# From this share of ids on, a column of the edges is one of ids with faults, which are named by
# row elsewhere.
MOSTLY_IDS = 0.5


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
