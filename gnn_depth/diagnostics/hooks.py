"""Hooks on a model's layers: select submodules by name, and collect their inputs and the inputs'
gradients."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gnn_depth.nn.parts import Layer
from gnn_depth.registry import hint

MAX_NAMES = 20  # listed in an error


def select(root: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The submodules whose names match a pattern, in order; a module with several names appears
    under each.

    Args:
        root: The module to search.
        pattern: A dotted name in which ``*``, ``?`` and ``[0-9]`` match within one part:
            ``stack.blocks.*.layer`` matches the layers, but not their submodules.

    Raises:
        ValueError: No submodule matches.
    """
    parts = pattern.split(".")
    found = {}
    for name, module in root.named_modules(remove_duplicate=False):
        names = name.split(".")
        if name and len(names) == len(parts) and all(map(fnmatchcase, names, parts)):
            found[name] = module
    if not found:
        patterns = _patterns(root)
        shown = sorted(patterns, key=lambda name: name.count("."))[:MAX_NAMES]
        more = f", and {len(patterns) - len(shown)} more" if len(patterns) > len(shown) else ""
        raise ValueError(
            f"no module of {type(root).__name__} is called {pattern!r}.{hint(pattern, patterns)} "
            f"Available: {', '.join(shown) or 'none'}{more}."
        )
    return found


def _patterns(root: nn.Module) -> list[str]:
    """The names of all submodules, with a star for each number."""
    names = dict(root.named_modules(remove_duplicate=False))
    return list(dict.fromkeys(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) for name in names if name))


def layers_of(root: nn.Module, patterns: str | Sequence[str] | None) -> dict[str, nn.Module]:
    """The layers that patterns of :func:`select` match, by name.

    Without patterns they are the outermost message-passing layers, ours and PyTorch Geometric's.

    Raises:
        ValueError: There are none.
    """
    found: dict[str, nn.Module] = {}
    if patterns is not None:
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            found |= select(root, pattern)
        return found
    for name, module in root.named_modules(remove_duplicate=False):
        is_layer = isinstance(module, Layer) or (
            hasattr(module, "propagate") and hasattr(module, "message")
        )
        if name and is_layer and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    if not found:
        raise ValueError(
            f"{type(root).__name__} has no message-passing layers: say which modules are its "
            "layers, such as "
            f"layers={next(iter(_patterns(root)), 'NAME')!r}."
        )
    return found


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, without the wrappers of ``torch.compile`` and ``DistributedDataParallel``.

    Raises:
        ValueError: It is a ``DataParallel``, which copies its layers in every pass.
    """
    if isinstance(model, nn.DataParallel):
        raise ValueError(
            "DataParallel copies its layers in every pass: use DistributedDataParallel, or its "
            "module."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return unwrapped(model.module)
    return unwrapped(model._orig_mod) if hasattr(model, "_orig_mod") else model  # type: ignore[arg-type]


class uncompiled:  # noqa: N801 - a context manager
    """Run compiled models uncompiled inside the context: a compiled graph would skip hooks, or
    break at them.

    Contexts may end in any order; the last one that ends restores the former stance.
    """

    _count: ClassVar[int] = 0
    _stance: ClassVar[Any] = None

    def __enter__(self) -> None:
        uncompiled._count += 1
        if (
            uncompiled._stance is None and "torch._dynamo" in sys.modules
        ):  # else nothing is compiled
            uncompiled._stance = torch.compiler.set_stance("force_eager")

    def __exit__(self, *_: object) -> None:
        uncompiled._count -= 1
        if not uncompiled._count and uncompiled._stance is not None:
            uncompiled._stance.__exit__(None, None, None)
            uncompiled._stance = None


def entrances(root: nn.Module, names: Iterable[str]) -> list[nn.Module]:
    """The modules whose input is each layer's hidden state: usually the layers themselves.

    A block of ``DeepGNN`` takes the place of its layer, because it drops features of the hidden
    state before the layer reads it.
    """
    modules = dict(root.named_modules(remove_duplicate=False))
    found = []
    for name in names:
        around = modules.get(name.removesuffix(".layer"))
        is_block = name.endswith(".layer") and getattr(around, "takes_hidden_state", False)
        found.append(around if is_block and around is not None else modules[name])
    return found


def numbers(names: Sequence[str]) -> list[int]:
    """The number of each layer: one plus the last index in its name; if these do not increase, 1,
    2, ..."""
    found = [re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name) for name in names]
    places = [int(of_name[-1]) + 1 for of_name in found if of_name]
    in_order = len(places) == len(names) and all(low < high for low, high in pairwise(places))
    return places if in_order else list(range(1, len(names) + 1))


class InputHooks:
    """Hooks that compute statistics of each module's input, and of the gradient of the loss with
    respect to it.

    A module's input is its first argument, or the first tensor of a tuple. The gradient is the
    total one, through every use of that tensor. Calls in the backward pass are ignored: they only
    recompute a state.

    A module may be listed at several places; its calls in a pass belong to them in order. Further
    calls start again from its first place or, with ``repeats``, belong to new places, shifted by
    the number of modules.

    Args:
        modules: The module at each place.
        of_state: Computes the statistics of a state, given all arguments of the call; None to
            ignore states.
        of_gradient: Computes the statistics of a gradient; None to ignore gradients.
        repeats: True if further calls of a module belong to new places.
        root: Each of its forward passes is a pass, and calls count only while it is in training
            mode; None if they always do.

    Attributes:
        states: The results at each place that had a floating-point tensor.
        called: The places that were called.
        unreadable: The called places whose input was not a floating-point tensor.
        half: True if a gradient was float16.
        paused: True while a measurement runs a forward pass of its own, which the hooks ignore.
    """

    paused: ClassVar[bool] = False

    def __init__(
        self,
        modules: Sequence[nn.Module],
        of_state: Callable[[Tensor, tuple[Any, ...], dict[str, Any]], Any] | None = None,
        of_gradient: Callable[[Tensor], Any] | None = None,
        repeats: bool = False,
        root: nn.Module | None = None,
    ) -> None:
        self._of_state, self._of_gradient, self._repeats, self._root = (
            of_state,
            of_gradient,
            repeats,
            root,
        )
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(modules):
            self._places.setdefault(module, []).append(place)
        self._count = len(modules)
        self._attached = ExitStack()
        self._on_leaves: list[RemovableHandle] = []
        self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copying or saving a module with its hooks gives hooks that record nothing."""
        return InputHooks, ((),)

    def clear(self) -> None:
        """Forget all results."""
        # New lists: an autograd graph that is kept beyond its step still appends to the lists of
        # that step.
        self.states: dict[int, list[Any]] = {}
        self._slots: dict[
            int, list[list[Any]]
        ] = {}  # for each call: the shape of its input, then the results
        self.called: set[int] = set()
        self.unreadable: set[int] = set()
        self.half = False

    @property
    def gradients(self) -> dict[int, list[Any]]:
        """The results at each place whose input takes part in autograd, one for each gradient that
        has arrived."""
        return {
            place: [one for slot in slots for one in slot[1:]]
            for place, slots in self._slots.items()
        }

    @property
    def without(self) -> dict[int, list[torch.Size]]:
        """The shapes, at each place, of inputs without a gradient so far, or that the loss does not
        depend on."""
        return {
            place: [slot[0] for slot in slots if len(slot) == 1]
            for place, slots in self._slots.items()
        }

    def attach(self) -> None:
        """Put hooks on the modules before a forward pass; until they are removed, compiled models
        run uncompiled."""
        self.remove()
        handles = [
            module.register_forward_pre_hook(self._enter, with_kwargs=True)
            for module in self._places
        ]
        if self._root is not None:
            handles.append(self._root.register_forward_pre_hook(self.begin_pass))
        for handle in handles:
            self._attached.callback(handle.remove)
        self._attached.enter_context(uncompiled())

    def begin_pass(self, *_: object) -> None:
        """Restart the count of each module's calls, and remove hooks from inputs that outlive a
        pass."""
        if in_backward():  # activation checkpointing recomputes a pass: not a new one
            return
        self._calls, self._over = dict.fromkeys(self._places, 0), False
        for handle in self._on_leaves:
            handle.remove()
        self._on_leaves = []

    def end_pass(self) -> None:
        """End the pass, so that the next call begins a new one."""
        self._over = True

    def remove(self) -> None:
        """Remove all hooks."""
        self._attached.close()
        self.begin_pass()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if InputHooks.paused or in_backward() or not (self._root is None or self._root.training):
            return
        if module not in self._places:  # a copy
            return
        if self._over:
            self.begin_pass()
        places = self._places[module]
        again, number = divmod(self._calls[module], len(places))
        self._calls[module] += 1
        place = places[number] + (again * self._count if self._repeats else 0)
        self.called.add(place)
        x = first_tensor(args or named.values())
        if x is None:
            self.unreadable.add(place)
        elif self._of_state is not None:
            state = x.detach() if isinstance(x, Tensor) else x.dense()
            self.states.setdefault(place, []).append(self._of_state(state, args, named))
        if isinstance(x, Tensor) and x.requires_grad and self._of_gradient is not None:
            slot: list[Any] = [x.shape]
            self._slots.setdefault(place, []).append(slot)
            handle = x.register_hook(partial(self._leave, slot))  # type: ignore[no-untyped-call]
            if x.is_leaf:  # other tensors are freed with their hooks
                self._on_leaves.append(handle)

    def _leave(self, slot: list[Any], gradient: Tensor) -> None:
        assert self._of_gradient is not None
        self._over = True
        if gradient.dtype is torch.float16:
            self.half = True
        slot.append(self._of_gradient(gradient.detach() if gradient.requires_grad else gradient))


def in_backward() -> bool:
    """True during a backward pass, in which layers are called only to recompute their states."""
    return torch._C._current_graph_task_id() != -1  # what torch.utils.checkpoint asks too


class AtEndOfBackward:
    """A hook for parameters whose gradient is ready: it calls a function once at the end of each
    backward pass.

    All gradients are then complete, also with ``DistributedDataParallel``, and not yet clipped.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._waits = False

    def __call__(self, parameter: Tensor) -> None:
        if not self._waits:
            self._waits = True
            # The engine has no public callback. The inner one comes after those that others queue
            # in this pass.
            queue = torch.autograd.Variable._execution_engine.queue_callback
            queue(lambda: queue(self._end))

    def _end(self) -> None:
        self._waits = False
        self._function()


def first_tensor(arguments: Iterable[Any]) -> Any:
    """The first argument, or the first tensor in it if it is a tuple; None unless its numbers are
    floating-point.

    It is a tensor, or sparse features with a method ``dense``.
    """
    first = next(iter(arguments), None)
    if isinstance(first, tuple | list):
        first = next((x for x in first if isinstance(x, Tensor)), None)
    if isinstance(first, Tensor):
        return first if first.is_floating_point() else None
    return first if hasattr(first, "dense") else None


@dataclass(frozen=True)
class Call:
    """A recorded call: a module and its arguments, the first one as a dense tensor."""

    module: nn.Module
    x: Tensor
    rest: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, x: Tensor) -> Tensor:
        """Call the module again with another first argument."""
        return self.module(x, *self.rest, **self.named)

    @property
    def bound(self) -> float | None:
        """The layer's upper bound of its Lipschitz constant for these arguments; None if it has
        none."""
        bound = getattr(self.module, "lipschitz_bound", None)
        return None if bound is None else bound(*self.rest, **self.named)


@contextmanager
def recorded_calls(
    modules: Sequence[nn.Module], of_output: Callable[[Any], None] | None = None
) -> Iterator[list[Call | None]]:
    """Record the call at each place inside the context; a module at several places has one call for
    each, in order.

    None where a module was not called, or not with a floating-point tensor. ``of_output`` gets
    every output.
    """
    calls: list[Call | None] = [None] * len(modules)
    places: dict[nn.Module, list[int]] = {}
    for place, module in enumerate(modules):
        places.setdefault(module, []).append(place)

    def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if places[module] and args:
            if (x := first_tensor(args)) is not None:
                x = x.detach() if isinstance(x, Tensor) else x.dense()
                calls[places[module][0]] = Call(module, x, args[1:], named)
            del places[module][0]

    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in places]
    if of_output is not None:
        handles += [
            module.register_forward_hook(lambda module, args, out: of_output(out))
            for module in places
        ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the context; afterwards each submodule's mode and the random states
    are as before."""
    modes = {part: part.training for part in module.modules()}
    device = next(module.parameters(), torch.empty(0)).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            module.eval()
            yield
    finally:
        for part, training in modes.items():
            part.training = training
