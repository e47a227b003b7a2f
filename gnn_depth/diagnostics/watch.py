"""Which modules are watched, and what is taken of their inputs and of the gradients of these."""

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

MAX_NAMES = 20  # that an error lists


def select(root: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The submodules whose names fit a pattern, in their order; a module of several names is there under each.

    Args:
        root: The module that has them.
        pattern: Parts between dots, in which ``*``, ``?`` and ``[0-9]`` stand for characters other than a dot:
            ``stack.layers.*`` are the layers, without what is in them.

    Raises:
        MisconfigurationException: None has such a name.
    """
    names = dict(root.named_modules(remove_duplicate=False))
    found = {name: module for name, module in names.items() if name and _fits(name, pattern)}
    if not found:
        raise MisconfigurationException(_nothing(root, pattern, names))
    return found


def _fits(name: str, pattern: str) -> bool:
    name_parts, parts = name.split("."), pattern.split(".")
    return len(name_parts) == len(parts) and all(map(fnmatchcase, name_parts, parts))


def _nothing(root: nn.Module, pattern: str, names: Iterable[str]) -> str:
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
    """The modules that are called with what enters each layer: the layers themselves, as a rule.

    Where ``X.layers.7`` has an ``X.states.7`` beside it, that one: a stack that drops features before its layers lets
    the whole states pass modules of this name first.
    """
    modules = dict(root.named_modules(remove_duplicate=False))
    return [modules.get(re.sub(r"\blayers(\.\d+)$", r"states\1", name), modules[name]) for name in names]


def numbers(names: Sequence[str]) -> list[int]:
    """The number of each layer, from 1: by its place in its list where it has one, otherwise 1, 2, ..."""
    ends = [name.rpartition(".")[2] for name in names]
    places = [int(end) + 1 for end in ends if end.isdecimal()]
    in_order = len(places) == len(names) and all(low < high for low, high in pairwise(places))
    return places if in_order else list(range(1, len(names) + 1))


class Inputs(ABC):
    """What is taken of each module's input, its first argument, while hooks are there.

    A module that has several places is called once for each, in their order, and then again from the first.

    Args:
        modules: The module of each place.
        take: Makes of a tensor what is kept of it.

    Attributes:
        taken: What was taken at each place.
        seen: Whether there was something to take at each place.
    """

    def __init__(self, modules: Sequence[nn.Module], take: Callable[[Tensor], Any]) -> None:
        self._take = take
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(modules):
            self._places.setdefault(module, []).append(place)
        self._count = len(modules)
        self._on_modules: list[RemovableHandle] = []
        self.clear()

    def clear(self) -> None:
        """Forget what was taken."""
        self.taken: list[list[Any]] = [[] for _ in range(self._count)]
        self.seen = [False] * self._count

    def attach(self) -> None:
        """Put hooks on the modules, for a pass that begins."""
        self.detach()
        self._calls = dict.fromkeys(self._places, 0)
        self._on_modules = [module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in self._places]

    def end_forward(self) -> None:
        """Take the hooks off the modules: in the backward pass checkpointed layers are called again."""
        for handle in self._on_modules:
            handle.remove()
        self._on_modules = []

    def detach(self) -> None:
        """Take all hooks off."""
        self.end_forward()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        places = self._places[module]
        place = places[self._calls[module] % len(places)]
        self._calls[module] += 1
        self._look(place, args[0] if args else next(iter(kwargs.values()), None))

    @abstractmethod
    def _look(self, place: int, x: Any) -> None:
        """Take something of the input at a place, now or later."""


class InputGradients(Inputs):
    """What is taken of the gradient of the loss with respect to each module's input.

    The gradient is the whole one, through everything that reads that tensor. ``taken`` has that of every call that the
    loss depends on, and ``seen`` says where an input was a tensor with a gradient.

    Attributes:
        without: Shapes of the inputs at each place that no gradient has come to: of those the loss does not depend on,
            when the backward pass is over.
    """

    def __init__(self, modules: Sequence[nn.Module], take: Callable[[Tensor], Any]) -> None:
        self._on_leaves: list[RemovableHandle] = []
        super().__init__(modules, take)

    def clear(self) -> None:
        super().clear()
        self.without: list[list[torch.Size]] = [[] for _ in range(self._count)]

    def detach(self) -> None:
        """Take all hooks off, those on parameters that are inputs too, which stay when the pass has ended."""
        super().detach()
        for handle in self._on_leaves:
            handle.remove()
        self._on_leaves = []

    def _look(self, place: int, x: Any) -> None:
        if isinstance(x, Tensor) and x.requires_grad:
            self.seen[place] = True
            self.without[place].append(x.shape)
            # What is forgotten has other lists than what comes: a graph that is kept beyond its step adds to the old.
            leave = partial(self._leave, self.without[place], self.taken[place])
            handle = x.register_hook(leave)  # type: ignore[no-untyped-call]
            if x.is_leaf:  # other tensors take theirs with them
                self._on_leaves.append(handle)

    def _leave(self, without: list[torch.Size], taken: list[Any], gradient: Tensor) -> None:
        shape = gradient.shape
        if shape in without:
            without.remove(shape)
        taken.append(self._take(gradient.detach() if gradient.requires_grad else gradient))


class InputStates(Inputs):
    """What is taken of each module's input itself, where it is a tensor of numbers that change continuously."""

    def _look(self, place: int, x: Any) -> None:
        x = x.dense() if hasattr(x, "dense") else x  # features that are mostly zero
        if isinstance(x, Tensor) and x.is_floating_point():
            self.seen[place] = True
            self.taken[place].append(self._take(x.detach()))
