"""Figures of a measure over layers: heat maps over steps, start and end of the training, distributions of neurons."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, quiet
from gnn_depth.reports.figures.groups import Group, count_of, folder_list, into_panels, names, sentences, span
from gnn_depth.reports.figures.measured import WHEN, Measured, When, read
from gnn_depth.reports.load import ReportError

CAPTIONS = {
    "both": "Dotted, open: start of training. Solid, filled: end. Band: least to largest value during training.",
    "start": "At the first measured step.",
    "end": "At the last measured step.",
}
MAX_LAYERS = 6  # panels of a history, unless layers are chosen
STEP, LAYER = Axis("step", whole=True), Axis("layer", whole=True)


def heatmap(frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None) -> Chart:
    """A measure at every layer and step: of one run, or the median over runs that differ only in their seed.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the first one by default.
        panel: Axes whose values get a panel each; by default all that vary.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one panel differ in more than their seed.
    """
    made, missing = read(frame, measure, names(frame, panel, (), has_lines=False))
    maps = [HeatMap(one.steps, one.layers, one.typical.T, one.log10, folder_list(one.folders)) for _, one in made]
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
    """A measure in every layer at a run's first and last measured step, and a band from its least to largest value.

    With several runs, which differ only in their seed, the lines are medians and the band covers all runs. With
    only one of the two steps, the band covers the runs at that step, and each line has its own dashes.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the first one by default.
        line: Axes whose values get two lines each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        when: ``both``, or the ``start`` or the ``end`` of training alone.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one line differ in more than their seed.
    """
    if when not in WHEN:
        raise ReportError(unknown("time", when, WHEN))
    by = names(frame, panel, line)
    made, missing = read(frame, measure, by, when)
    panels = into_panels((group.panel, drawn) for group, one in made for drawn in _over_layers(group, one, when))
    seeds = _seeds(made, "Medians over seeds")
    caption = sentences(CAPTIONS[when], seeds, "Band: all seeds." if seeds and when != "both" else "", missing)
    return Chart(LAYER, Axis(made[0][1].label), panels, by.legend, caption=caption)


def _over_layers(group: Group, one: Measured, when: When) -> Iterator[Line]:
    """A line for the end and one for the start, or a single one; the first with a band over all steps and runs."""
    finite = np.where(np.isfinite(one.of_layers), one.of_layers, np.nan)
    with quiet():
        band = np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))
    folders = folder_list(one.folders)
    if when == "both":
        yield Line(group.line, one.layers, one.at("end").typical[0], (band,), group.style, "end", note=folders)
        yield Line(group.line, one.layers, one.at("start").typical[0], (), group.style, "start", note=folders)
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
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step; a panel for each layer.

    The neurons of several runs, which differ only in their seed, are pooled.

    Args:
        frame: Runs, as `load` returns them.
        measure: Name of the measure; the first one by default.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get panels of their own, in addition to those of the layers.
        layers: The layers to show; by default six from the first to the last.

    Raises:
        ReportError: An axis, the measure or a layer does not exist, or runs of one line differ in more than their seed.
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
    left = f"Layers shown: {', '.join(map(str, shown))} of {len(every)}." if len(shown) < len(every) else ""
    caption = sentences(_pooled([one for _, one in made]), left, missing)
    return Chart(STEP, Axis(made[0][1].label), panels, by.legend, caption=caption)


def _pooled(made: Sequence[Measured]) -> str:
    """A note on the values that a line and its bands summarise; empty for a single value."""
    counts = [one.values.shape[0] * one.values.shape[3] for one in made]
    runs = span(len(one.folders) for one in made)
    several = any(one.values.shape[3] > 1 for one in made)
    origin = f"neurons of {runs} {'run' if runs == '1' else 'runs'}" if several else "one of each run"
    return "" if max(counts) == 1 else f"Mean, quartiles and extremes over {span(counts)} values: {origin}."


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
