"""Measures of several runs that are equal but for the seed, brought together."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.measurements import Measurement
from gnn_depth.registry import unknown
from gnn_depth.reports.figures.groups import Group
from gnn_depth.reports.figures.words import plural, sentences
from gnn_depth.reports.load import ReportError


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure of some runs at the steps that any of them reached.

    Attributes:
        label: What an axis of it says.
        log10: Whether the values are logarithms to base 10.
        steps: Steps of the optimizer, shape (T,).
        layers: Number of each layer, shape (layers,).
        values: Shape (runs, T, layers, neurons); NaN at steps that a run did not reach or measure.
        reached: Which steps each run measured, shape (runs, T).
        folders: The runs.
    """

    label: str
    log10: bool
    steps: np.ndarray
    layers: np.ndarray
    values: np.ndarray
    reached: np.ndarray
    folders: tuple[str, ...]

    @property
    def typical(self) -> np.ndarray:
        """Median over runs of the mean over neurons, shape (T, layers)."""
        with quiet():
            return np.nanmedian(self.of_layers, axis=0)

    @property
    def of_layers(self) -> np.ndarray:
        """Mean over neurons, shape (runs, T, layers)."""
        with quiet():
            return np.nanmean(self.values, axis=3)

    def at(self, when: Literal["start", "end"]) -> "Measured":
        """The first or the last step alone that each run measured."""
        runs, count = self.reached.shape
        place = self.reached.argmax(axis=1) if when == "start" else count - 1 - self.reached[:, ::-1].argmax(axis=1)
        values = self.values[np.arange(runs), place][:, None]
        return replace(self, steps=self.steps[:1], values=values, reached=np.ones((runs, 1), dtype=bool))

    @property
    def early(self) -> int:
        """How many runs ended before others."""
        return int((~self.reached[:, -1]).sum())

    @property
    def not_finite(self) -> tuple[int, int, int]:
        """How many values that were measured are exact zeros (-inf as a logarithm), not finite otherwise, and all."""
        there = self.values[self.reached]
        zero = np.isneginf(there) & self.log10
        return int(zero.sum()), int((~np.isfinite(there) & ~zero).sum()), there.size


@contextmanager
def quiet() -> Iterator[None]:
    """Statistics of nothing but NaN are NaN, and of infinities whatever they are: without a warning."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore", over="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def names(folders: Iterable[str]) -> list[str]:
    """The measures that any of some runs has."""
    return sorted({name for folder in folders for name in measurements.names(Path(folder))})


def choose(frame: pd.DataFrame, said: Sequence[str], count: int = 1) -> list[str]:
    """The measures of some names, or those that there are where they are as many as wanted.

    Args:
        frame: Runs, as `load` gives them.
        said: Names of measures, or none.
        count: How many a figure shows.

    Raises:
        ReportError: No run has a measure, or none of a name, or their number is another.
    """
    found = names(frame["folder"])
    if not found:
        raise ReportError("none of the runs has a measure: there is no file measures/NAME.npz in their folders.")
    if missing := [name for name in said if name not in found]:
        raise ReportError(unknown("measure", missing[0], found))
    chosen = list(said) or found
    if len(chosen) != count:
        wanted = "one measure" if count == 1 else f"{count} measures"
        have = f"{len(chosen)} are named" if said else f"the runs have {len(found)}"
        choices = ", ".join(found)
        raise ReportError(f"this figure shows {wanted}, and {have}: choose with --measure. Available: {choices}.")
    return chosen


def read(
    found: Sequence[Group], name: str, when: Literal["both", "start", "end"] = "both"
) -> tuple[list[tuple[Group, Measured]], str]:
    """One measure of every group of runs that has it, and sentences about what is not there.

    Args:
        found: Groups of runs.
        name: Name of the measure.
        when: Whether the first or the last step of each run is read alone.

    Raises:
        ReportError: A file is damaged, or the measure is not the same thing in all runs.
    """
    each = [(group, measured(group.runs["folder"], name)) for group in found]
    made = [(group, one if when == "both" else one.at(when)) for group, one in each if one is not None]
    if len({one.label for _, one in made}) > 1:
        raise ReportError(f"measure {name!r} has several units: {', '.join(sorted({one.label for _, one in made}))}.")
    without = sum(len(group.runs) for group in found) - sum(len(one.folders) for _, one in made)
    return made, _missing([one for _, one in made], without)


def measured(folders: Iterable[str], name: str) -> Measured | None:
    """One measure of runs that differ in their seed alone; None where none of them has it.

    Raises:
        ReportError: A file is damaged, or units, layers or neurons differ.
    """
    paths = [Path(folder) for folder in folders]
    try:
        found = {str(path): measurements.load(path, name) for path in paths if name in measurements.names(path)}
    except ValueError as error:
        raise ReportError(str(error)) from error
    # A run that diverged before anything was measured has a file without steps.
    found = {folder: one for folder, one in found.items() if len(one.steps)}
    return _together(found) if found else None


def _missing(ones: Sequence[Measured], without: int) -> str:
    counts = np.array([one.not_finite for one in ones]).sum(axis=0)
    early = sum(one.early for one in ones)
    zero, other, every = (int(count) for count in counts)
    return sentences(
        f"Exactly zero, so without a logarithm: {zero} of {every} values." if zero else "",
        f"Not finite: {other} of {every} values." if other else "",
        f"Ended before others of their seeds: {plural(early)}." if early else "",
        f"Without this measure: {plural(without)}." if without else "",
    )


def _together(found: dict[str, Measurement]) -> Measured:
    first = next(iter(found.values()))
    layers = first.layers
    steps = np.unique(np.concatenate([one.steps for one in found.values()]))
    values = np.full((len(found), len(steps), *_neurons(first).shape[1:]), np.nan)
    reached = np.zeros((len(found), len(steps)), dtype=bool)
    for run, (folder, one) in enumerate(found.items()):
        if _neurons(one).shape[1:] != values.shape[2:] or not np.array_equal(one.layers, layers):
            raise ReportError(
                f"{one.name!r} of {folder!r} has other layers or neurons than that of {next(iter(found))!r}: "
                "runs of one panel differ in the seed alone."
            )
        if (one.unit, one.log10) != (first.unit, first.log10):
            raise ReportError(f"{one.name!r} of {folder!r} has another unit than that of {next(iter(found))!r}.")
        at = np.searchsorted(steps, one.steps)
        values[run, at] = _neurons(one)
        reached[run, at] = True
    label = f"log₁₀ {first.unit or first.name}" if first.log10 else first.unit or first.name.replace("_", " ")
    return Measured(label, first.log10, steps, layers, values, reached, tuple(found))


def _neurons(measurement: Measurement) -> np.ndarray:
    """The values with an axis of neurons, of length one where there was none."""
    values = np.asarray(measurement.values, dtype=float)
    return values if values.ndim == 3 else values[:, :, None]
