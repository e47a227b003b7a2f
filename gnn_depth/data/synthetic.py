"""A citation graph that is generated, so that everything runs without a download."""

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import check_range
from gnn_depth.data.communities import Communities, room
from gnn_depth.data.draws import Draws, random_split
from gnn_depth.data.features import normalize_rows
from gnn_depth.graph import Graph
from gnn_depth.registry import register

# Of the pairs of nodes, the fraction that may be joined: a denser graph would be drawn with ever more repeated edges.
DENSEST = 0.5
# The commonest words are about equally frequent, as stop words are left out of such vocabularies.
FLAT_RANKS = 40


@register("data", "SyntheticCitation")
class SyntheticCitation(NodeDataModule):
    r"""A graph with the sizes of Cora, drawn from a degree-corrected stochastic block model.

    ``homophily`` of the edges join nodes of a class, most of them in the same community of it; an edge ends at node i
    with probability proportional to :math:`w_i`, :math:`P(w > t) = t^{-2}` (Karrer & Newman, *Stochastic blockmodels
    and community structure in networks*, Phys. Rev. E 83, 2011). A word is drawn from those of a topic with probability
    ``topicality``, else from all, by Zipf's law; some communities write about another class's topic. Time and memory
    are linear in nodes and edges, but features take 4 bytes x nodes x features: 5.7 GB for a million nodes of 1433.

    Args:
        num_nodes: Number of nodes.
        num_edges: Number of undirected edges; no two join the same nodes.
        num_features: Number of words in the vocabulary.
        num_classes: Number of classes, of equal sizes.
        words_per_node: How many words are drawn for a node; a word drawn twice counts once.
        homophily: Fraction of edges within a class, 0 to 1.
        topicality: Fraction of words that tell the class, 0 to 1.
        num_train_per_class: Training nodes of each class.
        num_val: Nodes to validate on.
        num_test: Nodes to test on.
        normalize_features: Whether each node's features are divided by their sum.
        seed: Which graph; the same on any machine.

    Raises:
        ValueError: Sizes that no graph has, or fewer nodes than the split needs.
    """

    def __init__(
        self,
        num_nodes: int = 2708,
        num_edges: int = 5278,
        num_features: int = 1433,
        num_classes: int = 7,
        words_per_node: int = 18,
        homophily: float = 0.81,
        topicality: float = 0.5,
        num_train_per_class: int = 20,
        num_val: int = 500,
        num_test: int = 1000,
        normalize_features: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_range("homophily", homophily, 0, 1)
        check_range("topicality", topicality, 0, 1)
        for what, value in (("num_classes", num_classes), ("words_per_node", words_per_node)):
            check_range(what, value, 1)
        check_range("num_features", num_features, num_classes)
        check_range("num_train_per_class", num_train_per_class, 1)
        for what, value in (("num_val", num_val), ("num_test", num_test), ("num_edges", num_edges), ("seed", seed)):
            check_range(what, value, 0)
        self.num_nodes, self.num_edges, self.words_per_node = num_nodes, num_edges, words_per_node
        self.vocabulary, self._num_classes = num_features, num_classes
        self.homophily, self.topicality = homophily, topicality
        self.num_train_per_class, self.num_val, self.num_test = num_train_per_class, num_val, num_test
        self.normalize_features = normalize_features
        self.seed = seed
        self._check_sizes()

    def _check_sizes(self) -> None:
        needed = self._num_classes * self.num_train_per_class + self.num_val + self.num_test
        if self.num_nodes < needed:
            raise ValueError(
                f"num_nodes is {self.num_nodes}, but the split needs {needed}: num_classes x num_train_per_class + "
                "num_val + num_test. Take more nodes, or make these smaller."
            )
        wanted = round(self.homophily * self.num_edges)
        pairs = room(self.num_nodes, self._num_classes)
        for where, edges, most in zip(("within", "across"), (wanted, self.num_edges - wanted), pairs, strict=True):
            if edges > DENSEST * most:
                raise ValueError(
                    f"num_edges {self.num_edges} and homophily {self.homophily} make {edges} edges {where} classes, "
                    f"but {self.num_nodes} nodes in {self._num_classes} classes take {int(DENSEST * most)} at most "
                    f"(a fraction of {DENSEST} of the pairs). Take fewer edges or more nodes."
                )

    @property
    def num_classes(self) -> int:
        return self._num_classes

    def load(self) -> NodeBatch:
        """Draw the graph."""
        mean_degree = 2 * self.num_edges / self.num_nodes
        communities = Communities(self.num_nodes, self._num_classes, mean_degree, self.seed)
        y = torch.from_numpy(communities.y)
        masks = random_split(y, self.seed, self.num_train_per_class, self.num_val, self.num_test)
        x = self._words(communities)
        edges = torch.from_numpy(communities.edges(Draws(self.seed, "edges"), self.num_edges, self.homophily))
        graph = Graph(torch.cat([edges, edges.flip(0)], 1), self.num_nodes)
        return NodeBatch(normalize_rows(x) if self.normalize_features else x, y, graph, *masks)

    def _words(self, communities: Communities) -> Tensor:
        """Which words each node has, 0 or 1; a topic's words are every num_classes-th of the vocabulary."""
        draws = Draws(self.seed, "words")
        x = torch.zeros(self.num_nodes, self.vocabulary)
        common, topical = _zipf(self.vocabulary), _zipf(self.vocabulary // self._num_classes)
        node = torch.arange(self.num_nodes)
        for _ in range(self.words_per_node):
            word = draws.weighted(topical, self.num_nodes) * self._num_classes + communities.topics(draws)
            general = draws.uniform(self.num_nodes) >= self.topicality
            word[general] = draws.weighted(common, self.num_nodes)[general]
            x[node, torch.from_numpy(word)] = 1
        return x


def _zipf(count: int) -> np.ndarray:
    """Cumulative integer weights of words whose frequency falls with one over their rank."""
    return np.cumsum((2**30 / (FLAT_RANKS + np.arange(count))).astype(np.int64))
