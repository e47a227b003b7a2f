"""Chunks of a graph that hang together: grown from random nodes, all at once, until they meet."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.draws import Draws
from gnn_depth.graph import Graph

NONE = -1
#: A chunk that begins anew does so at one node for every so many that it has room for.
SHARE = 16
#: How often misplaced nodes may choose again: 27% of the edges of a generated graph are kept without, 45% with it.
SECOND_THOUGHTS = 6


def chunks(graph: Graph, count: int, draws: Draws) -> Int[Tensor, "nodes"]:
    """Which of so many chunks, of nodes / count nodes at most, each node belongs to.

    A chunk begins with one random node, and they grow at the same time: in each round every node outside joins the
    chunk where it has most neighbours, along edges in either direction, as long as there is room. Then nodes that have
    more neighbours elsewhere leave, and choose again. A multilevel partition (METIS) cuts fewer edges; this needs no
    library, and half a minute for ten million edges.

    Args:
        graph: The graph.
        count: Number of chunks, at most that of the nodes.
        draws: Where they begin.
    """
    growth = _Growth(graph, count, draws)
    growth.grow()
    for _ in range(SECOND_THOUGHTS):
        growth.release()
        growth.grow()
    return torch.from_numpy(growth.label)


class _Growth:
    """Chunks that are not complete yet.

    Args:
        graph: The graph.
        count: Number of chunks.
        draws: Where they begin.

    Attributes:
        label: The chunk of each node, or NONE.
        room: How many nodes each chunk can take.
    """

    def __init__(self, graph: Graph, count: int, draws: Draws) -> None:
        one, other = graph.source.numpy(), graph.target.numpy()
        one, other = one[one != other], other[one != other]
        self.node, self.neighbour = np.concatenate([one, other]), np.concatenate([other, one])
        self.order = draws.permutation(graph.num_nodes).numpy()
        self.label = np.full(graph.num_nodes, NONE)
        self.label[self.order[:count]] = np.arange(count)
        self.room = np.full(count, -(-graph.num_nodes // count)) - 1

    def grow(self) -> None:
        """Find a chunk for every node outside."""
        outside = self.label[self.node] == NONE
        node, neighbour = self.node[outside], self.neighbour[outside]
        while True:
            joining, wanted = self._wishes(node, neighbour)
            if not len(joining):
                joining, wanted = self._beginnings((self.label[neighbour] == NONE).any())
            if not len(joining):
                return
            self._admit(joining, wanted)
            outside = self.label[node] == NONE
            node, neighbour = node[outside], neighbour[outside]

    def release(self) -> None:
        """Put those outside who have more neighbours in another chunk."""
        node, chunk = self._favourites(self.node * len(self.room) + self.label[self.neighbour])
        leaving = node[self.label[node] != chunk]
        self.room += np.bincount(self.label[leaving], minlength=len(self.room))
        self.label[leaving] = NONE

    def _wishes(self, node: np.ndarray, neighbour: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes outside that have neighbours in chunks with room, and the chunk that each wants."""
        chunk = self.label[neighbour]
        has_room = (chunk != NONE) & (self.room[chunk] > 0)
        return self._favourites(node[has_room] * len(self.room) + chunk[has_room])

    def _favourites(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of pairs of node and chunk the commonest of each node, its own chunk where several are."""
        count = len(self.room)
        pair, votes = _runs(np.sort(pairs))
        own = self.label[pair // count] == pair % count
        pair = pair[np.lexsort((own, votes, pair // count))]
        last = np.flatnonzero(np.diff(pair // count, append=NONE))
        return pair[last] // count, pair[last] % count

    def _beginnings(self, hang_together: np.bool_) -> tuple[np.ndarray, np.ndarray]:
        """Where chunks with room begin anew: at some of the nodes outside, at all if no two of these are neighbours."""
        outside = self.order[self.label[self.order] == NONE]
        begin = np.repeat(np.arange(len(self.room)), -(-self.room // SHARE) if hang_together else self.room)
        return outside[: len(begin)], begin[: len(outside)]

    def _admit(self, node: np.ndarray, wanted: np.ndarray) -> None:
        """Let nodes into the chunks that they want, as many as there is room for."""
        order = np.argsort(wanted, kind="stable")
        node, wanted = node[order], wanted[order]
        _, size = _runs(wanted)
        rank = np.arange(len(node)) - np.repeat(np.cumsum(size) - size, size)
        admitted = rank < self.room[wanted]
        self.label[node[admitted]] = wanted[admitted]
        self.room -= np.bincount(wanted[admitted], minlength=len(self.room))


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of a sorted array, none below 0, and how often each occurs."""
    first = np.flatnonzero(np.diff(values, prepend=NONE))
    return values[first], np.diff(first, append=len(values))
