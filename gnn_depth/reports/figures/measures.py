"""Figures of measures: over layers and steps, over training, over neurons, and against a metric."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, Points
from gnn_depth.reports.figures.grouping import (
    Group,
    Grouping,
    choose_grouping,
    count_of,
    groups,
    into_panels,
    metric_axis,
    scale,
    sentences,
    span,
    tally,
    with_result,
)
from gnn_depth.reports.load import ReportError, ReportWarning, read_measure
from gnn_depth.reports.settings import main_metric, metric_words, plural

When: TypeAlias = Literal["both", "start", "end"]
WHEN: tuple[When, ...] = get_args(When)
PLACES = ("first", "last", "mean")  # layers of a scatter
CAPTIONS = {
    "both": "Dotted, open: start of training. Solid, filled: end. Band: least to largest value "
    "during training.",
    "start": "At the first measured step.",
    "end": "At the last measured step.",
}
MAX_LAYERS = 6  # panels of a history, unless layers are chosen
STEP, LAYER = Axis("step", whole=True), Axis("layer", whole=True)


@contextmanager
def _without_nan_warnings() -> Iterator[None]:
    """Compute statistics of NaN and infinities without warnings."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore", over="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """One measure of runs that differ only in their seed, at every step that any of them reached.

    Values have the shape (runs, steps, layers, neurons), and are NaN at steps that a run did not
    reach or measure; ``reached``, of shape (runs, steps), tells which these are.
    """

    label: str  # of an axis
    log10: bool
    around_zero: bool
    steps: np.ndarray
    layers: np.ndarray
    values: np.ndarray
    reached: np.ndarray

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.values)

    @property
    def neurons(self) -> int:
        """Number of neurons; 1 for a measure of whole layers."""
        return int(self.values.shape[3])

    @property
    def of_layers(self) -> np.ndarray:
        """Mean over neurons, shape (runs, steps, layers)."""
        with _without_nan_warnings():
            return np.nanmean(self.values, axis=3)

    @property
    def typical(self) -> np.ndarray:
        """Median over runs of the mean over neurons, shape (steps, layers)."""
        with _without_nan_warnings():
            return np.nanmedian(self.of_layers, axis=0)

    def at(self, when: When) -> "MeasuredRuns":
        """The first or the last measured step of each run alone, or all steps."""
        if when == "both":
            return self
        place = self.reached.argmax(axis=1)  # the first step that is reached
        if when == "end":
            place = len(self.steps) - 1 - self.reached[:, ::-1].argmax(axis=1)
        values = self.values[np.arange(self.runs), place][:, None]
        reached = np.ones((self.runs, 1), dtype=bool)
        steps = np.full(1, np.nan)  # each run has its own
        return replace(self, steps=steps, values=values, reached=reached)


def measured(folders: Iterable[str], name: str) -> MeasuredRuns | None:
    """One measure of runs that differ only in their seed; None if no run has it."""
    found = {}
    for folder in folders:
        if name in measurements.measure_names(Path(folder)):
            one = read_measure(folder, name)
            # A run that diverged before anything was measured has a file without steps.
            if len(one.steps):
                found[folder] = one
    if not found:
        return None
    # All runs on the steps that any of them reached: some measure more often, or end earlier.
    first_folder, first = next(iter(found.items()))
    steps = np.unique(np.concatenate([one.steps for one in found.values()]))
    # A measure of whole layers has one neuron.
    shape = (len(first.layers), *(first.values.shape[2:] or (1,)))
    values = np.full((len(found), len(steps), *shape), np.nan)
    reached = np.zeros((len(found), len(steps)), dtype=bool)
    for run, (folder, one) in enumerate(found.items()):
        same_kind = (one.unit, one.log10) == (first.unit, first.log10)
        same_shape = one.values.shape[1:] == first.values.shape[1:]
        if not same_kind or not same_shape or not np.array_equal(one.layers, first.layers):
            raise ReportError(
                f"{one.name!r} of {folder!r} has other layers, neurons or units than that of "
                f"{first_folder!r}: runs of one panel may differ only in the seed."
            )
        at = np.searchsorted(steps, one.steps)
        values[run, at] = one.values.reshape(-1, *shape)
        reached[run, at] = True
    label = first.unit or first.name
    if first.log10:
        label = f"log₁₀ {label}"
    elif not first.unit:  # a name, as words
        label = label.replace("_", " ")
    return MeasuredRuns(label, first.log10, first.around_zero, steps, first.layers, values, reached)


def measures_shown(frame: pd.DataFrame, wanted: Sequence[str], counts: Sequence[int]) -> list[str]:
    """The measures that a figure shows: the requested ones, or all of the runs if it can show them.

    A figure of one shows the first that the runs have, with a warning that names the others.

    Args:
        frame: The runs.
        wanted: The requested measures.
        counts: How many measures the figure can show, such as 1 or 2.
    """
    names: set[str] = set()
    for folder in frame["folder"]:
        names.update(measurements.measure_names(Path(folder)))
    found = sorted(names)
    if not found:
        raise ReportError(
            "none of the runs has a measure: there is no file measures/NAME.npz in their folders."
        )
    for name in wanted:
        if name not in found:
            raise ReportError(unknown("measure", name, found))
    # A run has many measures: rather the first one than an error, but not without a word.
    if not wanted and len(found) > 1 and counts == [1]:
        others = " or ".join(found[1:])
        text = f"this figure shows one measure, {found[0]}. Another one: --measure {others}."
        warnings.warn(text, ReportWarning, stacklevel=4)
        return found[:1]
    chosen = list(wanted) or found
    if len(chosen) not in counts:
        needs = " or ".join(plural(count, "measure") for count in counts)
        have = f"the runs have {len(found)}"
        if wanted:
            have = f"--measure names {len(chosen)}"
        raise ReportError(
            f"this figure shows {needs}, and {have}. Choose with --measure: {', '.join(found)}."
        )
    return chosen


def measured_groups(
    frame: pd.DataFrame, measure: Sequence[str], by: Grouping, when: When = "both"
) -> tuple[list[tuple[Group, MeasuredRuns]], str]:
    """A measure, by default the first, of every group that has it; and what is missing."""
    (name,) = measures_shown(with_result(frame), measure, [1])
    made = []
    without = early = zeros = lost = total = 0
    for group in groups(frame, by):
        one = measured(group.runs["folder"], name)
        if one is None:
            without += len(group.runs)
            continue
        without += len(group.runs) - one.runs
        if when != "start":
            early += int((~one.reached[:, -1]).sum())
        one = one.at(when)
        made.append((group, one))
        # Steps that a run never came to are not lost.
        there = one.values[one.reached]
        is_lost, is_zero = measurements.lost_and_zero(there, one.log10)
        total += there.size
        zeros += int(is_zero.sum())
        lost += int(is_lost.sum())
    if not made:
        raise ReportError(f"no run came to a step at which {name!r} was measured.")
    _check_unit(name, [one for _, one in made])
    said = []
    if zeros:
        said.append(f"Exactly zero, without a logarithm: {zeros} of {total} values.")
    if lost:
        said.append(f"Not finite: {lost} of {total} values.")
    if early:
        said.append(f"Ended earlier than other seeds: {plural(early)}.")
    if without:
        said.append(f"Without this measure: {plural(without)}.")
    return made, sentences(*said, tally(frame))


def _check_unit(name: str, made: Sequence[MeasuredRuns]) -> None:
    """Refuse a measure of several units: one axis cannot show both."""
    labels = sorted({one.label for one in made})
    if len(labels) > 1:
        raise ReportError(f"measure {name!r} has several units: {', '.join(labels)}.")


def heatmap(
    frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None
) -> Chart:
    """A measure at every layer and step: of one run, or the median over seeds."""
    by = choose_grouping(frame, panel, (), has_lines=False)
    made, missing = measured_groups(frame, measure, by)
    drawn = []
    for group, one in made:
        cells = HeatMap(one.steps, one.layers, one.typical.T, one.log10, one.around_zero)
        drawn.append((group.panel, cells))
    panels = into_panels(drawn)
    runs = _seeds(made, "Median over seeds")
    if not runs and len(panels) > 1:  # a single panel needs no note
        runs = "One run per panel."
    colour = Axis(made[0][1].label)
    return Chart(STEP, LAYER, panels, colour=colour, caption=sentences(runs, missing))


def _seeds(made: Sequence[tuple[Group, MeasuredRuns]], what: str) -> str:
    """A sentence on the number of runs behind each line or panel; empty if it is one."""
    runs = {one.runs for _, one in made}
    if runs == {1}:
        return ""
    return f"{what}, {count_of(runs)}."


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    when: When = "both",
) -> Chart:
    """A measure in every layer at the first and last measured step, and a band between extremes.

    With several runs, which differ only in their seed, the lines are medians and the band covers
    all runs. With only one of the two steps, the band covers the runs at that step, and each line
    has its own dashes.
    """
    if when not in WHEN:
        raise ReportError(unknown("time", when, WHEN))
    by = choose_grouping(frame, panel, line)
    made, missing = measured_groups(frame, measure, by, when)
    drawn = []
    for group, one in made:
        # Over all steps and runs, or over the runs at the only step.
        finite = _finite(one.of_layers)  # an edge at infinity would hide the rest
        with _without_nan_warnings():
            band = np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))
        if when == "both":
            end, start = one.at("end").typical[0], one.at("start").typical[0]
            solid = Line(group.line, one.layers, end, (band,), group.style, "end")
            dotted = Line(group.line, one.layers, start, (), group.style, "start")
            drawn += [(group.panel, solid), (group.panel, dotted)]
        else:
            bands = (band,) if one.runs > 1 else ()
            only = Line(group.line, one.layers, one.typical[0], bands, group.style)
            drawn.append((group.panel, only))
    seeds = _seeds(made, "Medians over seeds")
    if seeds and when != "both":
        seeds += " Band: all seeds."
    caption = sentences(CAPTIONS[when], seeds, missing)
    y = Axis(made[0][1].label)
    return Chart(LAYER, y, into_panels(drawn), by.legend, caption=caption)


def history(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Chart:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step.

    Every layer has a panel. The neurons of several runs, which differ only in their seed, are
    pooled. By default six layers are shown, from the first to the last.
    """
    by = choose_grouping(frame, panel, line)
    made, missing = measured_groups(frame, measure, by)
    every = np.unique(np.concatenate([one.layers for _, one in made])).tolist()
    for layer in layers:
        if layer not in every:
            raise ReportError(f"layer {layer} was not measured. Available: {span(every)}.")
    shown = list(dict.fromkeys(layers))
    if not shown:
        places = np.linspace(0, len(every) - 1, min(len(every), MAX_LAYERS)).round().astype(int)
        shown = [every[place] for place in places]
    drawn = []
    for layer, (group, one) in product(shown, made):
        if layer in one.layers:
            title = ", ".join(filter(None, [group.panel, f"layer {layer}"]))
            drawn.append((title, _distribution(group, one, layer)))
    caption = _pooled([one for _, one in made])
    if len(shown) < len(every):
        shown_layers = ", ".join(map(str, shown))
        caption = sentences(caption, f"Layers shown: {shown_layers} of {len(every)}.")
    caption = sentences(caption, missing)
    return Chart(STEP, Axis(made[0][1].label), into_panels(drawn), by.legend, caption=caption)


def _pooled(made: Sequence[MeasuredRuns]) -> str:
    """A note on the values that a line and its bands summarise; empty for a single value."""
    counts = [one.runs * one.neurons for one in made]
    if max(counts) == 1:
        return ""
    runs = span(one.runs for one in made)
    origin = f"neurons of {runs} runs"
    if all(one.neurons == 1 for one in made):
        origin = "one value per run"
    elif runs == "1":
        origin = "neurons of 1 run"
    return f"Mean, quartiles and extremes over {span(counts)} values: {origin}."


def _distribution(group: Group, one: MeasuredRuns, layer: int) -> Line:
    at = int(np.flatnonzero(one.layers == layer)[0])
    by_step = one.values[:, :, at].transpose(1, 0, 2)  # steps, runs, neurons
    values = _finite(by_step.reshape(len(one.steps), -1))
    with _without_nan_warnings():
        mean = np.nanmean(values, axis=1)
        low, first, third, high = np.nanquantile(values, [0, 0.25, 0.75, 1], axis=1)
    # A single value has no distribution.
    bands = ((low, high), (first, third)) if values.shape[1] > 1 else ()
    return Line(group.line, one.steps, mean, bands, group.style)


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    at: Sequence[str] | None = None,
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str | None = None,
) -> Chart:
    """A point for each run at its last step: two measures coloured by a metric, or one against it.

    By default the gradients are on y, and each measure is taken at the layer that the signal
    reaches last: the last one going forward, the first one for gradients.
    """
    metric = metric or main_metric(frame)
    if metric not in frame.attrs["metrics"]:
        raise ReportError(unknown("metric", metric, frame.attrs["metrics"]))
    results = with_result(frame)
    chosen = measures_shown(results, measure, [1, 2])
    if not measure:  # in the order of x and y
        chosen.sort(key=lambda name: "grad" in name)
    layers = _layers_of_scatter(chosen, at)
    rows: dict[int, list[MeasuredRuns]] = {}  # by run, its measures
    for run, folder in results["folder"].items():
        known = []
        for name in chosen:
            one = measured([folder], name)
            if one is not None:
                known.append(one)
        if len(known) == len(chosen):
            rows[run] = known
    if not rows:
        both = "both " if len(chosen) == 2 else ""
        raise ReportError(f"no run has {both}{' and '.join(chosen)}.")
    results = results.loc[list(rows)]
    scores = scale(metric) * results[metric].to_numpy(dtype=float)
    axes, coordinates = [], []
    for name, layer, made in zip(chosen, layers, zip(*rows.values(), strict=True), strict=True):
        _check_unit(name, made)
        where = "mean of layers" if layer == "mean" else f"{layer} layer"
        axes.append(Axis(f"{made[0].label}, {where}"))
        coordinates.append(np.array([_at_layer(one, layer) for one in made]))
    x = coordinates[0]
    if len(chosen) == 2:
        y, y_axis = coordinates[1], axes[1]
        colour: Axis | None = Axis(metric_words(metric))
        what = "a measure is not finite"
    else:
        y, y_axis, colour = scores, metric_axis(metric), None
        what = "the measure or the metric is not finite"
    by = choose_grouping(frame, panel, line)
    drawn = []
    # Unchecked, as each run is a point of its own: nothing is averaged.
    for group in groups(results, by, check=False):
        runs = results.index.get_indexer(group.runs.index)
        points = Points(group.line, x[runs], y[runs], scores[runs], group.style)
        drawn.append((group.panel, points))
    caption = "A point is a run at its last measured step."
    hidden = int((~np.isfinite(x + y)).sum())
    if hidden:
        caption += f" Not drawn, because {what}: {hidden} of {plural(len(rows))}."
    caption = sentences(caption, tally(frame))
    return Chart(axes[0], y_axis, into_panels(drawn), by.legend, colour, caption)


def _layers_of_scatter(measures: Sequence[str], at: Sequence[str] | None) -> Sequence[str]:
    """The layer of each measure; by default the one that its signal reaches last."""
    if at is None:
        return ["first" if "grad" in name else "last" for name in measures]
    for layer in at:
        if layer not in PLACES:
            raise ReportError(unknown("layer", layer, PLACES))
    if len(at) != len(measures):
        both = f"{plural(len(at), 'layer')} for {plural(len(measures), 'measure')}"
        raise ReportError(f"each measure needs one layer: --at gives {both}.")
    return at


def _at_layer(one: MeasuredRuns, layer: str) -> float:
    """A measure of one run at its last step, in a layer."""
    values = one.of_layers[0, -1]
    if layer == "first":
        return float(values[0])
    if layer == "last":
        return float(values[-1])
    with _without_nan_warnings():
        return float(np.nanmean(values))
