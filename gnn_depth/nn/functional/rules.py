"""Building blocks of the fast functions: a sum over bags of rows, and their further derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gnn_depth import torch_internals
from gnn_depth.nn.functional.plain import is_exporting


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


def with_jvp(
    function: type[Function],
    jvp: Callable[..., Tensor] | None = None,
    linear_in: int = 1,
    plain: Callable[..., Tensor] | None = None,
) -> Callable[..., Tensor]:
    """Call a function so that forward-mode differentiation works too, as ``torch.func.jvp`` needs.

    The compiler refuses functions with such a rule, and needs none. Transforms of ``torch.func``
    need a separate ``setup_context``, and torch then inspects the function's signature in every
    call, which is slow. So outside transforms ``forward`` does both.

    ``jvp`` is the forward derivative, which gets the saved tensors of the backward pass. Functions
    without one are linear in each of their first ``linear_in`` arguments, so the derivative is
    their sum with one argument after the other replaced by its tangent. The saved tensors are not
    kept after the call. ``plain`` is the function in PyTorch's own operators, for exported models.
    """

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        function.setup_context(ctx, inputs, output)
        if jvp is None:
            ctx.others = inputs[linear_in:]
            ctx.save_for_forward(*inputs[:linear_in])
        else:
            ctx.save_for_forward(*ctx.to_save)

    def by_linearity(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        inputs = ctx.saved_tensors
        total = None
        for position, tangent in enumerate(tangents[:linear_in]):
            if tangent is None:
                continue
            term = call(*inputs[:position], tangent, *inputs[position + 1 :], *ctx.others)
            if total is not None:
                term = total + term
            total = term
        return total

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = function.forward(*inputs)
        setup_context(ctx, inputs, output)
        return output

    rule = jvp or by_linearity
    transformed = _variant(function, jvp=rule, setup_context=setup_context)
    # A setup_context of torch's own tells Function.apply that forward takes the context.
    eager = _variant(function, jvp=rule, forward=forward, setup_context=Function.setup_context)

    def call(*args: Any) -> Tensor:
        chosen: Any = eager
        # An exported program holds operators alone, none of our functions.
        if plain is not None and is_exporting():
            return plain(*args)
        if torch.compiler.is_compiling():
            chosen = function
        elif torch_internals.is_transforming():
            chosen = transformed
        return chosen.apply(*args)

    return call


def _variant(function: type[Function], **methods: Callable[..., Any]) -> Any:
    """The function with other static methods."""
    static = {name: staticmethod(method) for name, method in methods.items()}
    return type(function.__name__, (function,), static)


def apart(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Make two tensors of one: the compiler cannot trace a function that is given one twice."""
    if first is second:
        return first.view_as(first), second
    return first, second


def by_kernel(
    plain: Callable[..., Tensor],
    forward: Callable[..., tuple[Any, ...]],
    backward: Callable[..., Sequence[Tensor | None]],
    count: int,
) -> Callable[..., Tensor]:
    """A function with a derivative, made of two kernels.

    Args:
        plain: The same function, composed of differentiable ones, for second derivatives.
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
                found = again(ctx, grads[0], plain, given, *ctx.others)
            else:
                found = backward(grads[0], *given, *ctx.others, *kept)
            return *found, *[None] * len(ctx.others)

    apply: Callable[..., Tensor] = Kernel.apply
    return apply


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
