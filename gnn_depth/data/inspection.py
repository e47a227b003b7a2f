"""A report on a data set before training: columns, graph, targets, and options to train with."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import MAX_LISTED, class_counts, task_of
from gnn_depth.data.columns import share_of
from gnn_depth.data.repeated_edges import count_repeated, edge_keys
from gnn_depth.data.schema import Schema
from gnn_depth.data.targets import positive_class
from gnn_depth.graph import Graph

RARE = 0.1  # a class with fewer of the rows makes accuracy a poor measure
ONE_WAY = 0.1  # from this share of edges without a reverse on, both directions are proposed


@dataclass
class Inspection:
    """The report on a data set.

    Attributes:
        tables: For each file its name, and a row for each column: name, values, role.
        facts: Sentences on the graph and its targets, by subject.
        files: The files as a command takes them.
        options: Options of the data set and the model that are proposed, by dotted name.
        notes: What was decided where the data left a choice.
        open: What still needs a decision, in words.
    """

    tables: list[tuple[str, list[tuple[str, str, str]]]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def look_at(self, batch: NodeBatch, schema: Schema, directed: bool) -> None:
        """Add the facts of a graph that was read, and options that follow from them."""
        self.facts |= graph_facts(batch)
        self.facts |= target_facts(batch, schema)
        if directed and _share_without_reverse(batch.graph) >= ONE_WAY:
            self.options["data.undirected"] = "true"
        counts = class_counts(batch.y, batch.train_mask | batch.val_mask | batch.test_mask)
        total = sum(counts)
        if schema.task == "multiclass" and total:
            if len(counts) == 2:
                self.options["model.task"] = "binary"
                self.facts["task"] = "binary, of two classes"
                trained = class_counts(batch.y, batch.train_mask)
                name = positive_class(schema.outputs, trained)
                self.facts["positive class"] = f"{name}; --model.task.positive CLASS names another"
            if min(counts) < RARE * total:  # accuracy would choose a model that ignores it
                self.options["model.class_weight"] = "balanced"
                self.options["model.best_metric"] = "ap" if len(counts) == 2 else "f1"


def graph_facts(batch: NodeBatch) -> dict[str, str]:
    """Nodes, edges, components and isolated nodes of a graph, in words."""
    graph = batch.graph
    nodes, edges = graph.num_nodes, graph.num_edges
    source, target = graph.source.numpy(), graph.target.numpy()
    links = coo_array((np.ones(edges, np.int8), (source, target)), shape=(nodes, nodes))
    # Whichever way the edges run: the question is whether the graph is in one piece.
    components, of_node = connected_components(links, directed=False)
    largest = int(np.bincount(of_node).max())
    between = source != target
    joined = np.zeros(nodes, bool)
    joined[source[between]] = True
    joined[target[between]] = True
    alone = int((~joined).sum())  # a loop is no neighbour
    loops = int((~between).sum())
    repeated = count_repeated(graph)
    said = f"{edges:,}"
    if loops:
        said += f"; {loops:,} from a node to itself"
    if repeated:
        said += f"; {repeated:,} repeat an earlier one"
    without_reverse = _share_without_reverse(graph)
    if without_reverse:
        said += f"; {100 * without_reverse:.3g}% have no reverse"
    elif edges:
        said += "; every edge has its reverse"
    return {
        "nodes": f"{nodes:,} with {batch.x.shape[1]:,} features",
        "edges": said,
        "components": f"{components:,}; the largest has {share_of(largest, nodes)} of the nodes",
        "no neighbour": f"{alone:,} nodes ({share_of(alone, nodes)})",
    }


def target_facts(batch: NodeBatch, schema: Schema) -> dict[str, str]:
    """The task, classes with their shares, and homophily, in words."""
    used = batch.train_mask | batch.val_mask | batch.test_mask
    y, task = batch.y, task_of(batch.y)
    of_what = "graphs" if batch.per_graph else "nodes"
    facts = {"task": f"{schema.task}, of {of_what}"}
    counts = class_counts(y, used)
    rows = int(used.sum())
    if task == "regression":
        names = ", ".join(schema.outputs[:MAX_LISTED])
        known = y[used].double()
        facts["targets"] = f"{names}: from {known.min():,g} to {known.max():,g}"
    elif counts:
        # The most frequent ones and the rarest, which a model may fail to learn.
        ordered = sorted(zip(counts, schema.outputs, strict=True), reverse=True)
        shown = [f"{name} {share_of(count, rows)}" for count, name in ordered[: 2 * MAX_LISTED]]
        if len(ordered) > len(shown):
            shown.append(f"... the rarest {ordered[-1][1]} {share_of(ordered[-1][0], rows)}")
        facts["classes"] = f"{len(counts):,}: {', '.join(shown)}"
    without = len(used) - rows
    if without:
        facts["in no set"] = f"{without:,} rows ({share_of(without, len(used))})"
    sets = [int(mask.sum()) for mask in batch.masks]
    facts["split"] = "{:,} to train on, {:,} to validate, {:,} to test".format(*sets)
    graph = batch.graph
    if task == "multiclass" and not batch.per_graph and graph.num_edges:
        # A row without a target stands as class 0, and a loop always joins one class.
        both = used[graph.source] & used[graph.target] & (graph.source != graph.target)
        same = (y[graph.source] == y[graph.target])[both]
        if len(same):
            # The chance that two rows have one class, whatever the edges are.
            by_chance = sum((count / rows) ** 2 for count in counts)
            facts["homophily"] = (
                f"{same.double().mean():.2f} of the edges join nodes of one class "
                f"({by_chance:.2f} by chance)"
            )
    return facts


def _share_without_reverse(graph: Graph) -> float:
    """The share of the edges whose reverse is no edge."""
    if not graph.num_edges:
        return 0.0
    keys = edge_keys(graph.edge_index, graph.num_nodes)
    reverse = edge_keys(graph.edge_index.flip(0), graph.num_nodes)
    return float((~torch.isin(reverse, keys)).double().mean())
