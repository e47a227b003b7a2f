"""Figures of a measure over layers: heat maps over steps, start and end of the training, distributions of neurons."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Band, Chart, HeatMap, Line, Panel, quiet
from gnn_depth.reports.figures.groups import (
    Group,
    count_of,
    folder_list,
    groups,
    into_panels,
    names,
    sentences,
    span,
    tally,
    with_result,
)
from gnn_depth.reports.figures.measured import Measured, choose, read
from gnn_depth.reports.load import ReportError

When: TypeAlias = Literal["both", "start", "end"]
WHEN: tuple[When, ...] = get_args(When)
CAPTIONS = {
    "both": "Dotted, open: start of training. Solid, filled: end. Band: least to largest value during training.",
    "start": "At the first measured step.",
    "end": "At the last measured step.",
}
MAX_LAYERS = 6  # panels of a history, unless layers are chosen


def heatmap(frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None) -> Chart:
    """A measure at every layer and step: of one run, or the median over runs that differ only in their seed.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the only one by default.
        panel: Axes whose values get a panel each; by default all that vary.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one panel differ in more than their seed.
    """
    (name,) = choose(with_result(frame), measure)
    made, missing = read(groups(frame, names(frame, panel, ())), name)
    panels = tuple(
        Panel(
            group.panel,
            map=HeatMap(one.steps, one.layers, one.typical.T, log10=one.log10, note=folder_list(one.folders)),
        )
        for group, one in made
    )
    runs = {len(one.folders) for _, one in made}
    what = "One run per panel." if runs == {1} else f"Median over seeds, {count_of(runs)}."
    caption = sentences(what, missing, tally(frame))
    colour = Axis(made[0][1].label)
    return Chart(Axis("step", whole=True), Axis("layer", whole=True), panels, colour=colour, caption=caption)


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    when: When = "both",
) -> Chart:
    """A measure in every layer at a run's first and last measured step, and a band from its least to largest value.

    With several runs, which differ only in their seed, the lines are medians and the band covers all runs. For one
    step alone the band is that of the runs at this step, and the lines have dashes of their own.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the only one by default.
        line: Axes whose values get two lines each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        when: ``both``, or the ``start`` or the ``end`` of training alone.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one line differ in more than their seed.
    """
    if when not in WHEN:
        raise ReportError(unknown("time", when, WHEN))
    (name,) = choose(with_result(frame), measure)
    by = names(frame, panel, line)
    made, missing = read(groups(frame, by), name, when)
    draw = _both if when == "both" else _one
    panels = into_panels((group.panel, drawn) for group, one in made for drawn in draw(group, one))
    runs = {len(one.folders) for _, one in made}
    what = "" if runs == {1} else f"Medians over seeds, {count_of(runs)}."
    band = "Band: all seeds." if what and when != "both" else ""
    caption = sentences(CAPTIONS[when], what, band, missing, tally(frame))
    return Chart(Axis("layer", whole=True), Axis(made[0][1].label), panels, by.legend, caption=caption)


def _both(group: Group, one: Measured) -> list[Line]:
    """The start, the end, and a band over all steps."""
    low, high = _extremes(one)
    made = []
    parts: tuple[tuple[Literal["start", "end"], tuple[Band, ...]], ...]
    parts = (("end", (Band(low, high),)), ("start", ()))
    for when, bands in parts:
        y = one.at(when).typical[0]
        notes = tuple(
            f"{group.line} {when} of training\nlayer {layer}: {value:.4g}\nfrom {least:.4g} to {most:.4g}".lstrip()
            for layer, value, least, most in zip(one.layers, y, low, high, strict=True)
        )
        made.append(Line(group.line, one.layers, y, bands, group.style, when, notes, folder_list(one.folders)))
    return made


def _one(group: Group, one: Measured) -> list[Line]:
    """A single step, and a band over all runs."""
    y = one.typical[0]
    notes = tuple(
        f"{group.line}\nlayer {layer}: {value:.4g}".lstrip() for layer, value in zip(one.layers, y, strict=True)
    )
    bands = (Band(*_extremes(one)),) if len(one.folders) > 1 else ()
    return [Line(group.line, one.layers, y, bands, group.style, notes=notes, note=folder_list(one.folders))]


def _extremes(one: Measured) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest finite value of every layer."""
    finite = np.where(np.isfinite(one.of_layers), one.of_layers, np.nan)
    with quiet():
        return np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))


def history(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Chart:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step; a panel for each layer.

    The neurons of several runs, which differ only in their seed, are pooled.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the only one by default.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get panels of their own, in addition to those of the layers.
        layers: The layers to show; by default six from the first to the last.

    Raises:
        ReportError: An axis, the measure or a layer does not exist, or runs of one line differ in more than their seed.
    """
    (name,) = choose(with_result(frame), measure)
    by = names(frame, panel, line)
    made, missing = read(groups(frame, by), name)
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
    left = f"Layers shown: {', '.join(map(str, shown))} of {len(every)}." if len(shown) < len(every) else ""
    caption = sentences(_values([one for _, one in made]), left, missing, tally(frame))
    return Chart(Axis("step", whole=True), Axis(made[0][1].label), panels, by.legend, caption=caption)


def _values(made: Sequence[Measured]) -> str:
    """A note on the values that a line and its bands summarise; empty for a single value."""
    counts = [one.values.shape[0] * one.values.shape[3] for one in made]
    if max(counts) == 1:
        return ""
    runs = span(len(one.folders) for one in made)
    several = any(one.values.shape[3] > 1 for one in made)
    origin = f"neurons of {runs} {'run' if runs == '1' else 'runs'}" if several else "one of each run"
    return f"Mean, quartiles and extremes over {span(counts)} values: {origin}."


def _distribution(group: Group, one: Measured, layer: int) -> Line:
    at = int(np.flatnonzero(one.layers == layer)[0])
    values = one.values[:, :, at].transpose(1, 0, 2).reshape(len(one.steps), -1)
    values = np.where(np.isfinite(values), values, np.nan)
    with quiet():
        mean = np.nanmean(values, axis=1)
        low, first, third, high = np.nanquantile(values, [0, 0.25, 0.75, 1], axis=1)
    # A single value has no distribution.
    bands = (Band(low, high), Band(first, third)) if values.shape[1] > 1 else ()
    points = zip(one.steps, mean, low, first, third, high, strict=True)
    notes = tuple(
        f"{group.line}\nstep {step}: mean {middle:.4g}\n".lstrip()
        + f"quartiles {q1:.4g} to {q3:.4g}\nall {least:.4g} to {most:.4g}"
        for step, middle, least, q1, q3, most in points
    )
    return Line(group.line, one.steps, mean, bands, group.style, notes=notes, note=folder_list(one.folders))
