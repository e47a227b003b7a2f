"""Properties of parts, the check of a part, and the report of properties that do not hold."""

import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gnn_depth.registry import (
    described,
    load_entry_points,
    not_loaded,
    registered,
    unknown,
    written_at,
)


class Violation(Exception):
    """A property does not hold; the message says on which input and by how much."""


class NotConforming(AssertionError):
    """A part lacks properties of its kind; the message names all of them and the remedies."""


@dataclass(frozen=True)
class Property:
    """A property of every part of a kind, stated by the first line of ``holds``' docstring."""

    name: str  # in ``except_for``
    remedy: str  # advice to the author of the part
    holds: Callable[[Any], None]  # tries it on a subject, and raises a Violation

    def failure(self, cls: type, subjects: Iterable[Any]) -> str:
        """The report of the first subject that fails, or raises an error; empty if none does."""
        where = "when it is constructed"
        try:
            for subject in subjects:
                where = str(subject)
                self.holds(subject)
            return ""
        except Violation as violation:
            reason, advice = str(violation), self.remedy
        except Exception as error:
            # Messages of torch may run over pages.
            text = " ".join(str(error).split())[:300]
            reason, advice = f"{where}: {type(error).__name__}: {text}", _raised_at(error, cls)
        claim = (self.holds.__doc__ or "").partition("\n")[0]
        return f"  {self.name}: {claim}\n    {reason}\n    {advice}"


def as_property(name: str, remedy: str) -> Callable[[Callable[[Any], None]], Property]:
    """Make a property of the function below, which tries it."""
    return partial(Property, name, remedy)


#: Makes the subjects of a part, one after the other, from its class with its options.
SubjectsOf: TypeAlias = Callable[[partial[Any]], Iterable[Any]]
#: For each base class of a kind its subjects and properties.
Suites: TypeAlias = Mapping[type, tuple[SubjectsOf, Sequence[Property]]]


def check_part(
    kind: str, part: type | str, suites: Suites, except_for: Sequence[str], options: dict[str, Any]
) -> None:
    """Check every property on every subject, or only the first if it fails: others rely on it.

    A property that is excepted must not hold.
    """
    cls: Any = part
    if isinstance(part, str):
        load_entry_points()
        known = registered(kind)
        if part not in known:
            raise ValueError(unknown(kind, part, known) + not_loaded())
        cls = known[part]
    bases = [base for base in suites if isinstance(cls, type) and issubclass(cls, base)]
    if not bases:
        wanted = " or ".join(base.__name__ for base in suites)
        raise ValueError(
            f"{part!r} is not a {kind}: give a subclass of {wanted}, or a registered name."
        )
    make_subjects, properties = suites[bases[0]]
    names = [item.name for item in properties]
    for name in except_for:
        if name not in names:
            raise ValueError(unknown(f"property of check_{kind}", name, names))
    found = {}
    for item in properties:
        if item.name == "gpu" and not torch.cuda.is_available():
            continue
        with seeded(0):
            found[item.name] = item.failure(cls, make_subjects(partial(cls, **options)))
        if found[item.name] and len(found) == 1:
            break
    lacking = tuple(name for name, failure in found.items() if failure)
    failures = []
    for name, failure in found.items():
        if bool(failure) != (name in except_for):
            holds = f"  {name}: It is excepted, but it holds: remove it from except_for."
            failures.append(failure or holds)
    if not failures:
        return
    head = f"{described(cls)} does not conform, in {len(failures)} of {len(found)} properties:"
    last = f"If the part lacks them on purpose: check_{kind}(..., except_for={lacking})."
    raise NotConforming("\n\n".join([head, *failures, last]))


def assert_close(got: Tensor, wanted: Tensor, where: str, tolerance: float = 1e-8) -> None:
    """Compare tensors; the tolerance is relative to the largest entry if that is above 1."""
    if got.shape != wanted.shape:
        raise Violation(
            f"{where}: the shape is {tuple(got.shape)} and should be {tuple(wanted.shape)}."
        )
    if not got.numel():
        return
    got, wanted = got.detach().double(), wanted.detach().double()
    off = (got - wanted).abs().max()
    # Not off > ...: that would let a NaN pass.
    if not off <= tolerance * wanted.abs().max().clamp_min(1):
        raise Violation(f"{where}: off by {off:.2g}.")


def assert_all_close(
    got: Mapping[str, Tensor], wanted: Mapping[str, Tensor], where: str, tolerance: float = 1e-8
) -> None:
    """Compare the tensors of two mappings, on whatever devices."""
    for name, value in wanted.items():
        assert_close(got[name].cpu(), value, f"{where}, {name}", tolerance)


def assert_finite(values: Mapping[str, Tensor | None], where: str) -> None:
    """Check that tensors, or gradients that may be missing, hold no infinity and no NaN."""
    for name, value in values.items():
        if value is None:
            continue
        wrong = (~torch.isfinite(value)).sum()
        if wrong:
            raise Violation(
                f"{where}: {wrong} of {value.numel()} entries of {name} are not finite."
            )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the context; the author's random numbers are unaffected.

    Of the CPU alone, where the checks run: ``torch.manual_seed`` asks about all devices and takes
    longer than the pass of a small part.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _raised_at(error: Exception, cls: type) -> str:
    """The deepest line of the author's code that led to an error; without one, the class."""
    package = str(Path(__file__).parent.parent)
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), package)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(libraries):
            return f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
    return f"See {written_at(cls) or described(cls)}."
