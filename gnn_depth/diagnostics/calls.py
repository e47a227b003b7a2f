"""What modules are called with in one pass of a model that leaves no trace."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Call:
    """A module, and what it was called with.

    Attributes:
        module: It.
        x: Its first argument, as a dense tensor.
        rest, named: The other arguments.
    """

    module: nn.Module
    x: Tensor
    rest: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, x: Tensor) -> Tensor:
        """What the module gives for another first argument."""
        return self.module(x, *self.rest, **self.named)


@contextmanager
def recorded_calls(modules: Sequence[nn.Module]) -> Iterator[list[Call | None]]:
    """The call at each place, while it lasts: of a module of several places one call each, in their order.

    None where a module was not called, or not with numbers that change continuously.
    """
    calls: list[Call | None] = [None] * len(modules)
    places: dict[nn.Module, list[int]] = {}
    for place, module in enumerate(modules):
        places.setdefault(module, []).append(place)

    def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if places[module] and args:
            x = args[0].dense() if hasattr(args[0], "dense") else args[0]  # features that are mostly zero
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
    """Evaluation mode while it lasts; afterwards each submodule's mode and the random states are what they were."""
    modes = {part: part.training for part in module.modules()}
    device = next(module.parameters(), torch.empty(0)).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            module.eval()
            yield
    finally:
        for part, training in modes.items():
            part.training = training
