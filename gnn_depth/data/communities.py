"""A degree-corrected stochastic block model with communities inside its classes: who is where, and who cites whom."""

from collections.abc import Callable

import numpy as np

from gnn_depth.data.draws import Draws

# Integer weights, so that their sums are exact and the same on any machine.
WEIGHT_UNIT = 1024
# Nodes in a community, or this many times the mean degree where that is more, so that there is room for its edges.
COMMUNITY_SIZE, COMMUNITY_DEGREES = 30, 5
# The rest is what makes the default graph as hard as Cora for a GCN and for an MLP (measured, not derived).
# Fraction of the edges within a class that stay within a community.
LOCALITY = 0.7
# Fraction of communities that write about another class's topic, and how much of their topical words stays their own.
# As all of a community does so alike, averaging over neighbours does not help: without them a GCN reaches 90%.
BORDERLAND, OWN_WORDS = 0.25, 0.15


class Communities:
    """Classes of equal sizes, made of communities, and nodes to draw from either by weight.

    Nodes are laid out by class, and within it by community, so that both are intervals of the cumulative weights.

    Args:
        num_nodes: Number of nodes.
        num_classes: Number of classes.
        mean_degree: Edges a node has on average, in either direction.
        seed: Which ones.

    Attributes:
        y: Class of each node, shape (nodes,).
    """

    def __init__(self, num_nodes: int, num_classes: int, mean_degree: float, seed: int) -> None:
        draws = Draws(seed, "communities")
        place = np.arange(num_nodes)
        y = place * num_classes // num_nodes
        size = max(COMMUNITY_SIZE, int(COMMUNITY_DEGREES * mean_degree))
        chunk = (place - np.searchsorted(y, np.arange(num_classes))[y]) // size
        _, begin, community = np.unique(y * num_nodes + chunk, return_index=True, return_inverse=True)
        # 1 / sqrt(1 - u) has the tail t^-2, and unlike a power it is rounded alike everywhere.
        weight = (WEIGHT_UNIT / np.sqrt(1 - draws.uniform(num_nodes))).astype(np.int64)
        self.ends = np.cumsum(weight)
        self.class_first, self.class_size = _intervals(self.ends, y)
        self.first, self.size = _intervals(self.ends, community)
        self.node = draws.permutation(num_nodes).numpy()
        self.y, self.community = np.empty_like(y), np.empty_like(community)
        self.y[self.node], self.community[self.node] = y, community
        borderland = draws.permutation(len(begin)).numpy() < BORDERLAND * len(begin)
        self.own_words = np.where(borderland, OWN_WORDS, 1.0)
        self.other_topic = (y[begin] + 1 + draws.integers(max(1, num_classes - 1), len(begin))) % num_classes

    def topics(self, draws: Draws) -> np.ndarray:
        """For each node the topic of one word: its class, or in borderland mostly another one."""
        own = draws.uniform(len(self.y)) < self.own_words[self.community]
        return np.where(own, self.y, self.other_topic[self.community])

    def edges(self, draws: Draws, count: int, homophily: float) -> np.ndarray:
        """Distinct pairs of nodes, ``round(homophily * count)`` of them within a class, shape (2, count)."""
        # Every node begins an edge before any begins a second, where there are enough: few are isolated.
        source = draws.permutation(len(self.y)).numpy()[:count]
        within, cut = round(homophily * count), round(homophily * len(source))
        same = self._pairs(self._within, draws, source[:cut], within)
        other = self._pairs(self._across, draws, source[cut:], count - within)
        pair = np.concatenate([same, other])
        return np.stack([pair // len(self.y), pair % len(self.y)])

    def _pairs(self, end: Callable, draws: Draws, source: np.ndarray, count: int) -> np.ndarray:
        """``count`` distinct pairs, as smaller node x nodes + larger node; all of ``source`` begin one if they can."""
        known = np.empty(0, np.int64)
        while len(known) < count:
            more = self._at(draws.integers(int(self.ends[-1]), max(0, count - len(known) - len(source))))
            source = np.concatenate([source, more])
            target = end(draws, source)
            low, high = np.minimum(source, target), np.maximum(source, target)
            # As np.unique, which takes twenty times as long (NumPy 2.4 hashes integers).
            known = np.sort(np.concatenate([known, (low * len(self.y) + high)[low != high]]))
            known = known[np.diff(known, prepend=-1) > 0]
            source = source[:0]
        return known

    def _within(self, draws: Draws, source: np.ndarray) -> np.ndarray:
        """For each source a node of the same community, or of the same class, drawn by weight."""
        near = draws.uniform(len(source)) < LOCALITY
        y, community = self.y[source], self.community[source]
        first = np.where(near, self.first[community], self.class_first[y])
        size = np.where(near, self.size[community], self.class_size[y])
        return self._at(first + draws.integers(size, len(source)))

    def _across(self, draws: Draws, source: np.ndarray) -> np.ndarray:
        """For each source a node of another class, drawn by weight: one before the class's interval or after it."""
        first, size = self.class_first[self.y[source]], self.class_size[self.y[source]]
        at = draws.integers(self.ends[-1] - size, len(source))
        return self._at(at + np.where(at >= first, size, 0))

    def _at(self, weight: np.ndarray) -> np.ndarray:
        return self.node[np.searchsorted(self.ends, weight, side="right")]


def room(num_nodes: int, num_classes: int) -> tuple[int, int]:
    """How many pairs of nodes there are within the classes, and across."""
    sizes = np.bincount(np.arange(num_nodes) * num_classes // num_nodes)
    within = int((sizes * (sizes - 1) // 2).sum())
    return within, num_nodes * (num_nodes - 1) // 2 - within


def _intervals(ends: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the weights of each group of neighbouring nodes begin, and their sums."""
    last = ends[np.cumsum(np.bincount(group)) - 1]
    return np.concatenate([[0], last[:-1]]), np.diff(last, prepend=0)
