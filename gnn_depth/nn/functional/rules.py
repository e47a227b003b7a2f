"""Building blocks of the fast functions: a sum over bags of rows, and their further derivatives."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function

from gnn_depth import torch_internals
from gnn_depth.torch_internals import is_traced

Primitive: TypeAlias = Callable[..., Tensor]


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


def differentiable(function: type[Function], reference: Primitive) -> Primitive:
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


def linear(
    function: Primitive,
    adjoint: Primitive,
    reference: Primitive,
) -> Primitive:
    """A function that is linear in its first argument, with its derivative.

    Args:
        function: The function.
        adjoint: Takes the gradient of its output and its other arguments, and returns the gradient
            of the first one.
        reference: The same function in PyTorch's own operators, for models that are traced.
    """

    class Linear(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, *others: Any) -> Tensor:
            ctx.others = others
            return function(x, *others)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            return adjoint(grads[0], *ctx.others), *[None] * len(ctx.others)

    return differentiable(Linear, reference)


def by_kernel(
    composed: Primitive,
    serve: Callable[..., bool],
    forward: Callable[..., tuple[Any, ...]],
    backward: Callable[..., Any],
    count: int,
) -> Primitive:
    """A function that two kernels compute, with its derivative, where they can.

    Args:
        composed: The same function, composed of differentiable ones, where there is no kernel and
            for second derivatives.
        serve: Takes the first arguments as a tuple and then the others, and says whether the
            kernels compute with them.
        forward: Returns the output, and the tensors that the backward pass needs besides the given
            ones.
        backward: Takes the gradient, the arguments of ``forward`` and what that kept, and returns
            the gradients of the given tensors, or the only one.
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
            nothing = [None] * len(ctx.others)
            if not torch.is_grad_enabled() and torch_internals.is_ordinary(grads[0]):
                found = backward(grads[0], *given, *ctx.others, *kept)
                if isinstance(found, Tensor):  # the only one
                    found = (found,)
                return *found, *nothing
            # A kernel's gradients have no graph, and it reads no gradients of a transform. So for
            # second derivatives, and for many gradients at once, all is computed again, by other
            # names of the tensors: the gradient of one must not run through another.
            inputs: list[Tensor | None] = []
            wanted: dict[int, Tensor] = {}  # by their position among the inputs
            with torch.enable_grad():
                for position, value in enumerate(given):
                    if value is not None:
                        value = value.view_as(value)
                        if ctx.needs_input_grad[position]:
                            wanted[position] = value
                    inputs.append(value)
                out = composed(*inputs, *ctx.others)
            gradients = torch.autograd.grad(
                out, list(wanted.values()), grads[0], create_graph=True, allow_unused=True
            )
            by_position = dict(zip(wanted, gradients, strict=True))
            return *map(by_position.get, range(count)), *nothing

    def call(*args: Any) -> Tensor:
        if serve(args[:count], *args[count:]):
            return Kernel.apply(*args)  # type: ignore[no-untyped-call]
        return composed(*args)

    return call
