"""A partition of a graph into densely connected chunks of equal size."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.draws import Draws
from gnn_depth.graph import Graph

NONE = -1
#: A chunk that cannot grow restarts at one random node per this many nodes of free room.
ROOM_PER_RESTART = 16
#: Rounds in which misplaced nodes choose again; they clearly increase the number of edges inside
#: chunks.
REFINEMENTS = 6


def partition(graph: Graph, count: int, draws: Draws) -> Int[Tensor, "nodes"]:
    """Assign each node to one of ``count`` chunks of at most nodes / count nodes (rounded up).

    Chunks start at one random node each and grow at the same time: in each round every unassigned
    node joins the chunk with most of its neighbours, along edges in either direction, as long as
    there is room. Then nodes with more neighbours in another chunk leave, and choose again. A
    multilevel partition (METIS) cuts fewer edges, but needs a compiled library. The random numbers
    determine where chunks start.
    """
    growth = _Growth(graph, count, draws)
    growth.grow()
    for _ in range(REFINEMENTS):
        growth.release_misplaced()
        growth.grow()
    return torch.from_numpy(growth.chunk)


class _Growth:
    """The state of chunks while they grow: the chunk of each node, or NONE, and the room that each
    chunk has left."""

    def __init__(self, graph: Graph, count: int, draws: Draws) -> None:
        source, target = graph.source.numpy(), graph.target.numpy()
        # A loop would be a vote of each node for its own chunk.
        source, target = source[source != target], target[source != target]
        self.node = np.concatenate([source, target])
        self.neighbour = np.concatenate([target, source])
        self.order = draws.permutation(graph.num_nodes).numpy()
        self.chunk = np.full(graph.num_nodes, NONE)
        self.chunk[self.order[:count]] = np.arange(count)
        self.room = np.full(count, -(-graph.num_nodes // count)) - 1

    def grow(self) -> None:
        """Assign every unassigned node."""
        unassigned = self.chunk[self.node] == NONE
        node, neighbour = self.node[unassigned], self.neighbour[unassigned]
        while True:
            chunk = self.chunk[neighbour]
            has_room = (chunk != NONE) & (self.room[chunk] > 0)
            joining, wanted = self._most_frequent(node[has_room] * len(self.room) + chunk[has_room])
            # Nothing is left that borders on a chunk with room: these begin anew elsewhere.
            if not len(joining):
                joining, wanted = self._restarts((self.chunk[neighbour] == NONE).any())
            if not len(joining):
                return
            self._admit(joining, wanted)
            # Edges of assigned nodes are dropped, so that later rounds look at few.
            unassigned = self.chunk[node] == NONE
            node, neighbour = node[unassigned], neighbour[unassigned]

    def release_misplaced(self) -> None:
        """Unassign the nodes that have more neighbours in another chunk."""
        node, chunk = self._most_frequent(self.node * len(self.room) + self.chunk[self.neighbour])
        leaving = node[self.chunk[node] != chunk]
        self.room += np.bincount(self.chunk[leaving], minlength=len(self.room))
        self.chunk[leaving] = NONE

    def _most_frequent(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The most frequent chunk of each node, from pairs ``node * chunks + chunk``; its own chunk
        wins ties."""
        count = len(self.room)
        pair, votes = _runs(np.sort(pairs))
        own = self.chunk[pair // count] == pair % count
        # By node, then by votes, then its own chunk: the last pair of each node wins.
        pair = pair[np.lexsort((own, votes, pair // count))]
        last = np.flatnonzero(np.diff(pair // count, append=NONE))
        return pair[last] // count, pair[last] % count

    def _restarts(self, edges_left: np.bool_) -> tuple[np.ndarray, np.ndarray]:
        """Unassigned nodes at which chunks with room restart; all of them if no two are
        neighbours."""
        unassigned = self.order[self.chunk[self.order] == NONE]
        counts = self.room
        if edges_left:  # few starts, which then grow
            counts = -(-self.room // ROOM_PER_RESTART)
        starts = np.repeat(np.arange(len(self.room)), counts)
        return unassigned[: len(starts)], starts[: len(unassigned)]

    def _admit(self, node: np.ndarray, wanted: np.ndarray) -> None:
        """Assign nodes to the chunks that they chose, as long as there is room."""
        order = np.argsort(wanted, kind="stable")
        node, wanted = node[order], wanted[order]
        _, size = _runs(wanted)
        # The rank of each node among those that want the same chunk.
        rank = np.arange(len(node)) - np.repeat(np.cumsum(size) - size, size)
        admitted = rank < self.room[wanted]
        self.chunk[node[admitted]] = wanted[admitted]
        self.room -= np.bincount(wanted[admitted], minlength=len(self.room))


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of a sorted non-negative array, and how often each occurs."""
    first = np.flatnonzero(np.diff(values, prepend=NONE))
    return values[first], np.diff(first, append=len(values))
