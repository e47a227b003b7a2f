"""Reductions over the edges into each node, of tensors as small as edges x heads."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph


def segment_sum(values: Float[Tensor, "edges heads"], graph: Graph) -> Float[Tensor, "nodes heads"]:
    """Sum over incoming edges; zero for a node without any."""
    return values.new_zeros(graph.num_nodes, values.shape[1]).index_add(0, graph.target, values)


def segment_max(values: Float[Tensor, "edges heads"], graph: Graph) -> Float[Tensor, "nodes heads"]:
    """Maximum over incoming edges, -inf for a node without any; tied edges share the gradient evenly."""
    lowest = values.new_full((graph.num_nodes, values.shape[1]), -torch.inf)
    index = graph.target[:, None].expand_as(values)
    return lowest.scatter_reduce(0, index, values, "amax", include_self=False)


def segment_softmax(scores: Float[Tensor, "edges heads"], graph: Graph) -> Float[Tensor, "edges heads"]:
    r"""Softmax over incoming edges, :math:`\alpha_{ij} = e^{s_{ij}} / \sum_{k \to i} e^{s_{ik}}`."""
    # The shift cancels in the quotient, so it needs no gradient.
    shift = segment_max(scores.detach(), graph)
    weights = (scores - shift.index_select(0, graph.target)).exp()
    return weights / segment_sum(weights, graph).index_select(0, graph.target)


def widen(x: Tensor) -> Tensor:
    """Float32 at least: squares leave the range of 16 bits soon, and small ones vanish."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def graph_mean(x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "#nodes channels"]:
    """Mean over the nodes of each graph, repeated for its nodes (one row where there is one graph)."""
    if graph.node_to_graph is None:
        return x.mean(0, keepdim=True)
    sums = x.new_zeros(graph.num_graphs, x.shape[1]).index_add(0, graph.node_to_graph, x)
    counts = torch.bincount(graph.node_to_graph, minlength=graph.num_graphs).clamp_min(1)
    return (sums / counts[:, None].to(x.dtype)).index_select(0, graph.node_to_graph)
