"""The suite of graph dropouts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import GraphDropout
from gnn_depth.testing.graphs import both_ways, has_edges, pair, without_edges
from gnn_depth.testing.suite import Violation, as_property, check, class_of, seeded


@dataclass(frozen=True)
class Thinning:
    """A graph dropout and a graph."""

    label: str  # description of the graph
    build: Callable[[], Graph]
    part: GraphDropout

    def __str__(self) -> str:
        return self.label

    def thinned(self, graph: Graph) -> Graph:
        with seeded(1):
            return self.part(graph)


@as_property("fewer", "Return graph.keeping(mask), with one truth value for every edge.")
def fewer(thinning: Thinning) -> None:
    """The nodes stay the same, and the edges are some of the graph's."""
    graph = thinning.build()
    thin = thinning.thinned(graph)
    if not isinstance(thin, Graph):
        raise Violation(f"{thinning}: it returns {type(thin).__name__}, not a Graph.")
    if thin.num_nodes != graph.num_nodes:
        raise Violation(f"{thinning}: {graph.num_nodes} nodes become {thin.num_nodes}.")
    if thin.node_to_graph is not graph.node_to_graph:
        raise Violation(f"{thinning}: nodes belong to other graphs of the batch than before.")
    before, after = (torch.bincount(g.target * g.num_nodes + g.source, minlength=g.num_nodes**2) for g in (graph, thin))
    if (after > before).any():
        edge = int((after > before).nonzero()[0])
        raise Violation(
            f"{thinning}: an edge from {edge % graph.num_nodes} to {edge // graph.num_nodes} was not there before."
        )


@as_property("seed", "Draw with torch's functions and their default generator only.")
def seed(thinning: Thinning) -> None:
    """The same seed of torch drops the same edges."""
    one, other = (thinning.thinned(thinning.build()) for _ in range(2))
    if not torch.equal(one.edge_index, other.edge_index):
        raise Violation(f"{thinning}: other edges after the same seed.")


@as_property("inputs", "Return a new graph: graph.keeping(mask) leaves this one alone.")
def inputs_stay(thinning: Thinning) -> None:
    """The input graph does not change: evaluation uses all of its edges."""
    graph = thinning.build()
    before = graph.edge_index.clone()
    thinning.thinned(graph)
    if not has_edges(graph, before):
        raise Violation(f"{thinning}: the graph has other edges afterwards.")


GRAPHS: dict[str, Callable[[], Graph]] = {
    "a graph": both_ways,
    "two graphs": lambda: pair(mirrored=True).together,
    "a graph without edges": without_edges,
    "a graph of one node": lambda: without_edges(1),
}


def check_graph_dropout(part: type[GraphDropout] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a graph dropout has the properties of every one.

    Properties: ``fewer``, ``seed``, ``inputs``. Arguments and errors are those of :func:`check_norm`.
    """
    __tracebackhide__ = True
    cls = class_of("graph_dropout", part, GraphDropout)

    def thinnings() -> list[Thinning]:
        return [Thinning(label, build, cls(**options)) for label, build in GRAPHS.items()]

    check("check_graph_dropout", cls, thinnings, [fewer, seed, inputs_stay], except_for)
