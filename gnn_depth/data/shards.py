"""Divide a full batch among processes: each keeps some nodes and the edges into them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.graph import Graph
from gnn_depth.shard import Shard


def contiguous(num_nodes: int, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node: chunks of equal size, in the order of the nodes."""
    return torch.arange(num_nodes).mul_(processes).div_(max(num_nodes, 1), rounding_mode="floor")


def metis(graph: Graph, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node by METIS, which cuts few edges between chunks of about equal size.

    Karypis & Kumar, *A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs*, SIAM Journal on
    Scientific Computing 1998.

    Raises:
        DataError: The package pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise DataError("metis needs the package pymetis: pip install 'gnn-depth[metis]'.") from None
    proper = graph.source != graph.target
    ends = torch.stack([graph.source[proper], graph.target[proper]])
    both = torch.cat([ends, ends.flip(0)], 1)  # METIS takes undirected graphs
    key = torch.unique(both[0] * graph.num_nodes + both[1])
    first = torch.searchsorted(key, torch.arange(graph.num_nodes + 1) * graph.num_nodes)
    adjacency = pymetis.CSRAdjacency(first.tolist(), (key % graph.num_nodes).tolist())
    _, chunk = pymetis.part_graph(processes, adjacency=adjacency)
    return torch.tensor(chunk)


def division(nodes: str, graph: Graph, processes: int) -> Int[Tensor, "nodes"]:
    """The process of each node: ``contiguous`` chunks in the order of the nodes, ``metis``, or as a NumPy file has it.

    Raises:
        DataError: There is no such file, or pymetis is not installed.
    """
    if nodes == "contiguous":
        return contiguous(graph.num_nodes, processes)
    if nodes == "metis":
        return metis(graph, processes)
    if not Path(nodes).is_file():
        raise DataError(
            f"nodes is {nodes!r}: it must be contiguous, metis, or a .npy file with the process of each node."
        )
    return torch.from_numpy(np.load(nodes, allow_pickle=False).astype(np.int64))


def check_division(process_of_node: Int[Tensor, "_"], num_nodes: int, processes: int) -> None:
    """Refuse a division in which a node has no process, or a process no node."""
    sizes = torch.bincount(process_of_node.clamp_min(0), minlength=processes)
    if process_of_node.shape != (num_nodes,) or process_of_node.min() < 0 or len(sizes) > processes or 0 in sizes:
        raise DataError(
            f"each of the {num_nodes} nodes needs a process from 0 to {processes - 1}, and each process a node. The "
            f"division has shape {tuple(process_of_node.shape)} and gives the processes {sizes.tolist()} nodes."
        )


def check_one_graph(batch: NodeBatch) -> None:
    """Refuse a batch that is not one graph with a target for each node."""
    if batch.per_graph or batch.graph.node_to_graph is not None or len(batch.y) != batch.graph.num_nodes:
        raise DataError(
            "only one graph with a target for each node can be divided among processes: use strategy ddp for graphs "
            "side by side and for mini-batches."
        )


def shard_batch(batch: NodeBatch, process_of_node: Int[Tensor, "nodes"], group: Any = None) -> NodeBatch:
    """This process's share of a full batch, the same in all processes of the group (by default all).

    Raises:
        DataError: Targets are of graphs, or a node has no process, or a process no node.
    """
    graph, rank, processes = batch.graph, dist.get_rank(group), dist.get_world_size(group)
    check_one_graph(batch)
    check_division(process_of_node, graph.num_nodes, processes)
    order = torch.argsort(process_of_node, stable=True)
    bounds = torch.searchsorted(process_of_node[order], torch.arange(processes + 1))
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order))
    own = order[bounds[rank] : bounds[rank + 1]]
    into = process_of_node[graph.target] == rank
    edges = position[torch.stack([graph.source[into], graph.target[into]])]
    shard = Shard(edges, bounds, own, group, **graph.of_edges(into))
    return NodeBatch(batch.x[own], batch.y[own], shard, *(mask[own] for mask in batch.masks))
