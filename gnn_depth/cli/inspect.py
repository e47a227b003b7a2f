"""``gnn-depth inspect``: show the columns of two tables, or the facts of any data set, and the
command that trains on it."""

import logging
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from torch_geometric.utils import homophily, remove_self_loops, subgraph

from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.checks import class_counts
from gnn_depth.data.table_reader import read_table
from gnn_depth.data.tables import Tables


def inspect_data(data: GraphDataModule, flags: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the report on a data set, which these flags name, part by part; the last part is an
    error if it cannot be read."""
    command = ["gnn-depth", "fit"]
    for key, value in flags:
        command += [f"--{key}", str(value)]
    training = f"Train with\n  {shlex.join(command)}"
    if isinstance(data, Tables):
        nodes, edges = read_table(data.nodes), read_table(data.edges)
        schema = data.proposed(nodes, edges)
        roles: dict[Any, str] = {}
        for column in schema.columns:
            roles[column.name] = f"feature: {column.kind}"
        roles |= dict.fromkeys(data.targets, "number to predict")
        roles |= {schema.id: "id", data.label: "class", data.split_column: "split"}
        yield _columns(nodes, roles)
        source, target = schema.ends
        of_edges = {source: "source", target: "target", schema.edge_weight: "weight"}
        yield _columns(edges, dict.fromkeys(data.edge_features, "feature") | of_edges)
        if not data.label and not data.targets:
            yield f"{training} --data.label COLUMN\nor, for numbers, --data.targets '[COLUMN]'"
            return
    logging.disable(logging.WARNING)  # the notes are part of the report
    try:
        batch = next(iter(data.predict_dataloader()))  # of several the first stands for all
    finally:
        logging.disable(logging.NOTSET)
    yield "\n".join([data.about, *data.notes])
    used = batch.train_mask | batch.val_mask | batch.test_mask
    counts = class_counts(batch.y, used)
    if counts:
        named = zip(data.class_names, counts, strict=False)  # a batch may lack the last classes
        yield f"classes: {', '.join(f'{name} {count:,}' for name, count in named)}"
    if counts and not batch.per_graph and batch.y.dim() == 1:
        # A row without a target stands as class 0, and a loop always joins one class.
        edges, _ = remove_self_loops(subgraph(used, batch.graph.edge_index)[0])
        same = homophily(edges, batch.y)
        yield f"homophily: {same:.2f} of the edges join nodes of one class"
    yield training


def _columns(table: pd.DataFrame, roles: dict[Any, str]) -> str:
    """A row for each column: pandas' type, the number of missing values, and the role."""
    shown = pd.DataFrame({"type": table.dtypes.astype(str), "missing": table.isna().sum()})
    shown["role"] = [roles.get(name, "not read") for name in table]
    return shown.to_string()
