"""Linear maps of the rows of a matrix, and dot products of heads with vectors of theirs."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from gnn_depth import torch_internals
from gnn_depth.nn.functional import onednn

# Sums over fewer numbers than a vector register holds are computed one number at a time.
NARROW = 16


def linear(
    x: Float[Tensor, "*nodes inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, "outputs"] | None = None,
) -> Float[Tensor, "*nodes outputs"]:
    r"""The map :math:`y_i = W x_i + b`: ``torch.nn.functional.linear``, by the faster library."""
    served = onednn.FASTER and _is_cpu_matrix(x) and _is_cpu_matrix(weight)
    if served and not _is_transformed() and onednn.pays(x, weight):
        return matrix_product(x, weight, bias)
    return F.linear(x, weight, bias)


def matrix_product(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    r"""The product :math:`A B^\top` of two matrices, plus a row, differentiable to any order."""
    return _MatrixProduct.apply(left, right, row)  # type: ignore[no-untyped-call]


class _MatrixProduct(Function):
    # No setup_context: it costs as much as a small product, and only transforms of torch.func need
    # it, which never reach this function.
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, row: Tensor | None) -> Tensor:
        ctx.save_for_backward(left, right)
        if left.dtype == torch.float32 and onednn.pays(left, right):
            return onednn.multiply(left, right, row)
        return F.linear(left, right, row)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        left, right = ctx.saved_tensors
        grad_left = grad_right = grad_row = None
        if ctx.needs_input_grad[0]:
            grad_left = matrix_product(grad, right.t())
        if ctx.needs_input_grad[1]:
            grad_right = matrix_product(grad.t(), left.t())
        if ctx.needs_input_grad[2]:
            grad_row = grad.sum(0)
        return grad_left, grad_right, grad_row


def _is_cpu_matrix(x: Tensor) -> bool:
    """True for an ordinary float32 matrix in CPU memory, not a wrapper of one."""
    is_matrix = type(x) in (Tensor, nn.Parameter) and x.dim() == 2 and x.layout == torch.strided
    return is_matrix and x.device.type == "cpu" and x.dtype == torch.float32


def _is_transformed() -> bool:
    """True if torch transforms or traces the operation."""
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return True
    return torch_internals.is_transforming() or torch_internals.in_forward_mode()


def head_dots(
    x: Float[Tensor, "nodes heads channels"], *vectors: Float[Tensor, "heads channels"]
) -> tuple[Float[Tensor, "nodes heads"], ...]:
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
    return torch.split(linear(x.flatten(1), blocks), heads, 1)
