"""A generated citation graph, so that everything runs without a download."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.draws import Draws, random_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, Probability, Range
from gnn_depth.registry import register

# Node weights are integers, so that their sums are exact and the same on any machine.
WEIGHT_UNIT = 1024
# Nodes in a community, or this multiple of the mean degree if that is more, so that there is room
# for its edges.
COMMUNITY_SIZE, COMMUNITY_DEGREES = 30, 5
# Words drawn for a node, of which one drawn twice counts once, and the fraction that are topical.
WORDS, TOPICALITY = 18, 0.5
# The following values make the default graph as hard as Cora for a GCN and for an MLP (measured,
# not derived). Fraction of the edges within a class that stay within a community.
LOCALITY = 0.7
# Fraction of the communities that write about another class's topic, and the fraction of topical
# words that they still take from their own. All nodes of a community do this, so averaging over
# neighbours does not help.
BORDERLAND, OWN_WORDS = 0.25, 0.15
# Added to the rank of a word: the most frequent words are about equally frequent, like a vocabulary
# without stop words.
RANK_OFFSET = 40


@register("data", "SyntheticCitation")
class SyntheticCitation(NodeDataModule):
    r"""Synthetic citation graph: a degree-corrected stochastic block model, by default as large as
    Cora.

    A fraction ``homophily`` of the edges joins nodes of the same class, mostly within a community
    of that class. An edge ends at node i with probability proportional to :math:`w_i`, with
    :math:`P(w > t) = t^{-2}` (Karrer & Newman, *Stochastic blockmodels and community structure in
    networks*, Phys. Rev. E 83, 2011). A node has 18 words. Half of them are drawn from the words
    of a topic, the others from all words, by Zipf's law. Some communities write about another
    class's topic. Time and memory are linear in nodes and edges, and features are dense: 4 bytes x
    nodes x features.

    Args:
        num_nodes: Number of nodes.
        num_edges: Number of undirected edges, all distinct.
        num_features: Number of words in the vocabulary.
        num_classes: Number of classes, of equal sizes.
        homophily: Fraction of edges within a class, 0 to 1.
        num_train_per_class: Training nodes of each class.
        num_val: Validation nodes.
        num_test: Test nodes.
        normalize_features: Divide each node's features by their sum.
        seed: Determines the graph; the same on any machine.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: No graph has these sizes, or there are fewer nodes than the split needs.
    """

    def __init__(
        self,
        num_nodes: Count = 2708,
        num_edges: Natural = 5278,
        num_features: Count = 1433,
        num_classes: Count = 7,
        homophily: Probability = 0.81,
        num_train_per_class: Count = 20,
        num_val: Natural = 500,
        num_test: Natural = 1000,
        normalize_features: bool = True,
        seed: Natural = 0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        Range(num_classes).check("num_features", num_features)
        self.num_nodes = num_nodes
        self.num_edges = num_edges
        self.vocabulary = num_features
        self.classes = num_classes
        self.homophily = homophily
        self.num_train_per_class = num_train_per_class
        self.num_val = num_val
        self.num_test = num_test
        self.normalize_features = normalize_features
        self.seed = seed
        needed = num_classes * num_train_per_class + num_val + num_test
        Range(needed).check("num_nodes, with this split,", num_nodes)
        within = round(homophily * num_edges)
        # A graph with more than half of the pairs would be drawn with ever more repeated edges.
        inside, outside = count_pairs(num_nodes, num_classes)
        Range(0, inside // 2).check("num_edges within classes, by homophily,", within)
        Range(0, outside // 2).check("num_edges across classes, by homophily,", num_edges - within)

    def load(self) -> NodeBatch:
        mean_degree = 2 * self.num_edges / self.num_nodes
        communities = _Communities(self.num_nodes, self.classes, mean_degree, self.seed)
        y = torch.from_numpy(communities.y)
        masks = random_split(y, self.seed, self.num_train_per_class, self.num_val, self.num_test)
        x = self._words(communities)
        # A stream of random numbers for each purpose: an option of one changes no other.
        draws = Draws(self.seed, "edges")
        edges = torch.from_numpy(communities.edges(draws, self.num_edges, self.homophily))
        graph = Graph(torch.cat([edges, edges.flip(0)], 1), self.num_nodes)
        return NodeBatch(x, y, graph, *masks)

    def _words(self, communities: "_Communities") -> Tensor:
        """The words of each node, 0 or 1; a topic owns every num_classes-th word of the
        vocabulary."""
        draws = Draws(self.seed, "words")
        x = torch.zeros(self.num_nodes, self.vocabulary)
        common, topical = _zipf(self.vocabulary), _zipf(self.vocabulary // self.classes)
        node, community = torch.arange(self.num_nodes), communities.community
        # Word by word, so that memory does not grow with their number.
        for _ in range(WORDS):
            rank = draws.weighted(topical, self.num_nodes)
            # Its topic is its class, or in borderland mostly another one.
            own = draws.uniform(self.num_nodes) < communities.own_words[community]
            topic = np.where(own, communities.y, communities.other_topic[community])
            word = rank * self.classes + topic
            general = draws.uniform(self.num_nodes) >= TOPICALITY
            word[general] = draws.weighted(common, self.num_nodes)[general]
            x[node, torch.from_numpy(word)] = 1
        return x


def _zipf(count: int) -> np.ndarray:
    """Cumulative integer weights of words whose frequency is inversely proportional to their
    rank."""
    return np.cumsum((2**30 / (RANK_OFFSET + np.arange(count))).astype(np.int64))


class _Communities:
    """Classes of equal sizes, made of communities, with nodes to draw from either by weight.

    Nodes are laid out by class, and within it by community, so that both are intervals of the
    cumulative weights.

    Attributes:
        y: Class of each node, shape (nodes,).
    """

    def __init__(self, num_nodes: int, num_classes: int, mean_degree: float, seed: int) -> None:
        draws = Draws(seed, "communities")
        place = np.arange(num_nodes)
        y = place * num_classes // num_nodes
        size = max(COMMUNITY_SIZE, int(COMMUNITY_DEGREES * mean_degree))
        within_class = (place - np.searchsorted(y, np.arange(num_classes))[y]) // size
        _, begin, community = np.unique(
            y * num_nodes + within_class, return_index=True, return_inverse=True
        )
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
        # 1 to num_classes - 1 steps around the circle of classes lead to any other class.
        steps = 1 + draws.integers(max(1, num_classes - 1), len(begin))
        self.other_topic = (y[begin] + steps) % num_classes

    def edges(self, draws: Draws, count: int, homophily: float) -> np.ndarray:
        """Distinct pairs of nodes, ``round(homophily * count)`` of them within a class, shape (2,
        count)."""
        # Every node starts an edge before any starts a second, if there are enough edges: few nodes
        # are isolated.
        source = draws.permutation(len(self.y)).numpy()[:count]
        within, cut = round(homophily * count), round(homophily * len(source))
        same = self._pairs(True, draws, source[:cut], within)
        other = self._pairs(False, draws, source[cut:], count - within)
        pair = np.concatenate([same, other])
        return np.stack([pair // len(self.y), pair % len(self.y)])

    def _pairs(self, within: bool, draws: Draws, source: np.ndarray, count: int) -> np.ndarray:
        """``count`` distinct pairs within classes or across, as smaller node x nodes + larger node;
        each ``source`` starts one if possible, and ends are drawn by weight."""
        known = np.empty(0, np.int64)
        # Repeated pairs and loops are drawn anew; the graph is not dense, so rounds are few.
        while len(known) < count:
            lacking = max(0, count - len(known) - len(source))
            source = np.concatenate([source, self.node[draws.weighted(self.ends, lacking)]])
            y, community = self.y[source], self.community[source]
            first, size = self.class_first[y], self.class_size[y]
            if within:  # of the same community, or of the same class
                near = draws.uniform(len(source)) < LOCALITY
                first = np.where(near, self.first[community], first)
                size = np.where(near, self.size[community], size)
                at = first + draws.integers(size, len(source))
            else:
                # The interval of the own class is cut out of the line, and what lies behind it
                # moves up.
                at = draws.integers(self.ends[-1] - size, len(source))
                at += np.where(at >= first, size, 0)
            target = self.node[np.searchsorted(self.ends, at, side="right")]
            low, high = np.minimum(source, target), np.maximum(source, target)
            # Equivalent to np.unique, which is far slower because recent NumPy hashes integers.
            known = np.sort(np.concatenate([known, (low * len(self.y) + high)[low != high]]))
            known = known[np.diff(known, prepend=-1) > 0]
            source = source[:0]
        return known


def count_pairs(num_nodes: int, num_classes: int) -> tuple[int, int]:
    """The number of pairs of nodes within the classes, and across."""
    first = -(-np.arange(num_classes + 1) * num_nodes // num_classes)  # nodes of each class
    sizes = np.diff(first)
    within = int((sizes * (sizes - 1) // 2).sum())
    return within, num_nodes * (num_nodes - 1) // 2 - within


def _intervals(ends: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The start and the sum of the weights of each group of consecutive nodes."""
    last = ends[np.cumsum(np.bincount(group)) - 1]
    return np.concatenate([[0], last[:-1]]), np.diff(last, prepend=0)
