"""Generated graphs whose targets need information from far away: transfer along a path, and
eccentricities."""

from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import Delaunay
from torch import Tensor
from torch_geometric.utils import to_undirected

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import check_fractions
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, Probability, Range
from gnn_depth.registry import register

Shape: TypeAlias = Literal["line", "ring", "crossed_ring"]


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


@register("data", "KHopEccentricity")
class KHopEccentricity(NodeDataModule):
    r"""A planar graph of random points: classify nodes by how far the roads around them lead.

    The graph is the Delaunay triangulation of uniform random points in the unit square, and the
    length of an edge is the distance of its two points. The eccentricity of a node is

    .. math:: \epsilon_k(v) = \max_{u \in B_k(v)} d_k(v, u)

    with the ball :math:`B_k(v)` of all nodes at most k edges from v, and the length
    :math:`d_k(v, u)` of the shortest path inside that ball. Classes are groups of equal size by
    eccentricity. The features of a node are its degree and the shortest, mean and longest length of
    its edges, each brought to mean 0 and variance 1; they do not tell where the node is. The label
    depends on the whole ball, so a network that knows it exactly needs k layers.

    The task of City-Networks (Liang et al., *Towards Quantifying Long-Range Interactions in Graph
    Machine Learning: a Large Graph Dataset and a Measurement*, 2025), on generated graphs in place
    of road maps.

    Args:
        num_nodes: Number of points.
        hops: k.
        num_classes: Number of classes.
        train_fraction: Fraction of the nodes to train on.
        val_fraction: Fraction of the nodes to validate on; the rest is the test set.
        seed: Determines the points and the split.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        num_nodes: Annotated[int, Range(5)] = 2000,
        hops: Count = 16,
        num_classes: Annotated[int, Range(2)] = 10,
        train_fraction: Probability = 0.1,
        val_fraction: Probability = 0.1,
        seed: Natural = 0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        check_fractions(train_fraction, val_fraction)
        Range(num_classes).check("num_nodes", num_nodes)
        self.num_nodes, self.hops, self.classes = num_nodes, hops, num_classes
        self.train_fraction, self.val_fraction, self.seed = train_fraction, val_fraction, seed

    @property
    def num_classes(self) -> int:
        return self.classes

    def load(self) -> NodeBatch:
        count = self.num_nodes
        points = Draws(self.seed, "points").uniform(2 * count).reshape(count, 2)
        edges = delaunay_edges(points)
        source, target = edges.numpy()
        length = np.linalg.norm(points[source] - points[target], axis=1)
        far = hop_eccentricity(edges, length, count, self.hops)
        # The rank of each node, cut into groups of equal size.
        rank = far.argsort(stable=True).argsort()
        y = rank * self.classes // count
        masks = fraction_split(count, self.seed, self.train_fraction, self.val_fraction)
        return NodeBatch(road_features(edges, length, count), y, Graph(edges, count), *masks)


def delaunay_edges(points: np.ndarray) -> Tensor:
    """The edges of the Delaunay triangulation of points in the plane, in both directions, shape
    (2, edges)."""
    corners = torch.from_numpy(Delaunay(points).simplices.astype(np.int64))
    sides = torch.cat([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]).T
    return to_undirected(sides, num_nodes=len(points))


def hop_eccentricity(edges: Tensor, length: np.ndarray, count: int, hops: int) -> Tensor:
    """The longest of the shortest paths from each node inside its ball of so many hops, shape
    (nodes,)."""
    source, target = edges.numpy()
    roads = csr_array((length, (source, target)), shape=(count, count))
    far = torch.zeros(count, dtype=torch.double)
    for node in range(count):
        # Beyond the limit dijkstra's distances are infinite.
        steps = dijkstra(roads, indices=node, unweighted=True, limit=hops)
        ball = np.flatnonzero(np.isfinite(steps))
        start = int(np.searchsorted(ball, node))
        # A shorter way may leave the ball, which a network of so many layers does not see.
        inside = dijkstra(roads[ball][:, ball], indices=start)
        far[node] = float(inside.max())
    return far


def road_features(edges: Tensor, length: np.ndarray, count: int) -> Tensor:
    """Degree, and shortest, mean and longest length of each node's edges, standardised, shape
    (nodes, 4)."""
    node, lengths = edges[1], torch.from_numpy(length)
    degree = torch.bincount(node, minlength=count).double()
    of_edges = torch.zeros(count, dtype=torch.double)
    columns = [degree]
    for reduce in ("amin", "mean", "amax"):
        columns.append(of_edges.scatter_reduce(0, node, lengths, reduce, include_self=False))
    x = torch.stack(columns, 1)
    deviation = x.std(0, correction=0).clamp_min(1e-12)  # of equal numbers it is 0
    return ((x - x.mean(0)) / deviation).float()
