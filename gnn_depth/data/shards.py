"""Divide a full batch among processes: each keeps some nodes and the edges into them."""

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor
from torch_geometric.utils import to_undirected

from gnn_depth.csr import pointers
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.graph import Graph
from gnn_depth.shard import Shard


def contiguous(num_nodes: int, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node: chunks of equal size, in the order of the nodes."""
    return torch.arange(num_nodes) * processes // max(num_nodes, 1)


def metis(graph: Graph, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node by METIS, which cuts few edges between chunks of about equal size.

    Karypis & Kumar, *A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs*,
    SIAM Journal on Scientific Computing 1998.

    Raises:
        DataError: The package pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise DataError(
            "metis needs the package pymetis: pip install 'gnn-depth[metis]'."
        ) from None
    # METIS takes undirected graphs without loops.
    proper = graph.edge_index[:, graph.source != graph.target]
    source, target = to_undirected(proper, num_nodes=graph.num_nodes)
    adjacency = pymetis.CSRAdjacency(pointers(source, graph.num_nodes).tolist(), target.tolist())
    _, chunk = pymetis.part_graph(processes, adjacency=adjacency)
    return torch.tensor(chunk)


def division(nodes: str, batch: NodeBatch, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node: ``contiguous`` chunks in the order of the nodes, or ``metis``.

    Raises:
        DataError: Targets are of graphs, pymetis is not installed, or a process gets no node.
    """
    graph = batch.graph
    if batch.per_graph or graph.node_to_graph is not None or len(batch.y) != graph.num_nodes:
        raise DataError(
            "only one graph with a target for each node can be divided among processes: use "
            "strategy ddp for graphs side by side and for mini-batches."
        )
    if nodes == "contiguous":
        part = contiguous(graph.num_nodes, processes)
    elif nodes == "metis":
        part = metis(graph, processes)
    else:
        raise DataError(f"nodes is {nodes!r}: it must be contiguous or metis.")
    sizes = torch.bincount(part, minlength=processes).tolist()
    if 0 in sizes:
        raise DataError(f"each process needs a node, and the division gives them {sizes} nodes.")
    return part


def shard_batch(
    batch: NodeBatch, process_of_node: Int[Tensor, "nodes"], group: dist.ProcessGroup | None = None
) -> NodeBatch:
    """This process's share of a full batch, divided as :func:`division` says, the same in all
    processes of the group.

    The group is by default all processes.
    """
    graph, rank = batch.graph, dist.get_rank(group)
    # Nodes are numbered anew, process by process, so that a number tells whose a node is.
    order = torch.argsort(process_of_node, stable=True)
    position, bounds = torch.argsort(order), pointers(process_of_node, dist.get_world_size(group))
    own = order[bounds[rank] : bounds[rank + 1]]
    # The edges into a node are where its sum is computed.
    into = process_of_node[graph.target] == rank
    shard = Shard(position[graph.edge_index[:, into]], bounds, own, group, **graph.of_edges(into))
    order = own if batch.order is None else batch.order[own]
    masks = (mask[own] for mask in batch.masks)
    return NodeBatch(batch.x[own], batch.y[own], shard, *masks, order=order)
