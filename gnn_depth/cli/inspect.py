"""``gnn-depth inspect``: show the columns of two tables, or the facts of any data set, and the
command that trains on it."""

import logging
import shlex

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from gnn_depth.data.base import GraphDataModule, NodeBatch
from gnn_depth.data.checks import DataError, class_counts
from gnn_depth.data.table_reader import read_table
from gnn_depth.data.tables import Tables
from gnn_depth.part_specs import options_of


def inspect_data(data: GraphDataModule) -> tuple[str, str]:
    """The report on a data set, and why it cannot be read; empty if it can."""
    console = Console(color_system=None, highlight=False, markup=False)
    fault = ""
    logging.disable(logging.WARNING)  # the notes are part of the report
    try:
        with console.capture() as captured:
            if isinstance(data, Tables):
                console.print(_columns(data))
            # Of several batches the first stands for all.
            batch = next(iter(data.predict_dataloader()))
            console.print("\n".join([data.about, *_targets(batch, data.class_names)]))
            for note in data.notes:
                console.print(f"- {note}")
            if isinstance(data, Tables):
                console.print(f"\nTrain with\n\n  {command_of(data)}", soft_wrap=True)
    except DataError as error:
        fault = str(error)
    finally:
        logging.disable(logging.NOTSET)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join(lines), fault


def command_of(data: Tables) -> str:
    """The command that trains on two tables with the options that were given."""
    words = ["gnn-depth", "fit", str(data.nodes), str(data.edges)]
    for name, option in options_of(Tables)[0].items():
        value = getattr(data, name)
        if name not in ("nodes", "edges") and value != option.default and value not in ([], ()):
            words += [f"--data.{name}", str(value).replace("'", "")]
    return shlex.join(words)


def _columns(data: Tables) -> Table:
    """A row for each column of both tables: its name, pandas' type, and its role."""
    nodes, edges = read_table(data.nodes), read_table(data.edges)
    roles = data.roles_in(nodes, edges)
    of_nodes = {roles.id: "id", data.label: "class", data.split_column: "split"}
    of_nodes |= dict.fromkeys(data.targets, "number to predict")
    source, target = roles.ends
    of_edges = {source: "source", target: "target", roles.edge_weight: "weight"}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for head in ("table", "column", "type", "role"):
        table.add_column(head, overflow="fold")
    features = data.feature_names(nodes)
    for of_table, frame, named, read in (
        ("nodes", nodes, of_nodes, features),
        ("edges", edges, of_edges, data.edge_features),
    ):
        for name in frame:
            role = named.get(name, "not read")
            if name in read:
                role = _role(data, frame[name])
            table.add_row(of_table, name, str(frame[name].dtype), role)
    return table


def _role(data: Tables, values: pd.Series) -> str:
    """What a column of features becomes."""
    try:
        column = data.column(values)
    except DataError as error:
        return f"refused: {error}"
    role = f"feature: {column.kind}"
    if column.values:
        role += f" of {', '.join(column.values)}"
    missing = int(values.isna().sum())
    if missing:
        role += f"; {missing:,} missing"
    return role


def _targets(batch: NodeBatch, names: list[str]) -> list[str]:
    """The classes with their rows, and the homophily of the edges, in words."""
    used = batch.train_mask | batch.val_mask | batch.test_mask
    counts = class_counts(batch.y, used)
    if not counts:
        return []
    rows = [f"{name} {count:,}" for name, count in zip(names, counts, strict=True)]
    lines = [f"classes: {', '.join(rows)}"]
    graph = batch.graph
    if batch.y.dim() == 1 and not batch.per_graph:
        # A row without a target stands as class 0, and a loop always joins one class.
        both = used[graph.source] & used[graph.target] & (graph.source != graph.target)
        same = (batch.y[graph.source] == batch.y[graph.target])[both]
        by_chance = sum((count / sum(counts)) ** 2 for count in counts)
        lines.append(
            f"homophily: {same.double().mean():.2f} of the edges join nodes of one class "
            f"({by_chance:.2f} by chance)"
        )
    return lines
