"""Ranges of numeric options, declared once, in the signature of a part: ``dropout: Probability =
0.5``.

The command line checks them before it imports or builds anything, the help shows them, and
constructors check them too, and the words of a ``Literal``: those of registered classes always,
others with :func:`in_range`.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """An interval of finite numbers, as metadata of a type: ``Annotated[float, Range(0, 1)]``."""

    low: float = -inf
    high: float = inf
    above: bool = False  # exclude the least number
    below: bool = False  # exclude the largest number

    def __contains__(self, number: float) -> bool:
        is_excluded = (self.above and number == self.low) or (self.below and number == self.high)
        return isfinite(number) and self.low <= number <= self.high and not is_excluded

    def __str__(self) -> str:
        low = "above" if self.above else "at least"
        high = "below" if self.below else "at most"
        ends = []
        if isfinite(self.low):
            ends.append(f"{low} {self.low}")
        if isfinite(self.high):
            ends.append(f"{high} {self.high}")
        return " and ".join(ends) or "finite"

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError for a number, also as text, or one of a list, that is outside or not
        finite; what is not a number passes."""
        items = value
        if not isinstance(value, list | tuple):
            items = [value]
        for item in items:
            # By way of text, as in a file: True is no number, "0.5" is one.
            try:
                number = float(f"{item}")
            except ValueError:
                continue
            if number not in self:
                wanted = str(self)
                # "at least 0" does not tell what is wrong with infinity.
                if not isfinite(number) and wanted != "finite":
                    wanted = f"finite and {wanted}"
                raise ValueError(f"{name} must be {wanted}, not {item}.")


@dataclass(frozen=True)
class PathMarker:
    """Mark an option's text as the path of a file or folder: ``root: FilePath | None``."""


FilePath = Annotated[str, PathMarker()]
Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Probability = Annotated[float, Range(0, 1)]
Fraction = Annotated[float, Range(0, 1, below=True)]
Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
Finite = Annotated[float, Range()]


def inside(annotation: Any) -> Iterator[Any]:
    """A type and all that it is made of, with the metadata of ``Annotated``.

    The arguments of a Callable are a list, which is not looked into: parts get them, and are none.
    """
    yield annotation
    for argument in get_args(annotation):
        yield from inside(argument)


def first_inside(annotation: Any, cls: type[T]) -> T | None:
    """The first object of a class inside a type: the Range in ``list[Count] | None``; or None."""
    return next((each for each in inside(annotation) if isinstance(each, cls)), None)


def hints_of(function: Callable[..., object]) -> dict[str, Any]:
    """The types of a function's arguments with their ranges, without those that cannot be
    resolved."""
    # One by one: one may name a class that is imported for type checkers only, or be no type.
    names = getattr(inspect.unwrap(function), "__globals__", {})
    found: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone: Any = types.SimpleNamespace(__annotations__={name: annotation})
        with suppress(NameError, TypeError):
            found |= get_type_hints(alone, globalns=names, include_extras=True)
    return found


def in_range(init: Callable[P, None]) -> Callable[P, None]:
    """Decorator of a constructor: an argument that is not in its declared range or words raises a
    ValueError."""
    names = list(inspect.signature(init).parameters)
    ranges, words = {}, {}
    for name, hint in hints_of(init).items():
        declared = first_inside(hint, Range)
        if declared is not None:
            ranges[name] = declared
        if get_origin(hint) is Literal:
            words[name] = get_args(hint)
    if not ranges and not words:
        return init  # nothing to check, and no frame more in a traceback

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        given = dict(zip(names, args, strict=False)) | kwargs
        for name, value in given.items():
            option = f"{name} of {type(args[0]).__name__}"
            if name in ranges:
                ranges[name].check(option, value)
            if name in words and value not in words[name]:
                choices = " or ".join(map(repr, words[name]))
                raise ValueError(f"{option} must be {choices}, not {value!r}.")
        init(*args, **kwargs)

    return checked
