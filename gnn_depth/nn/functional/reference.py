"""The reference form of the functions, for models that PyTorch traces or transforms.

They take any order of edges, keep a number for each edge, head and channel, and need no operator
but PyTorch's own. Every function here has the arguments of the fast one that it stands for.
"""

# N nodes, E edges, H heads, C channels

import torch.nn.functional as F
from torch import Tensor

from gnn_depth.graph import Graph


def spread(values_NH: Tensor, graph: Graph, from_source: bool) -> Tensor:
    """From nodes to the edges that end (or, from_source, start) there."""
    node = graph.source if from_source else graph.target
    return values_NH.index_select(0, node)


def collect(values_EH: Tensor, graph: Graph, to_source: bool) -> Tensor:
    """The sum over the edges that end (or, to_source, start) at each node."""
    node = graph.source if to_source else graph.target
    sums = values_EH.new_zeros(graph.num_nodes, *values_EH.shape[1:])
    return sums.index_add(0, node, values_EH)


def largest(values_EH: Tensor, graph: Graph) -> Tensor:
    """The maximum over the edges into each node, -inf where there are none."""
    lowest = values_EH.new_full((graph.num_nodes, *values_EH.shape[1:]), float("-inf"))
    index = graph.target[:, None].expand_as(values_EH)
    return lowest.scatter_reduce(0, index, values_EH, "amax")


def spmm(weights_EH: Tensor, x_NHC: Tensor, graph: Graph, transposed: bool) -> Tensor:
    """The weighted sum over the edges into each node, or out of it, if transposed."""
    messages_EHC = weights_EH[..., None] * spread(x_NHC, graph, not transposed)
    return collect(messages_EHC, graph, transposed)


def sddmm(query_NHC: Tensor, key_NHC: Tensor, graph: Graph) -> Tensor:
    """The product of the target's query and the source's key on each edge."""
    query_EHC = spread(query_NHC, graph, False)
    return (query_EHC * spread(key_NHC, graph, True)).sum(-1)


def additive(
    x_dst_NHC: Tensor, x_src_NHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
) -> Tensor:
    """Additive attention scores."""
    pairs_EHC = spread(x_dst_NHC, graph, False) + spread(x_src_NHC, graph, True)
    return (F.leaky_relu(pairs_EHC, slope) * att_HC).sum(-1)
