"""Hooks on a model's layers: select submodules by name, and collect their inputs and the inputs' gradients."""

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

MAX_NAMES = 20  # listed in an error


def select(root: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The submodules whose names match a pattern, in order; a module with several names appears under each.

    Args:
        root: The module to search.
        pattern: A dotted name in which ``*``, ``?`` and ``[0-9]`` match within one part: ``stack.blocks.*.layer``
            matches the layers, but not their submodules.

    Raises:
        MisconfigurationException: No submodule matches.
    """
    names = dict(root.named_modules(remove_duplicate=False))
    found = {name: module for name, module in names.items() if name and _matches(name, pattern)}
    if not found:
        raise MisconfigurationException(_no_match(root, pattern, names))
    return found


def _matches(name: str, pattern: str) -> bool:
    name_parts, parts = name.split("."), pattern.split(".")
    return len(name_parts) == len(parts) and all(map(fnmatchcase, name_parts, parts))


def _no_match(root: nn.Module, pattern: str, names: Iterable[str]) -> str:
    patterns = list(dict.fromkeys(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) for name in names if name))
    near = difflib.get_close_matches(pattern, patterns, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = sorted(patterns, key=lambda name: name.count("."))[:MAX_NAMES]
    more = f", and {len(patterns) - len(shown)} more" if len(patterns) > len(shown) else ""
    return (
        f"no module of {type(root).__name__} is called {pattern!r}.{hint} "
        f"Available: {', '.join(shown) or 'none'}{more}."
    )


def entrances(root: nn.Module, names: Iterable[str]) -> list[nn.Module]:
    """The modules whose input is the state that enters each layer: as a rule the layers themselves.

    If ``X.state`` exists beside ``X.layer``, it is that one: a block with dropout passes the whole state through a
    module of this name first.
    """
    modules = dict(root.named_modules(remove_duplicate=False))
    return [modules.get(re.sub(r"(^|\.)layer$", r"\1state", name), modules[name]) for name in names]


def numbers(names: Sequence[str]) -> list[int]:
    """The number of each layer, from 1: its place in the innermost list of its name, otherwise 1, 2, ..."""
    found = [re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name) for name in names]
    places = [int(of_name[-1]) + 1 for of_name in found if of_name]
    in_order = len(places) == len(names) and all(low < high for low, high in pairwise(places))
    return places if in_order else list(range(1, len(names) + 1))


class InputHooks(ABC):
    """Hooks that reduce each module's input, its first argument, to the values to keep.

    A module that stands at several places is called once for each of them in order, and then from the first again.

    Args:
        modules: The module at each place.
        take: Reduces a tensor to what is kept.

    Attributes:
        taken: The results at each place.
        seen: True at each place that had a tensor to reduce.
        paused: True while a measurement runs a forward pass of its own, which no hook is to see.
    """

    paused: ClassVar[bool] = False

    def __init__(self, modules: Sequence[nn.Module], take: Callable[[Tensor], Any]) -> None:
        self._take = take
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(modules):
            self._places.setdefault(module, []).append(place)
        self._count = len(modules)
        self._on_modules: list[RemovableHandle] = []
        self.clear()

    def clear(self) -> None:
        """Forget all results."""
        self.taken: list[list[Any]] = [[] for _ in range(self._count)]
        self.seen = [False] * self._count

    def attach(self) -> None:
        """Put hooks on the modules before a forward pass."""
        self.detach()
        self._calls = dict.fromkeys(self._places, 0)
        self._on_modules = [module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in self._places]

    def end_forward(self) -> None:
        """Remove the hooks from the modules, because the backward pass calls checkpointed layers again."""
        for handle in self._on_modules:
            handle.remove()
        self._on_modules = []

    def detach(self) -> None:
        """Remove all hooks."""
        self.end_forward()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if InputHooks.paused:
            return
        places = self._places[module]
        place = places[self._calls[module] % len(places)]
        self._calls[module] += 1
        self._look(place, args[0] if args else next(iter(kwargs.values()), None))

    @abstractmethod
    def _look(self, place: int, x: Any) -> None:
        """Reduce the input at a place, now or when its gradient arrives."""


class InputGradients(InputHooks):
    """Hooks that reduce the gradient of the loss with respect to each module's input.

    It is the whole gradient, through everything that reads that tensor. ``taken`` has the result of every call that the
    loss depends on; ``seen`` says where an input was a tensor with a gradient.

    Attributes:
        without: The shapes of the inputs at each place whose gradient has not arrived; after the backward pass, of
            those that the loss does not depend on.
    """

    def __init__(self, modules: Sequence[nn.Module], take: Callable[[Tensor], Any]) -> None:
        self._on_leaves: list[RemovableHandle] = []
        super().__init__(modules, take)

    def clear(self) -> None:
        super().clear()
        self.without: list[list[torch.Size]] = [[] for _ in range(self._count)]

    def detach(self) -> None:
        """Remove all hooks, also those on inputs that are parameters and outlive the pass."""
        super().detach()
        for handle in self._on_leaves:
            handle.remove()
        self._on_leaves = []

    def _look(self, place: int, x: Any) -> None:
        if isinstance(x, Tensor) and x.requires_grad:
            self.seen[place] = True
            self.without[place].append(x.shape)
            # Bound to the lists of this step: a graph that is kept beyond its step adds to the old lists.
            leave = partial(self._leave, self.without[place], self.taken[place])
            handle = x.register_hook(leave)  # type: ignore[no-untyped-call]
            if x.is_leaf:  # other tensors are freed with their hooks
                self._on_leaves.append(handle)

    def _leave(self, without: list[torch.Size], taken: list[Any], gradient: Tensor) -> None:
        shape = gradient.shape
        if shape in without:
            without.remove(shape)
        taken.append(self._take(gradient.detach() if gradient.requires_grad else gradient))


class InputStates(InputHooks):
    """Hooks that reduce each module's input itself, where it is a floating-point tensor."""

    def _look(self, place: int, x: Any) -> None:
        x = x.dense() if hasattr(x, "dense") else x  # sparse features
        if isinstance(x, Tensor) and x.is_floating_point():
            self.seen[place] = True
            self.taken[place].append(self._take(x.detach()))


@dataclass(frozen=True)
class Call:
    """A recorded call: a module and its arguments.

    Attributes:
        module: The module.
        x: Its first argument, as a dense tensor.
        rest, named: The other arguments.
    """

    module: nn.Module
    x: Tensor
    rest: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, x: Tensor) -> Tensor:
        """Call the module again with another first argument."""
        return self.module(x, *self.rest, **self.named)

    @property
    def bound(self) -> float | None:
        """The layer's upper bound of its Lipschitz constant for these arguments; None if it has none."""
        bound = getattr(self.module, "lipschitz_bound", None)
        return None if bound is None else bound(*self.rest, **self.named)


@contextmanager
def recorded_calls(modules: Sequence[nn.Module]) -> Iterator[list[Call | None]]:
    """Record the call at each place inside the context; a module at several places has one call for each, in order.

    None where a module was not called, or not with a floating-point tensor.
    """
    calls: list[Call | None] = [None] * len(modules)
    places: dict[nn.Module, list[int]] = {}
    for place, module in enumerate(modules):
        places.setdefault(module, []).append(place)

    def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if places[module] and args:
            x = args[0].dense() if hasattr(args[0], "dense") else args[0]  # sparse features
            if isinstance(x, Tensor) and x.is_floating_point():
                calls[places[module][0]] = Call(module, x.detach(), args[1:], named)
            del places[module][0]

    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in places]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the context; afterwards each submodule's mode and the random states are as before."""
    modes = {part: part.training for part in module.modules()}
    device = next(module.parameters(), torch.empty(0)).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            module.eval()
            yield
    finally:
        for part, training in modes.items():
            part.training = training
