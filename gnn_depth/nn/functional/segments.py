"""Operations between nodes and edges on small (edges x heads) tensors."""

# N nodes, E edges, H heads

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import reference
from gnn_depth.nn.functional.rules import bag_sum, differentiable
from gnn_depth.nn.native import kernels


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


def at_target(values: Float[Tensor, "nodes heads"], graph: Graph) -> Float[Tensor, "edges heads"]:
    """The value of every edge's target."""
    return _spread(values, graph, False)


def at_source(values: Float[Tensor, "sources heads"], graph: Graph) -> Float[Tensor, "edges heads"]:
    """The value of every edge's source."""
    return _spread(values, graph, True)


def segment_sum(values: Float[Tensor, "edges heads"], graph: Graph) -> Float[Tensor, "nodes heads"]:
    """Sum over incoming edges; zero for a node without any."""
    return _collect(values, graph, False)


def segment_max(values: Float[Tensor, "edges heads"], graph: Graph) -> Float[Tensor, "nodes heads"]:
    """Maximum over incoming edges, -inf without any; tied edges share the gradient evenly."""
    return _max(values, graph)


def segment_softmax(
    scores: Float[Tensor, "edges heads"], graph: Graph
) -> Float[Tensor, "edges heads"]:
    r"""Softmax over incoming edges.

    .. math:: \alpha_{ij} = e^{s_{ij}} / \sum_{k \to i} e^{s_{ik}}
    """
    return _softmax(scores, graph)


class _Spread(Function):
    """From nodes to the edges that end (or, from_source, start) there: the adjoint of _Collect."""

    @staticmethod
    def forward(values_NH: Tensor, graph: Graph, from_source: bool) -> Tensor:
        return reference.spread(values_NH, graph, from_source)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.graph, ctx.from_source = inputs
        ctx.save_for_backward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _collect(grads[0], ctx.graph, ctx.from_source), None, None


class _Collect(Function):
    """The sum over the edges that end (or, to_source, start) at each node."""

    @staticmethod
    def forward(values_EH: Tensor, graph: Graph, to_source: bool) -> Tensor:
        if kernels.serve(graph, values_EH):
            return kernels.sum_edges(values_EH, graph, to_source)
        rows = graph.rows(1)
        if to_source:
            return bag_sum(values_EH, rows.transposed_order, rows.transposed_ptr)
        return bag_sum(values_EH, graph.edge_ids, rows.ptr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.graph, ctx.to_source = inputs
        ctx.save_for_backward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _spread(grads[0], ctx.graph, ctx.to_source), None, None


class _Max(Function):
    @staticmethod
    def forward(values_EH: Tensor, graph: Graph) -> Tensor:
        return _largest(values_EH, graph)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values_EH, ctx.graph = inputs
        ctx.save_for_backward(values_EH.detach(), output.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        values_EH, largest_NH = ctx.saved_tensors
        fraction_EH = _fraction_of_maximum(values_EH, largest_NH, ctx.graph)
        return fraction_EH * at_target(grads[0], ctx.graph), None


class _Softmax(Function):
    @staticmethod
    def forward(scores_EH: Tensor, graph: Graph) -> Tensor:
        if kernels.serve(graph, scores_EH):
            return kernels.softmax_forward(scores_EH, graph)
        # Without the shift to a maximum of 0, large scores would overflow.
        shift_NH = _largest(scores_EH, graph)
        weights_EH = (scores_EH - shift_NH.index_select(0, graph.target)).exp_()
        total_NH = segment_sum(weights_EH, graph)
        return weights_EH.div_(total_NH.index_select(0, graph.target))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.graph = inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (alpha_EH,) = ctx.saved_tensors
        return _softmax_derivative(alpha_EH, grads[0], ctx.graph), None


def _largest(values_EH: Tensor, graph: Graph) -> Tensor:
    """The maximum over the edges of a node, -inf where there are none."""
    if kernels.serve(graph, values_EH):
        return kernels.max_edges(values_EH, graph)
    return torch.segment_reduce(values_EH.contiguous(), "max", offsets=graph.ptr)


def _fraction_of_maximum(values_EH: Tensor, largest_NH: Tensor, graph: Graph) -> Tensor:
    """1 / (number of tied edges) where an edge has its node's maximum, 0 elsewhere."""
    tied_EH = 1 - torch.sign(largest_NH.index_select(0, graph.target) - values_EH)
    return tied_EH / segment_sum(tied_EH, graph).index_select(0, graph.target)


def _softmax_derivative(alpha_EH: Tensor, direction_EH: Tensor, graph: Graph) -> Tensor:
    r"""The symmetric Jacobian of a softmax, times d: :math:`\alpha (d - \sum \alpha d)`."""
    # Within a second derivative the operations must be differentiable.
    if not torch.is_grad_enabled() and kernels.serve(graph, alpha_EH, direction_EH):
        return kernels.softmax_backward(alpha_EH, direction_EH, graph)
    weighted_EH = alpha_EH * direction_EH
    total_EH = at_target(segment_sum(weighted_EH, graph), graph)
    return torch.addcmul(weighted_EH, alpha_EH, total_EH, value=-1)


_spread = differentiable(_Spread, reference.spread)
_collect = differentiable(_Collect, reference.collect)
_max = differentiable(_Max, reference.largest)
_softmax = differentiable(_Softmax, reference.softmax)


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
    sums = x.new_zeros(graph.num_graphs, x.shape[1]).index_add(0, graph.node_to_graph, x)
    sizes = graph.graph_sizes.clamp_min(1)[:, None].to(x.dtype)
    return (sums / sizes).index_select(0, graph.node_to_graph)
