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
    names = data.names_in(nodes, edges)
    source, target = names["ends"]
    of_nodes: dict[Any, str] = dict.fromkeys(data.targets, "number to predict")
    of_nodes |= {names["id"]: "id", data.label: "class", data.split_column: "split"}
    of_edges = {source: "source", target: "target", names["edge_weight"]: "weight"}
    rows = []
    for table, frame, roles, read in (
        ("nodes", nodes, of_nodes, data.feature_names(nodes)),
        ("edges", edges, of_edges, data.edge_features),
    ):
        for name, values in frame.items():
            role = roles.get(name, "not read")
            if name in read:
                role = _role(data, values)
            rows.append((table, name, str(values.dtype), role))
    shown = pd.DataFrame(rows, columns=["table", "column", "type", "role"])
    shown = shown.apply(lambda cells: cells.str.ljust(cells.str.len().max()))
    return str(shown.to_string(index=False, justify="left"))


def _role(data: Tables, values: pd.Series) -> str:
    """The role of a column of features."""
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
    """The classes with their rows, and the homophily of the edges."""
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
