"""The two sparse products behind message passing; neither holds a tensor of edges x heads x channels.

The gradients of each are made of the other, so both differentiate to any order.
"""

# N nodes, E edges, H heads, C channels; R = N * H rows, Z = E * H non-zeros in the (E, H) order of the layers

import warnings
from typing import Any

import torch
from torch import Tensor

from gnn_depth.graph import EdgeRows

with warnings.catch_warnings():  # torch says once in a process that CSR is in beta; no user can act on that
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int), torch.zeros(0, dtype=torch.int), torch.zeros(0), (0, 0))


def spmm(weights_Z: Tensor, x_RC: Tensor, rows: EdgeRows, transposed: bool = False) -> Tensor:
    """Weighted sum over the edges into each row (out of it, if transposed)."""
    return _SpMM.apply(weights_Z, x_RC, rows, transposed)  # type: ignore[no-untyped-call]


def sddmm(query_RC: Tensor, key_RC: Tensor, rows: EdgeRows) -> Tensor:
    """Dot product of the target's query and the source's key on each edge."""
    return _SDDMM.apply(query_RC, key_RC, rows)  # type: ignore[no-untyped-call]


class _SpMM(torch.autograd.Function):
    @staticmethod
    def forward(weights_Z: Tensor, x_RC: Tensor, rows: EdgeRows, transposed: bool) -> Tensor:
        ptr, neighbour, order = rows.csr(transposed)
        weights_Z = weights_Z if order is None else weights_Z[order]
        dtype = torch.promote_types(weights_Z.dtype, x_RC.dtype)
        wide = _kernel_dtype(dtype)
        x_RC, weights_Z = x_RC.to(wide).contiguous(), weights_Z.to(wide).contiguous()
        return torch.embedding_bag(x_RC, neighbour, ptr, False, 0, False, weights_Z, True)[0].to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        weights_Z, x_RC, ctx.rows, ctx.transposed = inputs
        ctx.save_for_backward(weights_Z, x_RC)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_RC,) = grads
        weights_Z, x_RC = ctx.saved_tensors
        grad_weights = grad_x = None
        if ctx.needs_input_grad[0]:
            query, key = (x_RC, grad_RC) if ctx.transposed else (grad_RC, x_RC)
            grad_weights = sddmm(query, key, ctx.rows).to(weights_Z.dtype)
        if ctx.needs_input_grad[1]:
            grad_x = spmm(weights_Z, grad_RC, ctx.rows, not ctx.transposed).to(x_RC.dtype)
        return grad_weights, grad_x, None, None


class _SDDMM(torch.autograd.Function):
    @staticmethod
    def forward(query_RC: Tensor, key_RC: Tensor, rows: EdgeRows) -> Tensor:
        dtype = torch.promote_types(query_RC.dtype, key_RC.dtype)
        wide = _kernel_dtype(dtype)
        query_RC, key_RC = query_RC.to(wide).contiguous(), key_RC.to(wide).contiguous()
        pattern = torch.sparse_csr_tensor(
            rows.ptr, rows.source, query_RC.new_zeros(rows.source.numel()), (rows.num_rows, rows.num_rows)
        )
        products_Z = torch.sparse.sampled_addmm(pattern, query_RC, key_RC.t(), beta=0.0).values().to(dtype)
        return products_Z if rows.inverse is None else products_Z[rows.inverse]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        query_RC, key_RC, ctx.rows = inputs
        ctx.save_for_backward(query_RC, key_RC)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_Z,) = grads
        query_RC, key_RC = ctx.saved_tensors
        grad_query = grad_key = None
        if ctx.needs_input_grad[0]:
            grad_query = spmm(grad_Z, key_RC, ctx.rows).to(query_RC.dtype)
        if ctx.needs_input_grad[1]:
            grad_key = spmm(grad_Z, query_RC, ctx.rows, transposed=True).to(key_RC.dtype)
        return grad_query, grad_key, None


def _kernel_dtype(dtype: torch.dtype) -> torch.dtype:
    """The sparse kernels know float32 and float64; half precisions go through float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
