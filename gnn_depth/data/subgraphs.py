"""Parts of a graph: the edges among some nodes, and neighbourhoods of which a few are drawn."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.draws import Draws
from gnn_depth.graph import Graph


def induced(graph: Graph, nodes: Int[Tensor, "part"]) -> Graph:
    """All edges among some nodes, which are numbered as they come.

    Args:
        graph: The whole graph.
        nodes: Distinct nodes of it.
    """
    place = _places(graph, nodes)
    edge, target = entries(graph.ptr, nodes)
    source = place[graph.source[edge]]
    inside = source >= 0
    return Graph(torch.stack([source[inside], target[inside]]), len(nodes))


def sampled(
    graph: Graph, seeds: Int[Tensor, "seeds"], sizes: Sequence[int], draws: Draws
) -> tuple[Int[Tensor, "part"], Graph]:
    """Some nodes, some of their neighbours, some of the neighbours of these, and so on.

    The edges into a node are drawn once, without repetition, when the node is first met; nodes that are met last have
    none.

    Args:
        graph: The whole graph.
        seeds: Distinct nodes of it.
        sizes: How many edges into a node are kept at most: of the seeds, of the nodes met there, and so on.
        draws: Which ones.

    Returns:
        The nodes in the order in which they were met, the seeds first, and the edges among them that were drawn.
    """
    place, reached = _places(graph, seeds), [seeds]
    sources, targets, first = [], [], 0
    for size in sizes:
        edge, target = entries(graph.ptr, reached[-1])
        kept = _some(target, size, draws)
        source = graph.source[edge[kept]]
        targets.append(target[kept] + first)
        first += len(reached[-1])
        reached.append(torch.unique(source[place[source] < 0]))
        place[reached[-1]] = first + torch.arange(len(reached[-1]))
        sources.append(place[source])
    nodes = torch.cat(reached)
    return nodes, Graph(torch.stack([torch.cat(sources), torch.cat(targets)]), len(nodes))


def entries(ptr: Int[Tensor, "all"], rows: Int[Tensor, "rows"]) -> tuple[Int[Tensor, "found"], Int[Tensor, "found"]]:
    """The entries of some rows of a CSR, one row after the other: where they stand, and in which of these rows.

    Args:
        ptr: Where each row begins, and where the last one ends.
        rows: The rows.
    """
    count = ptr[rows + 1] - ptr[rows]
    row = torch.repeat_interleave(torch.arange(len(rows)), count)
    skipped = ptr[rows] - (count.cumsum(0) - count)
    return torch.arange(len(row)) + skipped[row], row


def _some(group: Int[Tensor, "members"], size: int, draws: Draws) -> Int[Tensor, "kept"]:
    """Of each group of neighbouring members so many at random, or all where there are no more."""
    order = torch.argsort(
        group + torch.from_numpy(draws.uniform(len(group))), stable=True
    )  # each group in a random order
    count = torch.bincount(group)
    rank = torch.arange(len(group)) - (count.cumsum(0) - count)[group]
    return order[rank < size]


def _places(graph: Graph, nodes: Int[Tensor, "part"]) -> Int[Tensor, "nodes"]:
    """For each node of a graph its place among some, or -1."""
    place = torch.full((graph.num_nodes,), -1)
    place[nodes] = torch.arange(len(nodes))
    return place
