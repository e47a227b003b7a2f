"""What a conformance suite is made of: properties, how they are tried, and how it is told which do not hold."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from gnn_depth.registry import get, unknown

T = TypeVar("T")


class Violation(Exception):
    """A property that does not hold: on what, and by how much."""


class NotConforming(AssertionError):
    """A part lacks properties that parts of its kind have; the message names all of them, and what to do."""


@dataclass(frozen=True)
class Property(Generic[T]):
    """Something that every part of a kind is expected to do.

    Attributes:
        name: What ``except_for`` calls it.
        holds: Tries it on a subject and raises :class:`Violation`; the first line of its docstring is what it claims.
        remedy: What the author of a part may do about it.
        once: Whether one subject tells as much as all of them.
    """

    name: str
    holds: Callable[[T], None]
    remedy: str
    once: bool = False

    def failure(self, subjects: Sequence[T]) -> str | None:
        """What is wrong on the first of the subjects on which it does not hold; None where it holds on all."""
        for subject in subjects[: 1 if self.once else None]:
            try:
                self.holds(subject)
            except Violation as violation:
                return str(violation)
            except Exception as error:  # of the part: to raise is to violate
                return f"{subject}: {type(error).__name__}: {_first_lines(error)} ({_place(error)})"
        return None

    def told(self, failure: str) -> str:
        claim = (self.holds.__doc__ or "").partition("\n")[0]
        return f"  {self.name}: {claim}\n    {failure}\n    {self.remedy}"


def check(
    call: str, cls: type, subjects: Sequence[T], properties: Sequence[Property[T]], except_for: Sequence[str]
) -> None:
    """Try every property on every subject.

    Args:
        call: The function of the suite, as its user calls it.
        cls: The part.
        subjects: Ways of using it.
        properties: What is expected of it.
        except_for: Names of properties that it lacks by intent.

    Raises:
        NotConforming: Properties do not hold, or one that is excepted does.
        ValueError: There is no property of such a name.
    """
    __tracebackhide__ = True  # pytest: the message says it all
    excepted = (except_for,) if isinstance(except_for, str) else tuple(except_for)
    names = [item.name for item in properties]
    for name in excepted:
        if name not in names:
            raise ValueError(unknown(f"property of {call}", name, names))
    failures = {item.name: item.failure(subjects) for item in properties}
    found = [item.told(text) for item in properties if (text := failures[item.name]) and item.name not in excepted]
    found += [
        f"  {name}: It is excepted, and it holds.\n    Take it out of except_for."
        for name in excepted
        if failures[name] is None
    ]
    if found:
        raise NotConforming(_report(call, cls, found, [name for name in names if failures[name]], len(names)))


def class_of(kind: str, part: type | str, *bases: type) -> type:
    """The class of a part, given as such or by its registered name.

    Raises:
        ValueError: It is no part of that kind.
    """
    cls = get(kind, part) if isinstance(part, str) else part
    if not (isinstance(cls, type) and issubclass(cls, bases)):
        wanted = " or ".join(base.__name__ for base in bases)
        raise ValueError(f"{part!r} is no {kind}: give a class that subclasses {wanted}, or a registered name.")
    return cls


def assert_close(got: Tensor, wanted: Tensor, where: str, tolerance: float = 1e-8) -> None:
    """Compare rows of features.

    Args:
        got: What came out.
        wanted: What should have.
        where: On which input.
        tolerance: Largest difference, relative to the largest entry where that is above 1.

    Raises:
        Violation: They differ.
    """
    if got.shape != wanted.shape:
        raise Violation(f"{where}: the shape is {tuple(got.shape)} and should be {tuple(wanted.shape)}.")
    if not got.numel():
        return
    got, wanted = got.detach().double(), wanted.detach().double()
    off = (got - wanted).abs()
    largest = float(off.max())
    if not largest <= tolerance * max(1.0, float(wanted.abs().max())):
        row = int(off.flatten(1).amax(1).argmax()) if off.dim() > 1 else int(off.argmax())
        raise Violation(f"{where}: off by {largest:.2g} in row {row}.")


def assert_finite(values: dict[str, Any], where: str) -> None:
    """Compare with infinity.

    Raises:
        Violation: A tensor holds something that is infinite or not a number.
    """
    for name, value in values.items():
        if value is not None and not torch.isfinite(value).all():
            wrong = int((~torch.isfinite(value)).sum())
            raise Violation(f"{where}: {wrong} of {value.numel()} entries of {name} are not finite.")


def _report(call: str, cls: type, found: list[str], names: list[str], total: int) -> str:
    count = f"{len(found)} of {total} properties"
    lines = [f"{cls.__module__}.{cls.__qualname__} does not conform, in {count}:", "", "\n\n".join(found)]
    if names:
        excepted = ", ".join(map(repr, names)) + ("," if len(names) == 1 else "")
        lines += ["", f"What it does so by intent is excepted: {call}(..., except_for=({excepted}))."]
    return "\n".join(lines)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return " ".join(lines[:3])


def _place(error: Exception) -> str:
    """File and line of the deepest frame of the author's, as far as can be told."""
    frames = traceback.extract_tb(error.__traceback__)
    not_theirs = [str(Path(torch.__file__).parent), str(Path(__file__).parent.parent)]
    theirs = [frame for frame in frames if not frame.filename.startswith(tuple(not_theirs))]
    deepest = (theirs or list(frames))[-1]
    return f"{Path(deepest.filename).name}:{deepest.lineno}"
