"""Generated graphs whose nodes are classified: the contextual stochastic block model, and the
transfer of a class along a path."""

import math
from typing import Annotated, Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, NonNegative, Range
from gnn_depth.registry import register

Shape: TypeAlias = Literal["line", "ring", "crossed_ring"]


@register("data", "ContextualSBM")
class ContextualSBM(NodeDataModule):
    r"""The contextual stochastic block model: two classes, known from the edges, the features, or
    both.

    .. math:: P(i \sim j) = \frac{d \pm \lambda \sqrt d}{N}, \quad
        x_i = \sqrt{\mu / N}\, y_i u + z_i / \sqrt F, \quad
        \lambda = \sqrt{1 + \epsilon} \sin\tfrac{\pi\phi}{2}, \quad
        \mu = \sqrt{N (1 + \epsilon) / F} \cos\tfrac{\pi\phi}{2}

    with :math:`y_i = \pm 1`, plus for nodes of one class, and standard normal numbers u and z (sums
    of twelve uniform ones, which are the same on any machine). Only the features tell the classes
    at :math:`\phi = 0`, only the edges at 1 (homophily) and -1 (heterophily). 60% of the nodes are
    to train on, 20% each to validate and test.

    Deshpande et al., *Contextual Stochastic Block Models*, NeurIPS 2018; :math:`\phi` as in Chien
    et al., *Adaptive Universal Generalized PageRank Graph Neural Network*, ICLR 2021.

    Args:
        num_nodes: N.
        mean_degree: d.
        num_features: F.
        phi: How much the edges tell, from -1 to 1.
        epsilon: How far the model is above the threshold below which no method finds the classes.
        seed: Determines everything.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: A number is out of its range, or makes a probability negative.
    """

    def __init__(
        self,
        num_nodes: Annotated[int, Range(4)] = 1000,
        mean_degree: NonNegative = 5.0,
        num_features: Count = 200,
        phi: Annotated[float, Range(-1, 1)] = 0.5,
        epsilon: NonNegative = 3.25,
        seed: Natural = 0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        strength = math.sqrt(1 + epsilon) * math.sin(math.pi * phi / 2)
        # Outside, a probability of an edge would be below 0 or above 1.
        Range(strength**2, num_nodes / 2).check("mean_degree", mean_degree)
        self.num_nodes, self.mean_degree, self.width = num_nodes, mean_degree, num_features
        self.phi, self.epsilon, self.seed = phi, epsilon, seed
        self._strength = strength

    def load(self) -> NodeBatch:
        count, width = self.num_nodes, self.width
        y = Draws(self.seed, "classes").permutation(count) % 2
        one, other = torch.triu_indices(count, count, 1)
        difference = self._strength * math.sqrt(self.mean_degree)
        within, across = self.mean_degree + difference, self.mean_degree - difference
        chance = torch.where(y[one] == y[other], within, across) / count
        drawn = torch.from_numpy(Draws(self.seed, "edges").uniform(len(one))) < chance
        edges = to_undirected(torch.stack([one[drawn], other[drawn]]), num_nodes=count)
        signal = math.sqrt(count * (1 + self.epsilon) / width) * math.cos(math.pi * self.phi / 2)
        # The sum of 12 uniform numbers is nearly normal, and exactly rounded on any machine.
        uniform = Draws(self.seed, "features").uniform(12 * (count + 1) * width)
        noise = uniform.reshape(12, count + 1, width).sum(0) - 6
        sign = 2 * y.numpy()[:, None] - 1
        # The first row of the noise is u, the others are z.
        x = math.sqrt(signal / count) * sign * noise[:1] + noise[1:] / math.sqrt(width)
        masks = fraction_split(count, self.seed, 0.6, 0.2)
        return NodeBatch(torch.from_numpy(x).float(), y, Graph(edges, count), *masks)


@register("data", "GraphTransfer")
class GraphTransfer(NodeDataModule):
    """Graphs in which one node must learn the class of another at a given distance.

    The source's features are its class, one-hot; those of the target are zero, and all others'
    uniform random numbers. Only the target is trained and evaluated. A network needs as many layers
    as the distance, unless a norm over whole graphs or a layer that reaches further than one edge
    carries the class.

    The task is that of Bodnar et al., *Weisfeiler and Lehman Go Cellular*, NeurIPS 2021 (ring), on
    the graphs and with the random features of Gravina et al., *On Oversquashing in Graph Neural
    Networks Through the Lens of Dynamical Systems*, AAAI 2025.

    Args:
        shape: ``line``, ``ring`` (two paths of equal length), or ``crossed_ring``, whose paths are
            joined by crossing edges that shorten none.
        distance: Number of edges from source to target.
        num_classes: Number of classes.
        num_graphs: Number of graphs, at least one for each class; 60% are to train on, 20% each to
            validate and test.
        seed: Determines everything.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        shape: Shape = "ring",
        distance: Count = 5,
        num_classes: Annotated[int, Range(2)] = 5,
        num_graphs: Annotated[int, Range(5)] = 500,
        seed: Natural = 0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        Range(num_classes).check("num_graphs", num_graphs)
        least = 1 if shape == "line" else 2  # a ring of two nodes is none
        Range(least).check("distance", distance)
        self.shape = shape
        self.distance = distance
        self.classes = num_classes
        self.num_graphs = num_graphs
        self.seed = seed

    def load(self) -> NodeBatch:
        one_way, size = transfer_edges(self.shape, self.distance)
        count, classes = self.num_graphs, self.classes
        label = Draws(self.seed, "classes").permutation(count) % classes
        noise = Draws(self.seed, "features").uniform(count * size * classes)
        x = torch.from_numpy(noise).float().view(count, size, classes)
        x[:, 0] = torch.eye(classes)[label]
        x[:, self.distance] = 0
        y = torch.zeros(count, size, dtype=torch.long)
        y[:, self.distance] = label
        # The other nodes are in no set: whole graphs are split, not their nodes.
        masks = torch.zeros(3, count, size, dtype=torch.bool)
        masks[:, :, self.distance] = torch.stack(fraction_split(count, self.seed, 0.6, 0.2))
        both = torch.cat([one_way, one_way.flip(0)], 1)
        edges = (both[:, None] + size * torch.arange(count)[:, None]).flatten(1)
        graph = Graph(edges, count * size, torch.arange(count).repeat_interleave(size))
        return NodeBatch(x.flatten(0, 1), y.flatten(), graph, *masks.flatten(1))


def transfer_edges(shape: Shape, distance: int) -> tuple[Tensor, int]:
    """Edges in one direction, and the number of nodes; the source is node 0, the target node
    ``distance``."""
    if shape == "line":
        node = torch.arange(distance)
        return torch.stack([node, node + 1]), distance + 1
    size = 2 * distance
    node = torch.arange(size)
    edges = torch.stack([node, (node + 1) % size])
    if shape == "crossed_ring":
        # Node i and its mirror image size - i have the same distance from the source, so an edge
        # from one to a neighbour of the other shortens no path.
        side = torch.arange(1, distance - 1)
        down, up = torch.stack([side, size - side - 1]), torch.stack([side + 1, size - side])
        edges = torch.cat([edges, down, up], 1)
    return edges, size
