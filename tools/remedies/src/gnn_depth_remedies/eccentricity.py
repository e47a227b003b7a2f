"""A planar graph whose classes depend on all nodes within k edges."""

from typing import Annotated, Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import Delaunay
from torch import Tensor
from torch_geometric.utils import to_undirected

from gnn_depth.data import NodeBatch, NodeDataModule
from gnn_depth.data.checks import check_fractions
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, Probability, Range
from gnn_depth.registry import register


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
        self.num_nodes = num_nodes
        self.hops = hops
        self.classes = num_classes
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction
        self.seed = seed

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
