"""Operations between nodes and edges on small (edges x heads) tensors."""

# N nodes, E edges, H heads

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch_geometric.utils import scatter

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import reference
from gnn_depth.nn.functional.rules import Primitive, bag_sum, by_kernel, linear
from gnn_depth.nn.native import kernels
from gnn_depth.nn.shapes import EdgesHeads, HeadsChannels, NodesHeads, NodesHeadsChannels

# Sums over fewer numbers than a vector register holds are computed one number at a time.
NARROW = 16
#: Numbers of a tensor of edges x heads x channels that exist at a time, by the type of the device.
CHUNK = {"cpu": 2**18, "cuda": 2**26}


def targets(x: Float[Tensor, "sources *rest"], graph: Graph) -> Float[Tensor, "nodes *rest"]:
    """The rows of the targets among those of the sources: on a block the first, otherwise all."""
    # Decided by the graph, not as in first_rows: an exported model knows no numbers of rows.
    if graph.num_sources == graph.num_nodes:
        return x
    return x[: graph.num_nodes]


def first_rows(x: Float[Tensor, "rows *rest"], count: int) -> Float[Tensor, "_ *rest"]:
    """The first rows of a tensor; the tensor itself if it has no more rows."""
    # A slice of everything would allocate a tensor of zeros in the backward pass.
    if x.shape[0] <= count:
        return x
    return x[:count]


def padded(x: Float[Tensor, "rows channels"], width: int) -> Float[Tensor, "rows width"]:
    """The rows with zeros in further columns, up to this width."""
    missing = width - x.shape[1]
    if not missing:
        return x
    return F.pad(x, (0, missing))


def plus(x: Tensor, term: Tensor | None) -> Tensor:
    """The sum with a term that may be missing, such as a bias."""
    if term is None:
        return x
    return x + term


def at_target(values: NodesHeads, graph: Graph) -> EdgesHeads:
    """The value of every edge's target."""
    return _spread(values, graph, False)


def at_source(values: Float[Tensor, "sources heads"], graph: Graph) -> EdgesHeads:
    """The value of every edge's source."""
    return _spread(values, graph, True)


def segment_sum(values: EdgesHeads, graph: Graph) -> NodesHeads:
    """Sum over incoming edges; zero for a node without any."""
    return _collect(values, graph, False)


def segment_max(values: EdgesHeads, graph: Graph) -> NodesHeads:
    """Maximum over incoming edges, -inf without any; tied edges share the gradient evenly."""
    return _max(values, graph)


def segment_softmax(scores: EdgesHeads, graph: Graph) -> EdgesHeads:
    r"""Softmax over incoming edges.

    .. math:: \alpha_{ij} = e^{s_{ij}} / \sum_{k \to i} e^{s_{ik}}
    """
    return _softmax(scores, graph)


def chunks(graph: Graph, features: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Targets, sources and numbers of some edges at a time: where edges x heads x channels have to
    exist, they fit into a core's cache, or into a part of a GPU's memory."""
    numbers = CHUNK.get(features.device.type, CHUNK["cpu"])
    size = max(1, numbers // max(1, features.shape[1:].numel()))
    for first in range(0, max(1, graph.num_edges), size):
        edges = slice(first, first + size)
        yield graph.target[edges], graph.source[edges], edges


def _sums(values_EH: Tensor, graph: Graph, to_source: bool) -> Tensor:
    if kernels.serve_on_cpu([values_EH], graph):
        return kernels.sum_edges(values_EH, graph, to_source)
    rows = graph.rows
    if to_source:
        return bag_sum(values_EH, rows.transposed_order, rows.transposed_ptr)
    return bag_sum(values_EH, graph.edge_ids, rows.ptr)


#: _spread(values_NH, graph, from_source): from nodes to the edges that end (or start) there, and
#: _collect(values_EH, graph, to_source): the sum over these edges.
_spread: Primitive = linear(reference.spread, lambda *given: _collect(*given), reference.spread)
_collect: Primitive = linear(_sums, lambda *given: _spread(*given), reference.collect)


def _softmax_composed(scores_EH: Tensor, graph: Graph) -> Tensor:
    # Without the shift to a maximum of 0, large scores would overflow. It changes nothing, so it
    # needs no derivative.
    shift_NH = segment_max(scores_EH.detach(), graph)
    alpha_EH = (scores_EH - at_target(shift_NH, graph)).exp()
    return alpha_EH / at_target(segment_sum(alpha_EH, graph), graph)


def _share_among_tied(grad_NH: Tensor, values_EH: Tensor, graph: Graph, most_NH: Tensor) -> Tensor:
    # 1 / (number of tied edges) where an edge has its node's maximum, 0 elsewhere.
    tied_EH = 1 - torch.sign(at_target(most_NH, graph) - values_EH)
    return tied_EH / at_target(segment_sum(tied_EH, graph), graph) * at_target(grad_NH, graph)


_max = by_kernel(reference.largest, kernels.serve_on_cpu, kernels.max_edges, _share_among_tied, 1)
_softmax = by_kernel(
    _softmax_composed,
    kernels.serve_on_cpu,
    kernels.softmax_forward,
    kernels.softmax_backward,
    1,
)


def widen(x: Tensor) -> Tensor:
    """Convert 16-bit floats to float32: squares easily overflow or underflow in 16 bits."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x


def graph_mean(
    x: Float[Tensor, "nodes channels"], graph: Graph
) -> Float[Tensor, "#nodes channels"]:
    """Mean over the nodes of each graph, repeated for its nodes; one row for a single graph."""
    if graph.is_shard:
        return graph.all_reduce(x.sum(0, keepdim=True)) / graph.total_nodes
    if graph.node_to_graph is None:
        return x.mean(0, keepdim=True)
    means = scatter(x, graph.node_to_graph, 0, graph.num_graphs, "mean")
    return means.index_select(0, graph.node_to_graph)


def head_dots(x: NodesHeadsChannels, *vectors: HeadsChannels) -> tuple[NodesHeads, ...]:
    r"""The products :math:`y_{ih} = a_h \cdot x_{ih}` for each of several vectors a.

    Narrow heads use one matrix product with the vectors on a block diagonal, which is faster.
    There, a single infinite entry makes all products of its node NaN.
    """
    heads, channels = x.shape[1:]
    # Of two types, the sum is in the wider one, and the matrix product takes one only.
    has_one_type = all(a.dtype == x.dtype for a in vectors)
    if channels >= NARROW or not has_one_type:
        return tuple((x * a).sum(-1) for a in vectors)
    diagonal = torch.eye(heads, dtype=x.dtype, device=x.device)[:, :, None]
    blocks = torch.cat([(diagonal * a).flatten(1) for a in vectors])
    return torch.split(F.linear(x.flatten(1), blocks), heads, 1)
