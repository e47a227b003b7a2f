"""Sums over edges and dot products on edges, without a tensor of edges x heads x channels.

The gradient of each is computed with the other, so both are differentiable to any order.
"""

# N nodes, E edges, H heads, C channels

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import reference
from gnn_depth.nn.functional.dropout import dropout
from gnn_depth.nn.functional.rules import bag_sum, differentiable
from gnn_depth.nn.functional.segments import at_source, chunks, segment_sum
from gnn_depth.nn.native import kernels
from gnn_depth.nn.shapes import EdgesHeads, NodesHeadsChannels, SourcesHeadsChannels


class _SpMM(Function):
    @staticmethod
    def forward(
        ctx: Any, weights_EH: Tensor, x_NHC: Tensor, graph: Graph, transposed: bool
    ) -> Tensor:
        ctx.graph, ctx.transposed, ctx.dtype = graph, transposed, x_NHC.dtype
        # With fixed weights the backward pass does not need x, so x is not kept.
        kept = x_NHC if ctx.needs_input_grad[0] else None
        ctx.save_for_backward(weights_EH, kept)
        if kernels.serve((x_NHC, weights_EH), graph):
            return kernels.sum_rows(weights_EH, x_NHC, graph, transposed)
        ptr, neighbour, order = graph.rows.csr(transposed)
        if order is not None:
            weights_EH = weights_EH.index_select(0, order)
        heads = zip(x_NHC.unbind(1), weights_EH.unbind(1), strict=True)
        return torch.stack([bag_sum(x, neighbour, ptr, weights) for x, weights in heads], 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_NHC,) = grads
        weights_EH, x_NHC = ctx.saved_tensors
        grad_weights = grad_x = None
        if ctx.needs_input_grad[0]:
            if ctx.transposed:
                products_EH = sddmm(x_NHC, grad_NHC, ctx.graph)
            else:
                products_EH = sddmm(grad_NHC, x_NHC, ctx.graph)
            grad_weights = products_EH.to(weights_EH.dtype)
        if ctx.needs_input_grad[1]:
            grad_x = spmm(weights_EH, grad_NHC, ctx.graph, not ctx.transposed).to(ctx.dtype)
        return grad_weights, grad_x, None, None


class _SDDMM(Function):
    @staticmethod
    def forward(ctx: Any, query_NHC: Tensor, key_NHC: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(query_NHC, key_NHC)
        if kernels.serve_on_cpu((query_NHC, key_NHC), graph):
            return kernels.dot_rows(query_NHC, key_NHC, graph)
        dtype = torch.promote_types(query_NHC.dtype, key_NHC.dtype)
        wide = torch.promote_types(dtype, torch.float32)
        products = []
        for target, source, _ in chunks(graph, key_NHC):
            query = query_NHC.index_select(0, target).to(wide)
            products.append((query * key_NHC.index_select(0, source)).sum(-1))
        return torch.cat(products).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_EH,) = grads
        query_NHC, key_NHC = ctx.saved_tensors
        grad_query = grad_key = None
        if ctx.needs_input_grad[0]:
            grad_query = spmm(grad_EH, key_NHC, ctx.graph, False).to(query_NHC.dtype)
        if ctx.needs_input_grad[1]:
            grad_key = spmm(grad_EH, query_NHC, ctx.graph, True).to(key_NHC.dtype)
        return grad_query, grad_key, None


#: spmm(weights_EH, x_NHC, graph, transposed): weighted sum over the edges into each node, or out
#: of it, if transposed.
spmm = differentiable(_SpMM, reference.spmm)
#: sddmm(query_NHC, key_NHC, graph): dot product of the target's query and the source's key on each
#: edge.
sddmm = differentiable(_SDDMM, reference.sddmm)


def aggregate(
    weights: Float[Tensor, "edges *heads"],
    x: Float[Tensor, "sources *heads channels"],
    graph: Graph,
) -> Float[Tensor, "nodes *heads channels"]:
    r"""Weighted sum over incoming edges, :math:`y_{ih} = \sum_{j \to i} w_{ijh} x_{jh}`.

    It is zero for a node without any. Tensors without a heads dimension have one head.
    """
    if x.dim() == 2:
        # Not [:, 0], whose backward pass writes a gradient of zeros and copies into it.
        return spmm(weights[:, None], x[:, None], graph, False).squeeze(1)
    return spmm(weights, x, graph, False)


def sum_messages(
    weights: Float[Tensor, "edges *heads"],
    x: Float[Tensor, "sources *heads channels"],
    graph: Graph,
) -> Float[Tensor, "nodes *heads channels"]:
    r"""Sum the messages :math:`w_{ij} x_j` into each node, without the entries that are dropped.

    It is :func:`aggregate` on a graph without ``message_dropout``.
    """
    if not graph.message_dropout:
        return aggregate(weights, x, graph)
    # Every entry is dropped by itself, so here the messages must exist: edges x channels.
    sent = at_source(x.flatten(1), graph).view(-1, *x.shape[1:])
    messages = drop_entries(weights[..., None] * sent, graph)
    return segment_sum(messages.flatten(1), graph).view(-1, *x.shape[1:])


def drop_entries(
    messages: Float[Tensor, "edges *channels"], graph: Graph
) -> Float[Tensor, "edges *channels"]:
    """Drop entries of messages with the graph's ``message_dropout``; scale up the others."""
    # A graph has this dropout in training alone, and a shard's edges keep their numbers.
    flat = dropout(messages.flatten(1), graph.message_dropout, True, graph.edge_numbers)
    return flat.view(messages.shape)


def edge_dot(
    query: NodesHeadsChannels,
    key: SourcesHeadsChannels,
    graph: Graph,
) -> EdgesHeads:
    r"""Dot-product scores :math:`s_{ijh} = q_{ih} \cdot k_{jh}` of the edges :math:`j \to i`."""
    return sddmm(query, key, graph)
