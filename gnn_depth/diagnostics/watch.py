"""Which modules are watched, and what is taken of the gradients of their inputs."""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from typing import Any

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


class InputGradients:
    """What is taken of the gradient of the loss with respect to each module's input, while hooks are there.

    The input is a module's first argument, and its gradient the whole one, through everything that reads that tensor.
    A module that has several places is called once for each, in their order, and then again from the first.

    Args:
        modules: The module of each place.
        take: Makes of a gradient what is kept of it.

    Attributes:
        taken: What was taken at each place, for every call that the loss depends on.
        seen: Whether the input at each place was a tensor with a gradient.
    """

    def __init__(self, modules: Sequence[nn.Module], take: Callable[[Tensor], Tensor]) -> None:
        self._take = take
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(modules):
            self._places.setdefault(module, []).append(place)
        self._count = len(modules)
        self._on_modules: list[RemovableHandle] = []
        self._on_tensors: list[RemovableHandle] = []
        self.clear()

    def clear(self) -> None:
        """Forget what was taken."""
        self.taken: list[list[Tensor]] = [[] for _ in range(self._count)]
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
        """Take all hooks off, those on tensors too: parameters that are inputs stay when the pass has ended."""
        self.end_forward()
        for handle in self._on_tensors:
            handle.remove()
        self._on_tensors = []

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = next(iter((*args, *kwargs.values())), None)
        places = self._places[module]
        place = places[self._calls[module] % len(places)]
        self._calls[module] += 1
        if isinstance(x, Tensor) and x.requires_grad:
            self.seen[place] = True
            self._on_tensors.append(x.register_hook(partial(self._leave, place)))  # type: ignore[no-untyped-call]

    def _leave(self, place: int, gradient: Tensor) -> None:
        self.taken[place].append(self._take(gradient.detach()))
