"""Every private part of PyTorch that this package uses, each with its reason.

tests/test_torch_internals.py fails where a new PyTorch changes one of them.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn


def embedding_bag(x: Tensor, index: Tensor, ptr: Tensor, weights: Tensor | None) -> Tensor:
    """Sum the weighted rows of each bag by the kernel of ``torch.nn.functional.embedding_bag``.

    The public function keeps values for a backward pass that we compute ourselves.
    """
    sums: Tensor = torch.ops.aten._embedding_bag_forward_only(
        x, index, ptr, False, 0, False, weights, True
    )[0]
    return sums


def reshaped(x: Tensor, shape: list[int]) -> Tensor:
    """Give a new tensor, which nothing else holds, another shape.

    The result of ``view`` is marked as a view, and autograd adds no gradient to a view in place.
    """
    out: Tensor = torch.ops.aten._unsafe_view(x, shape)
    return out


def onednn_linear(left: Tensor, right: Tensor, row: Tensor | None) -> Tensor:
    r"""Compute :math:`A B^\top` plus a row by oneDNN.

    Torch's public products choose MKL for float32, on processors where oneDNN is faster too.
    """
    out: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, row, "none", [], "")
    return out


def is_transforming() -> bool:
    """True inside a transform of ``torch.func``; ``Function.apply`` asks the same way."""
    return torch._C._are_functorch_transforms_active()


def outside_transforms() -> AbstractContextManager[object]:
    """Leave the transforms of ``torch.func`` for a while: tensors made meanwhile belong to none."""
    if not is_transforming():
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def is_wrapped(x: Tensor) -> bool:
    """True for a tensor that stands for another one inside a transform of ``torch.func``."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x)


def in_forward_mode() -> bool:
    """True inside a level of forward-mode differentiation: elsewhere unpacking a tangent fails."""
    return torch.autograd.forward_ad._current_level >= 0


def has_hooks(module: nn.Module) -> bool:
    """True if something is called before or after a module, forward or backward."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


@contextmanager
def without_hooks(module: nn.Module) -> Iterator[None]:
    """Take the hooks of a module and of all inside it away for a while."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    taken = []
    for each in module.modules():
        for kind in kinds:
            taken.append((each, kind, getattr(each, kind)))
            setattr(each, kind, OrderedDict())
    try:
        yield
    finally:
        for each, kind, hooks in taken:
            setattr(each, kind, hooks)


def version(x: Tensor) -> int | None:
    """The number of in-place operations of torch on a tensor; None in inference mode."""
    if x.is_inference():
        return None
    return x._version
