"""A report on a data set before training: columns, graph, targets, and options to train with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import MAX_LISTED, class_counts, task_of
from gnn_depth.data.columns import share_of
from gnn_depth.data.schema import Schema
from gnn_depth.data.targets import positive_class

RARE = 0.1  # a class with fewer of the rows makes accuracy a poor measure
ONE_WAY = 0.9  # with more edges that have no reverse, both directions are proposed


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
        source, target = batch.graph.source, batch.graph.target
        if directed and len(source) and _share_one_way(source, target) > 1 - ONE_WAY:
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
            if min(counts) < RARE * total:
                self.options["model.class_weight"] = "balanced"
                self.options["model.best_metric"] = "ap" if len(counts) == 2 else "f1"


def graph_facts(batch: NodeBatch) -> dict[str, str]:
    """Nodes, edges, components and isolated nodes of a graph, in words."""
    graph = batch.graph
    nodes, edges = graph.num_nodes, graph.num_edges
    source, target = graph.source.numpy(), graph.target.numpy()
    links = coo_array((np.ones(edges, np.int8), (source, target)), shape=(nodes, nodes))
    components, of_node = connected_components(links, directed=False)
    largest = int(np.bincount(of_node).max())
    between = source != target
    joined = np.zeros(nodes, bool)
    joined[source[between]] = True
    joined[target[between]] = True
    alone = int((~joined).sum())
    loops = int((~between).sum())
    repeated = edges - len(np.unique(source.astype(np.int64) * nodes + target))
    said = f"{edges:,}"
    if loops:
        said += f"; {loops:,} from a node to itself"
    if repeated:
        said += f"; {repeated:,} repeat an earlier one"
    one_way = _share_one_way(graph.source, graph.target)
    ways = "every edge has its reverse" if one_way == 0 else f"{100 * one_way:.3g}% have no reverse"
    if edges:
        said += f"; {ways}"
    facts = {"nodes": f"{nodes:,} with {batch.x.shape[1]:,} features", "edges": said}
    facts["components"] = f"{components:,}; the largest has {share_of(largest, nodes)} of the nodes"
    facts["no neighbour"] = f"{alone:,} nodes ({share_of(alone, nodes)})"
    return facts


def target_facts(batch: NodeBatch, schema: Schema) -> dict[str, str]:
    """The task, classes with their shares, and homophily, in words."""
    used = batch.train_mask | batch.val_mask | batch.test_mask
    y, task = batch.y, task_of(batch.y)
    facts = {"task": f"{schema.task}, of {'graphs' if batch.per_graph else 'nodes'}"}
    counts = class_counts(y, used)
    rows = int(used.sum())
    if task == "regression":
        names = ", ".join(schema.outputs[:MAX_LISTED])
        known = y[used].double()
        facts["targets"] = f"{names}: from {known.min():,g} to {known.max():,g}"
    elif counts:
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
        both = used[graph.source] & used[graph.target] & (graph.source != graph.target)
        same = (y[graph.source] == y[graph.target])[both]
        if len(same):
            facts["homophily"] = (
                f"{same.double().mean():.2f} of the edges join nodes of one class "
                f"({_by_chance(counts, rows):.2f} by chance)"
            )
    return facts


def _by_chance(counts: Sequence[int], rows: int) -> float:
    """The share of pairs of rows that have one class."""
    return sum((count / rows) ** 2 for count in counts)


def _share_one_way(source: torch.Tensor, target: torch.Tensor) -> float:
    """The share of the edges whose reverse is no edge."""
    if not len(source):
        return 0.0
    nodes = int(torch.maximum(source.max(), target.max())) + 1
    forth = torch.unique(source * nodes + target)
    back = target * nodes + source
    place = torch.searchsorted(forth, back).clamp_max(len(forth) - 1)
    return float((forth[place] != back).double().mean())
