"""Building blocks of the fast functions: a sum over bags of rows, and forward-mode derivatives."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def bag_sum(x: Tensor, index: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Weighted sum of the rows of each bag, :math:`y_b = \sum_{k = ptr_b}^{ptr_{b+1} - 1} w_k
    x_{index_k}`.

    The kernel of ``torch.nn.functional.embedding_bag``, without the values that its backward pass
    would need. It supports float32 and float64; half precisions go through float32. Index and
    pointers have one integer type, and weights are 1 by default.
    """
    dtype = x.dtype if weights is None else torch.promote_types(x.dtype, weights.dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weights = None if weights is None else weights.to(wide).contiguous()
    bags = torch.ops.aten._embedding_bag_forward_only(
        x.to(wide).contiguous(), index, ptr, False, 0, False, weights, True
    )
    return bags[0].to(dtype)


def with_jvp(
    function: type[Function], jvp: Callable[..., Tensor] | None = None, linear_in: int = 1
) -> Callable[..., Tensor]:
    """Call a function so that forward-mode differentiation works too, as ``torch.func.jvp`` needs.

    The compiler refuses functions with such a rule, and needs none. Transforms of ``torch.func``
    need a separate ``setup_context``, and torch then inspects the function's signature in every
    call, which is slow. So outside transforms ``forward`` does both.

    ``jvp`` is the forward derivative, which gets the saved tensors of the backward pass. Functions
    without one are linear in each of their first ``linear_in`` arguments, so the derivative is
    their sum with one argument after the other replaced by its tangent. The saved tensors are not
    kept after the call.
    """

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        function.setup_context(ctx, inputs, output)
        if jvp is None:
            ctx.others = inputs[linear_in:]
            ctx.save_for_forward(*inputs[:linear_in])
        else:
            ctx.save_for_forward(*ctx.to_save)

    def by_linearity(ctx: Any, *tangents: Tensor | None) -> Tensor:
        given = ctx.saved_tensors
        moved = [
            call(*given[:place], tangent, *given[place + 1 :], *ctx.others)
            for place, tangent in enumerate(tangents[:linear_in])
            if tangent is not None
        ]
        return reduce(torch.add, moved)

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = function.forward(*inputs)
        setup_context(ctx, inputs, output)
        return output

    transformed = _variant(function, jvp=jvp or by_linearity, setup_context=setup_context)
    eager = _variant(
        function, jvp=jvp or by_linearity, forward=forward, setup_context=Function.setup_context
    )

    def call(*args: Any) -> Tensor:
        chosen: Any = eager
        if torch.compiler.is_compiling():
            chosen = function
        elif (
            torch._C._are_functorch_transforms_active()
        ):  # what Function.apply asks too; it has no public name
            chosen = transformed
        return chosen.apply(*args)

    return call


def _variant(function: type[Function], **methods: Callable[..., Any]) -> Any:
    """The function with other static methods."""
    return type(
        function.__name__,
        (function,),
        {name: staticmethod(method) for name, method in methods.items()},
    )


def apart(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Make two tensors of one used at both ends, because the compiler cannot trace a function given
    one twice."""
    return (first.view_as(first) if first is second else first), second
