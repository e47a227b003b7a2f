"""Every private part of PyTorch that this package uses, each with its reason.

tests/test_torch_internals.py and tests/nn/test_traces.py fail where a new PyTorch changes one.
"""

from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

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


def is_traced() -> bool:
    """True while PyTorch compiles, exports, traces, transforms or only imitates a computation.

    It then has to see every operation: a kernel of ours would hide what it does.
    """
    # First what the compiler knows to be true: it cannot follow the other questions.
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        # Fake tensors and ``make_fx``.
        or torch._C._len_torch_dispatch_stack()
    )


def is_recorded() -> bool:
    """True while ``torch.export`` or ``torch.jit.trace`` records a model for other inputs."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return torch._C._get_tracing_state() is not None


def is_ordinary(x: Tensor) -> bool:
    """True for a dense tensor whose values a kernel can read from memory.

    A subclass may mean something else by them, a tensor of a transform or a fake one has none, and
    some tensors are the negative of their numbers, or zero without any.
    """
    if type(x) not in (Tensor, nn.Parameter):
        return False
    return torch._C._dispatch_keys(x).raw_repr() in _ordinary_keys(x.device.type)


@cache
def _ordinary_keys(device: str) -> set[int]:
    keys = set()
    for inference in (False, True):
        with torch.inference_mode(inference):
            keys.add(torch._C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return keys


def outside_traces(x: Tensor) -> AbstractContextManager[object]:
    """Leave all transforms and modes for a while, unless they made x: what is computed from it
    meanwhile is of use later."""
    stack = ExitStack()
    if torch.compiler.is_compiling() or not is_ordinary(x):
        return stack
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    from torch.utils._python_dispatch import _disable_current_modes

    stack.enter_context(temporarily_clear_interpreter_stack())
    stack.enter_context(_disable_current_modes())
    return stack


def has_hooks(module: nn.Module) -> bool:
    """True if something is called before or after a module, forward or backward."""
    return any(hooks_of(module))


def hooks_of(module: nn.Module) -> list[dict[int, Any]]:
    """The dictionaries of a module's hooks, by their handles: those of the forward pass, before and
    after it, then those of the backward pass."""
    return [
        module._forward_pre_hooks,
        module._forward_hooks,
        module._backward_pre_hooks,
        module._backward_hooks,
    ]


def version(x: Tensor) -> int | None:
    """The number of in-place operations of torch on a tensor; None in inference mode."""
    if x.is_inference():
        return None
    return x._version


def end_failed_capture(device: torch.device) -> None:
    """Let a GPU draw random numbers again after the recording of a CUDA graph has failed.

    Its generator would still take itself for that of the recording.
    """
    if device.type == "cuda":
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
