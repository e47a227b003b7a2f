"""Figures of measures: over layers and steps, at start and end, over neurons, and against a
metric."""

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, Points, quiet
from gnn_depth.reports.figures.groups import (
    Group,
    Names,
    count_of,
    folder_list,
    groups,
    into_panels,
    metric_axis,
    names,
    scale,
    sentences,
    span,
    tally,
    with_result,
)
from gnn_depth.reports.load import ReportError, ReportWarning, read_measure
from gnn_depth.reports.settings import label, main_metric, metric_words, plural, varying_axes, words

When: TypeAlias = Literal["both", "start", "end"]
WHEN: tuple[When, ...] = get_args(When)
PLACES = ("first", "last", "mean")  # layers of a scatter
CAPTIONS = {
    "both": "Dotted, open: start of training. Solid, filled: end. Band: least to largest value during training.",
    "start": "At the first measured step.",
    "end": "At the last measured step.",
}
MAX_LAYERS = 6  # panels of a history, unless layers are chosen
STEP, LAYER = Axis("step", whole=True), Axis("layer", whole=True)


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure of runs that differ only in their seed, at every step that any of them
    reached."""

    label: str  # of an axis
    log10: bool
    steps: np.ndarray
    layers: np.ndarray
    values: (
        np.ndarray
    )  # shape (runs, steps, layers, neurons); NaN at steps that a run did not reach or measure
    reached: np.ndarray  # which steps each run measured, shape (runs, steps)
    folders: tuple[str, ...]

    @property
    def of_layers(self) -> np.ndarray:
        """Mean over neurons, shape (runs, steps, layers)."""
        with quiet():
            return np.nanmean(self.values, axis=3)

    @property
    def typical(self) -> np.ndarray:
        """Median over runs of the mean over neurons, shape (steps, layers)."""
        with quiet():
            return np.nanmedian(self.of_layers, axis=0)

    def at(self, when: When) -> "Measured":
        """The first or the last measured step of each run alone, or all steps."""
        if when == "both":
            return self
        runs, count = self.reached.shape
        place = (
            self.reached.argmax(axis=1)
            if when == "start"
            else count - 1 - self.reached[:, ::-1].argmax(axis=1)
        )
        values = self.values[np.arange(runs), place][:, None]
        return replace(
            self, steps=self.steps[:1], values=values, reached=np.ones((runs, 1), dtype=bool)
        )


def measured(folders: Iterable[str], name: str) -> Measured | None:
    """One measure of runs that differ only in their seed; None if no run has it."""
    found = {
        folder: read_measure(folder, name)
        for folder in folders
        if name in measurements.measure_names(Path(folder))
    }
    # A run that diverged before anything was measured has a file without steps.
    found = {folder: one for folder, one in found.items() if len(one.steps)}
    if not found:
        return None
    first_folder, first = next(iter(found.items()))
    steps = np.unique(np.concatenate([one.steps for one in found.values()]))
    shape = (
        len(first.layers),
        *(first.values.shape[2:] or (1,)),
    )  # one neuron where they have none
    values = np.full((len(found), len(steps), *shape), np.nan)
    reached = np.zeros((len(found), len(steps)), dtype=bool)
    for run, (folder, one) in enumerate(found.items()):
        kinds = [
            (each.values.shape[1:], each.layers.tolist(), each.unit, each.log10)
            for each in (one, first)
        ]
        if kinds[0] != kinds[1]:
            raise ReportError(
                f"{one.name!r} of {folder!r} has other layers, neurons or units than that of "
                f"{first_folder!r}: "
                "runs of one panel may differ only in the seed."
            )
        at = np.searchsorted(steps, one.steps)
        values[run, at] = one.values.reshape(-1, *shape)
        reached[run, at] = True
    axis = (
        f"log₁₀ {first.unit or first.name}"
        if first.log10
        else first.unit or first.name.replace("_", " ")
    )
    return Measured(axis, first.log10, steps, first.layers, values, reached, tuple(found))


def measures_shown(frame: pd.DataFrame, wanted: Sequence[str], counts: Sequence[int]) -> list[str]:
    """The measures that a figure of so many shows: the requested ones, or all that at least one run
    has if they fit.

    A figure of one shows the first that the runs have, with a warning that names the others.
    """
    found = sorted(
        {name for folder in frame["folder"] for name in measurements.measure_names(Path(folder))}
    )
    if not found:
        raise ReportError(
            "none of the runs has a measure: there is no file measures/NAME.npz in their folders."
        )
    if missing := [name for name in wanted if name not in found]:
        raise ReportError(unknown("measure", missing[0], found))
    if not wanted and len(found) > 1 and counts == [1]:
        others = " or ".join(found[1:])
        text = f"this figure shows one measure, {found[0]}. Another one: --measure {others}."
        warnings.warn(text, ReportWarning, stacklevel=4)
        return found[:1]
    chosen = list(wanted) or found
    if len(chosen) not in counts:
        needs = " or ".join(plural(count, "measure") for count in counts)
        have = f"--measure names {len(chosen)}" if wanted else f"the runs have {len(found)}"
        raise ReportError(
            f"this figure shows {needs}, and {have}. Choose with --measure: {', '.join(found)}."
        )
    return chosen


def read(
    frame: pd.DataFrame, measure: Sequence[str], by: Names, when: When = "both"
) -> tuple[list[tuple[Group, Measured]], str]:
    """Read a measure, by default the first, for every group that has it; with sentences about what
    is missing."""
    (name,) = measures_shown(with_result(frame), measure, [1])
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
        f"Exactly zero, without a logarithm: {zeros.sum()} of {there.size} values."
        if zeros.any()
        else "",
        f"Not finite: {lost.sum()} of {there.size} values." if lost.any() else "",
        f"Ended earlier than other seeds: {plural(early)}." if early else "",
        f"Without this measure: {plural(without)}." if without else "",
        tally(frame),
    )


def heatmap(
    frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None
) -> Chart:
    """A measure at every layer and step: of one run, or the median over runs that differ only in
    their seed."""
    made, missing = read(frame, measure, names(frame, panel, (), has_lines=False))
    maps = [
        HeatMap(one.steps, one.layers, one.typical.T, one.log10, folder_list(one.folders))
        for _, one in made
    ]
    panels = into_panels(zip([group.panel for group, _ in made], maps, strict=True))
    caption = sentences(_seeds(made, "Median over seeds") or "One run per panel.", missing)
    return Chart(STEP, LAYER, panels, colour=Axis(made[0][1].label), caption=caption)


def _seeds(made: Sequence[tuple[Group, Measured]], what: str) -> str:
    """A sentence on the number of runs behind each line or panel; empty if it is one."""
    runs = {len(one.folders) for _, one in made}
    return "" if runs == {1} else f"{what}, {count_of(runs)}."


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    when: When = "both",
) -> Chart:
    """A measure in every layer at a run's first and last measured step, and a band from its least
    to largest value.

    With several runs, which differ only in their seed, the lines are medians and the band covers
    all runs. With only one of the two steps, the band covers the runs at that step, and each line
    has its own dashes.
    """
    if when not in WHEN:
        raise ReportError(unknown("time", when, WHEN))
    by = names(frame, panel, line)
    made, missing = read(frame, measure, by, when)
    panels = into_panels(
        (group.panel, drawn) for group, one in made for drawn in _over_layers(group, one, when)
    )
    seeds = _seeds(made, "Medians over seeds")
    caption = sentences(
        CAPTIONS[when], seeds, "Band: all seeds." if seeds and when != "both" else "", missing
    )
    return Chart(LAYER, Axis(made[0][1].label), panels, by.legend, caption=caption)


def _over_layers(group: Group, one: Measured, when: When) -> Iterator[Line]:
    """A line for the end and one for the start, or a single one; the first with a band over all
    steps and runs."""
    finite = np.where(np.isfinite(one.of_layers), one.of_layers, np.nan)
    with quiet():
        band = np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))
    folders = folder_list(one.folders)
    if when == "both":
        yield Line(
            group.line,
            one.layers,
            one.at("end").typical[0],
            (band,),
            group.style,
            "end",
            note=folders,
        )
        yield Line(
            group.line,
            one.layers,
            one.at("start").typical[0],
            (),
            group.style,
            "start",
            note=folders,
        )
    else:
        bands = (band,) if len(one.folders) > 1 else ()
        yield Line(group.line, one.layers, one.typical[0], bands, group.style, note=folders)


def history(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Chart:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step; a panel
    for each layer.

    The neurons of several runs, which differ only in their seed, are pooled. By default six layers
    are shown, from the first to the last.
    """
    by = names(frame, panel, line)
    made, missing = read(frame, measure, by)
    every = sorted({int(layer) for _, one in made for layer in one.layers})
    if absent := [layer for layer in layers if layer not in every]:
        raise ReportError(f"layer {absent[0]} was not measured. Available: {span(every)}.")
    places = np.linspace(0, len(every) - 1, min(len(every), MAX_LAYERS)).round().astype(int)
    shown = list(dict.fromkeys(layers)) or [every[place] for place in places]
    panels = into_panels(
        (", ".join(filter(None, [group.panel, f"layer {layer}"])), _distribution(group, one, layer))
        for layer in shown
        for group, one in made
        if layer in one.layers
    )
    left = (
        f"Layers shown: {', '.join(map(str, shown))} of {len(every)}."
        if len(shown) < len(every)
        else ""
    )
    caption = sentences(_pooled([one for _, one in made]), left, missing)
    return Chart(STEP, Axis(made[0][1].label), panels, by.legend, caption=caption)


def _pooled(made: Sequence[Measured]) -> str:
    """A note on the values that a line and its bands summarise; empty for a single value."""
    counts = [one.values.shape[0] * one.values.shape[3] for one in made]
    runs = span(len(one.folders) for one in made)
    several = any(one.values.shape[3] > 1 for one in made)
    origin = (
        f"neurons of {runs} {'run' if runs == '1' else 'runs'}" if several else "one of each run"
    )
    return (
        ""
        if max(counts) == 1
        else f"Mean, quartiles and extremes over {span(counts)} values: {origin}."
    )


def _distribution(group: Group, one: Measured, layer: int) -> Line:
    at = int(np.flatnonzero(one.layers == layer)[0])
    values = one.values[:, :, at].transpose(1, 0, 2).reshape(len(one.steps), -1)
    values = np.where(np.isfinite(values), values, np.nan)
    with quiet():
        mean = np.nanmean(values, axis=1)
        low, first, third, high = np.nanquantile(values, [0, 0.25, 0.75, 1], axis=1)
    # A single value has no distribution.
    bands = ((low, high), (first, third)) if values.shape[1] > 1 else ()
    return Line(group.line, one.steps, mean, bands, group.style, note=folder_list(one.folders))


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    at: Sequence[str] | None = None,
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str | None = None,
) -> Chart:
    """A point for each run: two measures at its last measured step, coloured by a metric, or a
    metric against one.

    By default the gradients are on y, and each measure is taken at the layer that the signal
    reaches last: the last one going forward, the first one for gradients.
    """
    metric = main_metric(frame) if metric is None else metric
    if metric not in frame.attrs["metrics"]:
        raise ReportError(unknown("metric", metric, frame.attrs["metrics"]))
    results = with_result(frame)
    chosen = measures_shown(results, measure, [1, 2])
    if not measure:
        chosen.sort(key=lambda name: "grad" in name)
    layers = _layers_of_scatter(chosen, at)
    each = [[measured([folder], name) for name in chosen] for folder in results["folder"]]
    results = results[[None not in ones for ones in each]]
    found = [[one for one in ones if one] for ones in each if None not in ones]
    if not found:
        raise ReportError(
            f"no run has {'both ' if len(chosen) == 2 else ''}{' and '.join(chosen)}."
        )
    places = np.array([list(map(_at_layer, ones, layers)) for ones in found])
    reached = scale(metric) * results[metric].to_numpy(dtype=float)
    x, y, colour = [*places.T, reached, reached][:3]  # with a single measure the metric is on y
    by, named = names(frame, panel, line), varying_axes(frame)
    texts = np.array(list(map(partial(_note, named, metric), results.to_dict("records"), places)))
    drawn = []
    for group in groups(results, by, check=False):
        runs = results.index.get_indexer(group.runs.index)
        points = Points(group.line, x[runs], y[runs], colour[runs], group.style, tuple(texts[runs]))
        drawn.append((group.panel, points))
    x_axis, *y_axis = [
        Axis(f"{one.label}, {'mean of layers' if layer == 'mean' else f'{layer} layer'}")
        for one, layer in zip(found[0], layers, strict=True)
    ]
    hidden = int((~np.isfinite(x + y)).sum())
    what = "a measure is not finite" if y_axis else "the measure or the metric is not finite"
    lost = f"Not drawn, because {what}: {hidden} of {plural(len(found))}." if hidden else ""
    return Chart(
        x_axis,
        y_axis[0] if y_axis else metric_axis(metric),
        into_panels(drawn),
        by.legend,
        colour=Axis(metric_words(metric)) if y_axis else None,
        caption=sentences("A point is a run at its last measured step.", lost, tally(frame)),
    )


def _layers_of_scatter(measures: Sequence[str], at: Sequence[str] | None) -> Sequence[str]:
    """The layer of each measure."""
    if at is None:
        return (
            ("last", "first")
            if len(measures) == 2
            else ("first" if "grad" in measures[0] else "last",)
        )
    if wrong := [layer for layer in at if layer not in PLACES]:
        raise ReportError(unknown("layer", wrong[0], PLACES))
    if len(at) != len(measures):
        both = f"{plural(len(at), 'layer')} for {plural(len(measures), 'measure')}"
        raise ReportError(f"each measure needs one layer: --at gives {both}.")
    return at


def _at_layer(one: Measured, layer: str) -> float:
    """A measure of one run at its last step, in a layer."""
    values = one.of_layers[0, -1]
    with quiet():
        return float({"first": values[0], "last": values[-1]}.get(layer, np.nanmean(values)))


def _note(
    named: Sequence[str], metric: str, run: dict[Hashable, Any], values: Iterable[float]
) -> str:
    settings = [f"{words(name)}={label(run[name])}" for name in named]
    reached = "no value" if math.isnan(run[metric]) else f"{scale(metric) * run[metric]:.4g}"
    return "\n".join(
        [
            ", ".join([*settings, f"seed {label(run['seed'])}"]),
            f"{metric_words(metric)}: {reached} ({run['status']})",
            ", ".join(f"{value:.4g}" for value in values),
            run["folder"],
        ]
    )
