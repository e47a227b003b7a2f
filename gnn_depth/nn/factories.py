"""How a stack is told what to make its parts of."""

from collections.abc import Callable
from typing import TypeAlias

from gnn_depth.nn.parts import Layer, Norm, Skip

LayerFactory: TypeAlias = Callable[[int, int], Layer]
NormFactory: TypeAlias = Callable[[int], Norm]
SkipFactory: TypeAlias = Callable[[list[int], int], Skip]


def part_class(factory: Callable[..., object]) -> type:
    """The class that a part's factory makes: the class itself, or what a (nested) ``functools.partial`` holds.

    Raises:
        ValueError: It cannot be told without calling the factory, as for a lambda.
    """
    held = (factory, getattr(factory, "func", None), *getattr(factory, "args", ()))
    for item in held:
        if isinstance(item, type):
            return item
    raise ValueError(f"a part is given as a class or functools.partial of one, not as {factory!r}.")
