"""Order the nodes of a large graph so that neighbours lie close together in memory."""

import logging
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.data.batch import NodeBatch
from gnn_depth.data.checks import MASKS, DataError
from gnn_depth.graph import Graph

log = logging.getLogger(__name__)

NodeOrder: TypeAlias = Literal["auto", "given", "rcm"]
#: ``auto`` leaves graphs with fewer nodes alone.
FEWEST = 50_000
#: ``auto`` reorders if it divides the mean distance of edges by more than this.
SHORTER = 1.4


def ordered(batch: NodeBatch, node_order: NodeOrder) -> NodeBatch:
    r"""A batch with its nodes in the order to compute in, and :attr:`NodeBatch.order` set if it is
    another one than before.

    The distance of an edge is that of its ends in memory: :math:`|i - j|` for nodes i and j.

    Args:
        batch: The whole graph.
        node_order: ``given`` leaves the order. ``rcm`` is that of the reverse Cuthill-McKee
            algorithm. ``auto`` is ``rcm`` for a graph of at least 50,000 nodes whose edges become
            shorter by a factor above 1.4 in the mean, and ``given`` otherwise.

    Raises:
        DataError: ``rcm`` is asked for, and there are several graphs.
    """
    graph = batch.graph
    are_several = graph.node_to_graph is not None or batch.per_graph
    leaves_alone = node_order == "auto" and (graph.num_nodes < FEWEST or are_several)
    if node_order == "given" or leaves_alone:
        return batch
    if are_several:
        raise DataError(
            f"node_order rcm is for one graph, and these are {graph.num_graphs:,} side by side: "
            "use auto or given."
        )
    order = reverse_cuthill_mckee(graph)
    position = torch.argsort(order)
    edges = position[graph.edge_index]
    # Of the ends of an edge in the mean; 0 without edges.
    before, after = (
        (ends[0] - ends[1]).abs().double().mean().nan_to_num() for ends in (graph.edge_index, edges)
    )
    if node_order == "auto" and before <= SHORTER * after:
        return batch
    moved = Graph(edges, graph.num_nodes, **graph.of_edges(slice(None)))
    masks: dict[str, Any] = {name: getattr(batch, name)[order] for name in MASKS}
    rank_zero_only(log.warning)(
        f"training orders the nodes by reverse Cuthill-McKee: neighbours are "
        f"{after:,.0f} rows apart in the mean instead of {before:,.0f}. Predictions keep the order "
        "of the data, and batch.order numbers the nodes of a batch in it. node_order given turns "
        "this off."
    )
    return replace(batch, x=batch.x[order], y=batch.y[order], graph=moved, order=order, **masks)


def reverse_cuthill_mckee(graph: Graph) -> Int[Tensor, "nodes"]:
    """The nodes in an order in which neighbours are close, whichever way their edges run.

    It depends on nothing but the edges. Cuthill & McKee, *Reducing the Bandwidth of Sparse
    Symmetric Matrices*, ACM National Conference 1969; reversed as by George, 1971.
    """
    from scipy.sparse import csgraph, csr_array  # slow to import

    shape = (graph.num_nodes, graph.num_nodes)
    is_edge = np.ones(graph.num_edges, np.bool_)  # numbers of repeated edges could overflow
    adjacency = csr_array((is_edge, graph.source.numpy(), graph.ptr.numpy()), shape)
    found = csgraph.reverse_cuthill_mckee(adjacency, symmetric_mode=False)
    return torch.from_numpy(found.astype(np.int64))
