"""Building blocks of the fast functions: a sum over bags of rows, and their further derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gnn_depth import torch_internals
from gnn_depth.torch_internals import is_traced


def bag_sum(x: Tensor, index: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Sum the weighted rows of each bag.

    .. math:: y_b = \sum_{k = ptr_b}^{ptr_{b+1} - 1} w_k x_{index_k}

    The kernel supports float32 and float64; half precisions go through float32. Index and pointers
    have one integer type, and weights are 1 by default.
    """
    dtype = x.dtype
    if weights is not None:
        dtype = torch.promote_types(dtype, weights.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    if weights is not None:
        weights = weights.to(wide).contiguous()
    # One pass over memory: gathering rows and adding them up would write edges x channels first.
    return torch_internals.embedding_bag(x.to(wide).contiguous(), index, ptr, weights).to(dtype)


def differentiable(
    function: type[Function], reference: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """Call an autograd function in the fastest way that the moment allows.

    Args:
        function: The function.
        reference: The same function in PyTorch's own operators, for models that are traced.
    """

    def call(*args: Any) -> Tensor:
        if is_traced():
            return reference(*args)
        return function.apply(*args)  # type: ignore[no-untyped-call]

    return call


def by_kernel(
    composed: Callable[..., Tensor],
    serve: Callable[..., bool],
    forward: Callable[..., tuple[Any, ...]],
    backward: Callable[..., Sequence[Tensor | None]],
    count: int,
) -> Callable[..., Tensor]:
    """A function that two kernels compute, with its derivative, where they can.

    Args:
        composed: The same function, composed of differentiable ones, where there is no kernel and
            for second derivatives.
        serve: Takes the first arguments as a tuple and then the others, and says whether the
            kernels compute with them.
        forward: Returns the output, and the tensors that the backward pass needs besides the given
            ones.
        backward: Takes the gradient, the arguments of ``forward`` and what that kept, and returns
            the gradients of the given tensors.
        count: Number of first arguments that are tensors, or None, and have gradients.
    """

    class Kernel(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Tensor:
            out, *kept = forward(*args)
            # Kept by torch, which frees them after the pass and notices if they are changed.
            ctx.save_for_backward(*args[:count], *kept)
            ctx.others = args[count:]
            return out

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            saved = ctx.saved_tensors  # may be read only once
            given, kept = saved[:count], saved[count:]
            found: Sequence[Tensor | None]
            # A kernel's gradients have no graph, so for second derivatives all is computed again.
            if torch.is_grad_enabled():
                found = again(ctx, grads[0], composed, given, *ctx.others)
            else:
                found = backward(grads[0], *given, *ctx.others, *kept)
                if isinstance(found, Tensor):  # the only one
                    found = (found,)
            return *found, *[None] * len(ctx.others)

    def call(*args: Any) -> Tensor:
        if serve(args[:count], *args[count:]):
            return Kernel.apply(*args)  # type: ignore[no-untyped-call]
        return composed(*args)

    return call


def again(
    ctx: Any,
    grad: Tensor,
    function: Callable[..., Tensor],
    given: Sequence[Tensor | None],
    *others: Any,
) -> list[Tensor | None]:
    """The gradients of a kernel's inputs, with derivatives of their own.

    Args:
        ctx: Tells which of the first inputs need a gradient.
        grad: The gradient of the output.
        function: The same function, composed of differentiable ones.
        given: Its first arguments, the tensors that were given.
        *others: Its other arguments.
    """
    # Other names of the tensors: the gradient of one must not run through another.
    inputs: list[Tensor | None] = []
    wanted: dict[int, Tensor] = {}  # by their position among the inputs
    for position, value in enumerate(given):
        if value is not None:
            value = value.view_as(value)
            if ctx.needs_input_grad[position]:
                wanted[position] = value
        inputs.append(value)
    out = function(*inputs, *others)
    found = torch.autograd.grad(
        out, list(wanted.values()), grad, create_graph=True, allow_unused=True
    )
    gradients: list[Tensor | None] = [None] * len(inputs)
    for position, gradient in zip(wanted, found, strict=True):
        gradients[position] = gradient
    return gradients
