"""Refuse tables in each other's place, and ids in other columns than the first ones."""

from gnn_depth.data.checks import DataError
from gnn_depth.data.table_files import TableFile
from gnn_depth.data.table_roles import EdgeColumns, NodeColumns


def refuse_misplaced(
    edges: TableFile, nodes: TableFile, columns: NodeColumns, of_edges: EdgeColumns
) -> None:
    """Refuse tables in each other's place, and ids in another column than the first one.

    Raises:
        DataError: The first two columns of the nodes are ids in the first one of the edges; or no
            option says where the ids of the nodes are, and the ends of all edges are in another
            column than the first one.
    """
    try:
        named = list(of_edges.ends or edges.columns[:2])
        if not set(named) <= set(edges.columns):
            return
        first = edges.read(edges.columns[:1], edges.columns[:1]).iloc[:, 0]
        pairs = nodes.read(nodes.columns[:2], nodes.columns[:2])
        ends = set(edges.read(named, named).to_numpy().ravel())
        texts = nodes.read(nodes.columns, nodes.columns)
    except DataError:  # another fault, which is named elsewhere
        return
    are_ends = pairs.shape[1] == 2 and bool(pairs.isin(set(first)).all(axis=None))
    # Ids occur once each, the sources of edges hardly ever.
    if are_ends and len(pairs) and first.is_unique:
        raise DataError(
            f"the tables are in each other's place: {nodes.path.name} has edges, and "
            f"{edges.path.name} has nodes. The command takes the nodes first, then the edges; in "
            "Python nodes is the table of nodes, and path that of the edges."
        )
    if columns.id is not None or ends <= set(texts.iloc[:, 0]):
        return
    for name in nodes.columns[1:]:
        if ends <= set(texts[name]) and texts[name].is_unique:
            raise nodes.error(
                f"the first column, {nodes.columns[0]!r}, is no id: the edges name values of "
                f"{name!r}. Say so: id {name} (--data.id {name})."
            )


def ends_by_value(
    edges: TableFile, nodes: TableFile, columns: NodeColumns, of_edges: EdgeColumns
) -> list[str]:
    """The columns of the edges whose values are ids of nodes, if no option says which these are
    and the first two columns are not.
    """
    try:
        if of_edges.ends or len(edges.columns) < 3:
            return []
        id = columns.id or nodes.columns[0]
        ids = set(nodes.read([id], [id])[id])
        frame = edges.read(edges.columns, edges.columns)
    except (DataError, KeyError):  # another fault, which is named elsewhere
        return []
    shares = frame.isin(ids).mean()
    found = [name for name in edges.columns if shares[name] == 1]
    # A column with a few other values is one of ids with faults, which are named by row.
    if len(found) < 2 or shares[edges.columns[:2]].min() >= 0.5:
        return []
    return found


def refuse_other_ends(
    edges: TableFile, nodes: TableFile, columns: NodeColumns, of_edges: EdgeColumns
) -> None:
    """Refuse a table of edges whose ends are in other columns than the first two.

    Raises:
        DataError: They are; the message has the option that names them.
    """
    found = ends_by_value(edges, nodes, columns, of_edges)
    if not found:
        return
    said = f"the values of {' and '.join(map(repr, found))} are"
    ends = f"[{found[0]}, {found[1]}]"
    raise edges.error(
        f"the first two columns, {' and '.join(map(repr, edges.columns[:2]))}, are not the ids of "
        f"nodes, and {said}. For example: ends {ends} (--data.ends '{ends}')."
    )
