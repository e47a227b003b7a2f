"""Ranges of numeric options, declared once, in the signature of a part: ``dropout: Probability =
0.5``.

The command line checks them before it imports or builds anything, the help shows them, and
constructors check them too, and the words of a ``Literal``: those of registered classes always,
others with :func:`in_range`.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Any, Literal, ParamSpec, get_args, get_origin, get_type_hints

P = ParamSpec("P")


@dataclass(frozen=True)
class Range:
    """An interval of finite numbers, as metadata of a type: ``Annotated[float, Range(0, 1)]``."""

    low: float = -inf
    high: float = inf
    above: bool = False  # exclude the least number
    below: bool = False  # exclude the largest number

    def __contains__(self, number: float) -> bool:
        low = self.low < number if self.above else self.low <= number
        high = number < self.high if self.below else number <= self.high
        return low and high and isfinite(number)

    def __str__(self) -> str:
        if isfinite(self.low) and isfinite(self.high) and not self.above and not self.below:
            return f"from {self.low} to {self.high}"
        low = [f"{'above' if self.above else 'at least'} {self.low}"] * isfinite(self.low)
        high = [f"{'below' if self.below else 'at most'} {self.high}"] * isfinite(self.high)
        return " and ".join(low + high) or "finite"

    def refusal(self, name: str, value: Any) -> str | None:
        """Why a number, also as text, or one of a list is not accepted; None if it is, or if it is
        not a number."""
        for item in value if isinstance(value, list | tuple) else [value]:
            try:
                number = float(f"{item}")
            except ValueError:
                continue
            if number not in self:
                finite = "" if isfinite(number) or str(self) == "finite" else "finite and "
                return f"{name} must be {finite}{self}, not {item}."
        return None

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError for a number, or one of a list, that is outside or not finite."""
        if refusal := self.refusal(name, value):
            raise ValueError(refusal)


@dataclass(frozen=True)
class PathMarker:
    """Mark an option's text as the path of a file or folder: ``root: FilePath | None``."""


FilePath = Annotated[str, PathMarker()]
Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Probability = Annotated[float, Range(0, 1)]
Share = Annotated[float, Range(0, 1, below=True)]
Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
Finite = Annotated[float, Range()]


def ranges_of(function: Callable[..., Any]) -> dict[str, Range]:
    """The ranges that the arguments of a function declare, by name."""
    found = {name: range_in(hint) for name, hint in _hints(function).items()}
    return {name: declared for name, declared in found.items() if declared}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (
        NameError,
        TypeError,
    ):  # an annotation names a class that is not there yet, or is no type
        return getattr(function, "__annotations__", {})


def range_in(annotation: Any) -> Range | None:
    """The range inside an annotation such as ``list[Count] | None``; None if it declares none."""
    if isinstance(annotation, Range):
        return annotation
    arguments = (*get_args(annotation), *getattr(annotation, "__metadata__", ()))
    return next(filter(None, map(range_in, arguments)), None)


def in_range(init: Callable[P, None]) -> Callable[P, None]:
    """Decorator of a constructor: an argument that is not in its declared range or words raises a
    ValueError."""
    ranges, names = ranges_of(init), list(inspect.signature(init).parameters)
    words = {
        name: get_args(hint) for name, hint in _hints(init).items() if get_origin(hint) is Literal
    }
    if not ranges and not words:
        return init

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
            if name in ranges:
                ranges[name].check(f"{name} of {type(args[0]).__name__}", value)
            if value not in words.get(name, [value]):
                choices = " or ".join(map(repr, words[name]))
                raise ValueError(
                    f"{name} of {type(args[0]).__name__} must be {choices}, not {value!r}."
                )
        init(*args, **kwargs)

    return checked
