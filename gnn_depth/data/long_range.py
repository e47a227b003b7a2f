"""Generated graphs whose targets need information from far away: transfer along a path."""

from typing import Annotated, Any, Literal, TypeAlias

import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, Range
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
