"""Combine the measures of several runs that differ only in their seed."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import quiet
from gnn_depth.reports.figures.groups import Group, Names, groups, plural, sentences, tally, with_result
from gnn_depth.reports.load import ReportError, ReportWarning, read_measure

When: TypeAlias = Literal["both", "start", "end"]
WHEN: tuple[When, ...] = get_args(When)


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure of some runs at every step that any of them reached.

    Attributes:
        label: Label of an axis for it.
        log10: True if the values are logarithms to base 10.
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
    def of_layers(self) -> np.ndarray:
        """Mean over neurons, shape (runs, T, layers)."""
        with quiet():
            return np.nanmean(self.values, axis=3)

    @property
    def typical(self) -> np.ndarray:
        """Median over runs of the mean over neurons, shape (T, layers)."""
        with quiet():
            return np.nanmedian(self.of_layers, axis=0)

    def at(self, when: When) -> "Measured":
        """The first or the last measured step of each run alone, or all steps."""
        if when == "both":
            return self
        runs, count = self.reached.shape
        place = self.reached.argmax(axis=1) if when == "start" else count - 1 - self.reached[:, ::-1].argmax(axis=1)
        values = self.values[np.arange(runs), place][:, None]
        return replace(self, steps=self.steps[:1], values=values, reached=np.ones((runs, 1), dtype=bool))


def choose(frame: pd.DataFrame, wanted: Sequence[str], counts: Sequence[int]) -> list[str]:
    """The measures a figure shows: the requested ones, or all that at least one run has if their number fits.

    Args:
        frame: Runs, as `load` returns them.
        wanted: Names of measures, or none.
        counts: How many the figure can show.

    Raises:
        ReportError: No run has a measure, no run has one of these names, or the figure cannot show that many.
    """
    found = _names(frame)
    if not found:
        raise ReportError("none of the runs has a measure: there is no file measures/NAME.npz in their folders.")
    if missing := [name for name in wanted if name not in found]:
        raise ReportError(unknown("measure", missing[0], found))
    chosen = list(wanted) or found
    if len(chosen) not in counts:
        needs = " or ".join(plural(count, "measure") for count in counts)
        have = f"--measure names {len(chosen)}" if wanted else f"the runs have {len(found)}"
        raise ReportError(f"this figure shows {needs}, and {have}. Choose with --measure: {', '.join(found)}.")
    return chosen


def _names(frame: pd.DataFrame) -> list[str]:
    """Names of the measures that at least one run has."""
    return sorted({name for folder in frame["folder"] for name in measurements.names(Path(folder))})


def read(
    frame: pd.DataFrame, measure: Sequence[str], by: Names, when: When = "both"
) -> tuple[list[tuple[Group, Measured]], str]:
    """Read one measure for every group of runs that has it, and caption sentences about missing runs and values.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; by default the first one, with a warning that names the others.
        by: Axes that distinguish panels and lines.
        when: Keep all steps, or only the first or the last one of each run.

    Raises:
        ReportError: The measure does not exist, a file is damaged, units differ between runs, or runs of one group
            differ in more than their seed.
    """
    results = with_result(frame)
    if not measure and len(found := _names(results)) > 1:
        measure = found[:1]
        warnings.warn(
            f"this figure shows one measure, {found[0]}. Another one: --measure {' or '.join(found[1:])}.",
            ReportWarning,
            stacklevel=3,
        )
    (name,) = choose(results, measure, [1])
    every = groups(frame, by)
    each = [(group, measured(group.runs["folder"], name)) for group in every]
    made = [(group, one.at(when)) for group, one in each if one is not None]
    if len(labels := sorted({one.label for _, one in made})) > 1:
        raise ReportError(f"measure {name!r} has several units: {', '.join(labels)}.")
    without = sum(len(group.runs) for group in every) - sum(len(one.folders) for _, one in made)
    early = sum(int((~one.reached[:, -1]).sum()) for _, one in made)
    there = np.concatenate([one.values[one.reached].ravel() for _, one in made])
    zeros = np.isneginf(there) & made[0][1].log10
    lost = ~np.isfinite(there) & ~zeros
    return made, sentences(
        f"Exactly zero, without a logarithm: {zeros.sum()} of {there.size} values." if zeros.any() else "",
        f"Not finite: {lost.sum()} of {there.size} values." if lost.any() else "",
        f"Ended earlier than other seeds: {plural(early)}." if early else "",
        f"Without this measure: {plural(without)}." if without else "",
        tally(frame),
    )


def measured(folders: Iterable[str], name: str) -> Measured | None:
    """One measure of runs that differ only in their seed; None if no run has it.

    Raises:
        ReportError: A file is damaged, or units, layers or neurons differ.
    """
    found = {folder: read_measure(folder, name) for folder in folders if name in measurements.names(Path(folder))}
    # A run that diverged before anything was measured has a file without steps.
    found = {folder: one for folder, one in found.items() if len(one.steps)}
    if not found:
        return None
    first_folder, first = next(iter(found.items()))
    steps = np.unique(np.concatenate([one.steps for one in found.values()]))
    shape = (len(first.layers), *(first.values.shape[2:] or (1,)))  # one neuron where they have none
    values, reached = np.full((len(found), len(steps), *shape), np.nan), np.zeros((len(found), len(steps)), dtype=bool)
    for run, (folder, one) in enumerate(found.items()):
        if one.values.shape[1:] != first.values.shape[1:] or not np.array_equal(one.layers, first.layers):
            raise ReportError(
                f"{one.name!r} of {folder!r} has other layers or neurons than that of {first_folder!r}: "
                "runs of one panel may differ only in the seed."
            )
        if (one.unit, one.log10) != (first.unit, first.log10):
            raise ReportError(f"{one.name!r} of {folder!r} has another unit than that of {first_folder!r}.")
        at = np.searchsorted(steps, one.steps)
        values[run, at], reached[run, at] = one.values.reshape(-1, *shape), True
    label = f"log₁₀ {first.unit or first.name}" if first.log10 else first.unit or first.name.replace("_", " ")
    return Measured(label, first.log10, steps, first.layers, values, reached, tuple(found))
