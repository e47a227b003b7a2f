"""Generated graphs whose targets need information from far away: transfer along a path, and
distances."""

from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.data.graph_sets import GraphSet
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, NonNegative, Range
from gnn_depth.registry import register

Shape: TypeAlias = Literal["line", "ring", "crossed_ring"]
Target: TypeAlias = Literal["eccentricity", "shortest_path", "diameter"]


@register("data", "GraphTransfer")
class GraphTransfer(NodeDataModule):
    """Graphs in which one node must learn the class of another at a given distance.

    The source's features are its class, one-hot; those of the target are zero, and all others'
    uniform random numbers. Only the target is trained and evaluated. A network needs as many layers
    as the distance.

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
        Range(1 if shape == "line" else 2).check("distance", distance)
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
        y, masks = (
            torch.zeros(count, size, dtype=torch.long),
            torch.zeros(3, count, size, dtype=torch.bool),
        )
        y[:, self.distance] = label
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
    if (
        shape == "crossed_ring"
    ):  # i and its mirror image size - i have the same distance from the source
        side = torch.arange(1, distance - 1)
        edges = torch.cat(
            [edges, torch.stack([side, size - side - 1]), torch.stack([side + 1, size - side])], 1
        )
    return edges, size


@register("data", "Distances")
class Distances(GraphSet):
    """Random graphs whose distances are to be predicted, as numbers: regression that needs the
    whole graph. Ours.

    A graph is a random tree, in which each node hangs on one of the ``window`` nodes before it,
    with extra edges between nodes that are as near in this order. Features are the degree and a
    flag, which marks the source of ``shortest_path``.

    Args:
        target: For each node its ``eccentricity`` (the largest distance to any node) or its
            distance from a random source (``shortest_path``); or the ``diameter`` of each graph.
        num_graphs: Number of graphs; 60% are to train on, 20% each to validate and test.
        num_nodes: Nodes of a graph.
        window: How far back a node's neighbour may lie; with 1 the graph is a line.
        extra: Extra edges, as a fraction of the nodes.
        batch_size: Graphs in a training batch, for ``diameter``; None for all.
        seed: Determines everything.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        target: Target = "eccentricity",
        num_graphs: Annotated[int, Range(5)] = 200,
        num_nodes: Annotated[int, Range(2)] = 30,
        window: Count = 3,
        extra: NonNegative = 0.2,
        batch_size: Count | None = None,
        seed: Natural = 0,
        **common: Any,
    ) -> None:
        super().__init__(batch_size, seed, **common)
        self.target = target
        self.num_graphs, self.num_nodes = num_graphs, num_nodes
        self.window, self.extra = window, extra

    def load(self) -> NodeBatch:
        count, size = self.num_graphs, self.num_nodes
        near = self._adjacency()
        distance = distances(near)
        source = torch.from_numpy(Draws(self.seed, "sources").integers(size, count))
        flag = torch.zeros(count, size)
        if self.target == "shortest_path":
            flag[torch.arange(count), source] = 1
        y = {
            "eccentricity": distance.amax(2),
            "shortest_path": distance[torch.arange(count), source],
            "diameter": distance.amax((1, 2)),
        }[self.target]
        x = torch.stack([near.sum(2).float(), flag], 2).flatten(0, 1)
        of_graph, one, other = near.nonzero().T
        owner = torch.arange(count).repeat_interleave(size)
        graph = Graph(torch.stack([one, other]) + size * of_graph, count * size, owner)
        masks = fraction_split(count, self.seed, 0.6, 0.2)
        if per_graph := self.target == "diameter":
            return NodeBatch(x, y.float(), graph, *masks, per_graph=per_graph)
        return NodeBatch(x, y.flatten().float(), graph, *(mask[owner] for mask in masks))

    def _adjacency(self) -> Tensor:
        """Which nodes of each graph are neighbours, shape (graphs, nodes, nodes)."""
        count, size = self.num_graphs, self.num_nodes
        draws = Draws(self.seed, "edges")
        later = np.arange(1, size)
        back = draws.integers(np.tile(np.minimum(self.window, later), count), count * (size - 1))
        tree = later - 1 - back.reshape(count, -1)
        more = round(self.extra * size)
        late = 1 + draws.integers(size - 1, count * more)
        early = late - 1 - draws.integers(np.minimum(self.window, late), count * more)
        near = torch.zeros(count, size, size, dtype=torch.bool)
        place = torch.arange(count)
        near[place[:, None], torch.from_numpy(later), torch.from_numpy(tree)] = True
        near[place.repeat_interleave(more), torch.from_numpy(late), torch.from_numpy(early)] = True
        return near | near.transpose(1, 2)


def distances(near: Tensor) -> Tensor:
    """Numbers of edges on the shortest path between any two nodes of connected graphs, shape
    (graphs, nodes, nodes)."""
    size = near.shape[1]
    reached = torch.eye(size, dtype=torch.bool).expand_as(near)
    found = torch.zeros(near.shape, dtype=torch.long)
    while not reached.all():
        found += ~reached
        reached = reached | (reached.float() @ near.float() > 0)
    return found
