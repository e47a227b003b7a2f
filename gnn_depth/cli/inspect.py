"""``gnn-depth inspect``: show the columns of two tables, or the facts of any data set, and the
command that trains on it."""

import logging
import shlex
from typing import Any

import pandas as pd
from torch_geometric.utils import homophily, remove_self_loops, subgraph

from gnn_depth.data.base import GraphDataModule, NodeBatch
from gnn_depth.data.checks import DataError, class_counts
from gnn_depth.data.table_reader import read_table
from gnn_depth.data.tables import Tables
from gnn_depth.part_specs import options_of


def inspect_data(data: GraphDataModule) -> tuple[str, str]:
    """The report on a data set, and why it cannot be read; empty if it can."""
    lines: list[str] = []
    fault = ""
    logging.disable(logging.WARNING)  # the notes are part of the report
    try:
        if isinstance(data, Tables):
            lines += [_columns(data), ""]
        # Of several batches the first stands for all.
        batch = next(iter(data.predict_dataloader()))
        lines += [data.about, *_targets(batch, data.class_names), *data.notes]
        if isinstance(data, Tables):
            lines += ["", "Train with", f"  {command_of(data)}"]
    except DataError as error:
        fault = str(error)
    finally:
        logging.disable(logging.NOTSET)
    return "\n".join(lines), fault


def command_of(data: Tables) -> str:
    """The command that trains on two tables with the options that were given."""
    words = ["gnn-depth", "fit", str(data.nodes), str(data.edges)]
    for name, option in options_of(Tables)[0].items():
        value = getattr(data, name)
        if name not in ("nodes", "edges") and value != option.default and value not in ([], ()):
            words += [f"--data.{name}", str(value).replace("'", "")]
    return shlex.join(words)


def _columns(data: Tables) -> str:
    """A row for each column of both tables: its name, pandas' type, and its role."""
    nodes, edges = read_table(data.nodes), read_table(data.edges)
    roles = data.roles_in(nodes, edges)
    of_nodes: dict[Any, str] = dict.fromkeys(data.targets, "number to predict")
    of_nodes |= {roles.id: "id", data.label: "class", data.split_column: "split"}
    source, target = roles.ends
    of_edges: dict[Any, str] = {source: "source", target: "target", roles.edge_weight: "weight"}
    rows = [("table", "column", "type", "role")]
    for name in nodes:
        read = name in data.feature_names(nodes)
        role = _role(data, nodes[name]) if read else of_nodes.get(name, "not read")
        rows.append(("nodes", name, str(nodes[name].dtype), role))
    for name in edges:
        read = name in data.edge_features
        role = _role(data, edges[name]) if read else of_edges.get(name, "not read")
        rows.append(("edges", name, str(edges[name].dtype), role))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _role(data: Tables, values: pd.Series) -> str:
    """What a column of features becomes."""
    try:
        column = data.column(values)
    except DataError as error:
        return f"refused: {error}"
    role = f"feature: {column.kind}"
    if column.values:
        role += f" of {', '.join(column.values)}"
    if values.isna().any():
        role += f"; {values.isna().sum():,} missing"
    return role


def _targets(batch: NodeBatch, names: list[str]) -> list[str]:
    """The classes with their rows, and the homophily of the edges, in words."""
    used = batch.train_mask | batch.val_mask | batch.test_mask
    counts = class_counts(batch.y, used)
    rows = [f"{name} {count:,}" for name, count in zip(names, counts, strict=False)]
    if not rows or batch.per_graph or batch.y.dim() > 1:
        return [f"classes: {', '.join(rows)}"] if rows else []
    # A row without a target stands as class 0, and a loop always joins one class.
    edges, _ = remove_self_loops(subgraph(used, batch.graph.edge_index)[0])
    same = homophily(edges, batch.y)
    return [
        f"classes: {', '.join(rows)}",
        f"homophily: {same:.2f} of the edges join nodes of one class",
    ]
