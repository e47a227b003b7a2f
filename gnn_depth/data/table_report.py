"""Describe each column of two tables: its values, and what it is read as."""

from collections.abc import Collection, Sequence

from gnn_depth.data.columns import (
    FEW_CATEGORIES,
    ColumnFacts,
    EdgeColumns,
    NodeColumns,
    Proposal,
    facts_of,
    propose,
)
from gnn_depth.data.default_roles import are_dates, with_defaults
from gnn_depth.data.scaling import METHODS, REST, PerColumn, words_of_columns
from gnn_depth.data.table_files import TableFile


def look_at_nodes(
    nodes: TableFile, columns: NodeColumns, scales: bool
) -> tuple[list[ColumnFacts], Proposal]:
    """Every column of a table of nodes, and options for those that need a decision."""
    frame = nodes.read(nodes.columns)
    facts = [facts_of(name, frame[name]) for name in nodes.columns]
    roles, _ = with_defaults(nodes, columns, [])
    # Whoever gave a role to a column has decided on it.
    open_columns = [column for column in facts if column.name in (roles.features or ())]
    needs_label = not roles.label and not roles.targets
    proposal = propose(open_columns, columns, needs_label, scales)
    # propose has seen the open columns only.
    for column in facts:
        if column.name in roles.categories and len(column.missing) and not roles.fills:
            proposal.options["fill"] = "median"
    return facts, proposal


def roles_of_nodes(
    nodes: TableFile,
    facts: Sequence[ColumnFacts],
    columns: NodeColumns,
    standardize: PerColumn,
    proposed: Collection[str],
) -> list[tuple[str, str, str]]:
    """For each column of a table of nodes its name, what it holds, and what it is read as.

    Args:
        nodes: The table.
        facts: Its columns.
        columns: Their roles.
        standardize: How numbers are scaled.
        proposed: The names of the options that nobody has given yet.
    """
    roles, masks = with_defaults(nodes, columns, [])
    numbers = [one.name for one in facts if one.is_numeric or one.kind == "dates"]
    if not isinstance(standardize, str):
        # The training checks the names; here only those of numbers have a word to show.
        standardize = {
            name: word for name, word in standardize.items() if name in numbers or name == REST
        }
    methods = words_of_columns("standardize", standardize, numbers, METHODS)
    rows = []
    for column in facts:
        name, option = column.name, ""  # the option that gives the column its role
        if name == roles.id:
            role = "id"
        elif name == roles.label:
            role, option = "label", "label"
        elif name in roles.targets:
            role, option = "target", "targets"
        elif name == roles.split or name in masks:
            role, option = "split", "split"
        elif name in roles.drop:
            role, option = "not read", "drop"
        elif name in roles.categories:
            role, option = f"{column.distinct} features of 0 and 1", "categories"
        elif name not in (roles.features or ()):
            role = "not read"
        else:
            role, word = "feature", ""
            if are_dates(column, roles):
                word = roles.dates if isinstance(roles.dates, str) else roles.dates.get(name, "")
                role, option = f"feature: {word}", "dates"
            # Cyclic dates are four numbers on circles, which have their scale.
            if methods.get(name, "none") != "none" and word != "cyclic":
                role += f", {methods[name]}"
                option = option or "standardize"
            if len(column.missing):
                role += ", filled"
        if option in proposed:
            role += " (proposed)"
        rows.append((name, _values(column), role))
    return rows


def _values(column: ColumnFacts) -> str:
    """A column's values in words, and how many of them are missing."""
    if column.share_missing:
        return f"{column.described}; {column.share_missing}"
    return column.described


def roles_of_edges(
    edges: TableFile, columns: EdgeColumns, standardize: PerColumn
) -> list[tuple[str, str, str]]:
    """For each column of a table of edges its name, what it holds, and what it is read as."""
    frame = edges.read(edges.columns)
    named = list(columns.features or ())
    methods = words_of_columns("edge_standardize", standardize, named, METHODS)
    ends = list(columns.ends or edges.columns[:2])
    rows = []
    for name in edges.columns:
        column = facts_of(name, frame[name])
        role = "not read"
        if name in ends:
            role = "source" if name == ends[0] else "target"
        elif name == columns.weight:
            role = "weight"
        elif name in (columns.features or ()):
            role = "feature of the edge"
            if column.kind == "text":
                role = f"{column.distinct} features of 0 and 1"
            elif methods.get(name, "none") != "none":
                role += f", {methods[name]}"
            if len(column.missing):
                role += ", filled"
        elif column.is_numeric:  # the options that would read it
            role = "not read (edge_weight, edge_features)"
        elif column.kind == "text" and column.distinct <= FEW_CATEGORIES:
            role = "not read (edge_features)"
        rows.append((name, _values(column), role))
    return rows
