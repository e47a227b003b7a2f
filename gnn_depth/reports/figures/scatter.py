"""A point for each run: two measures coloured by a metric, or a metric against one measure."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Chart, Points, quiet
from gnn_depth.reports.figures.groups import (
    Group,
    groups,
    into_panels,
    metric_axis,
    names,
    plural,
    scale,
    sentences,
    tally,
    with_result,
)
from gnn_depth.reports.figures.measured import Measured, choose, measured
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import label, main_metric, metric_words, metrics, varying_axes, words

PLACES = ("first", "last", "mean")


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    at: Sequence[str] | None = None,
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str | None = None,
) -> Chart:
    """A point for each run: two measures at its last measured step, coloured by a metric, or a metric against one.

    By default each measure is taken at the layer that the signal reaches last: the last one going forward, the first
    one for gradients.

    Args:
        frame: Runs, as `load` returns them.
        measure: Names of the measures for x and y; by default the only two, gradients on y. With a single one the
            metric is on y.
        at: The layer of each: ``first``, ``last``, or ``mean`` over all. By default the last for x and the first for y;
            for a single measure the first for gradients and the last for anything else.
        line: Axes whose values get a marker each.
        panel: Axes whose values get a panel each.
        metric: The metric shown by the colour, or by the height.

    Raises:
        ReportError: An axis, a measure or the metric does not exist, or no run has the measures.
    """
    metric = main_metric(frame) if metric is None else metric
    if metric not in metrics(frame):
        raise ReportError(unknown("metric", metric, metrics(frame)))
    results = with_result(frame)
    chosen = choose(results, measure, [1, 2])
    if not measure:
        chosen.sort(key=lambda name: "grad" in name)
    at = _places(chosen, at)
    each = {folder: [measured([folder], name) for name in chosen] for folder in results["folder"]}
    found = {folder: [one for one in ones if one] for folder, ones in each.items() if all(ones)}
    if not found:
        raise ReportError(f"no run has {'both ' if len(chosen) == 2 else ''}{' and '.join(chosen)}.")
    by, named = names(frame, panel, line), varying_axes(frame)
    drawn = [
        (group.panel, _points(group, runs, found, at, metric, named))
        for group in groups(frame, by, check=False)
        if len(runs := group.runs[group.runs["folder"].isin(found)])
    ]
    x, *y = [
        Axis(f"{one.label}, {'mean of layers' if where == 'mean' else f'{where} layer'}")
        for one, where in zip(next(iter(found.values())), at, strict=True)
    ]
    hidden = sum(int((~np.isfinite(points.x + points.y)).sum()) for _, points in drawn)
    what = "a measure is not finite" if y else "the measure or the metric is not finite"
    lost = f"Not drawn, because {what}: {hidden} of {plural(len(found))}." if hidden else ""
    return Chart(
        x,
        y[0] if y else metric_axis(metric),
        into_panels(drawn),
        by.legend,
        colour=Axis(metric_words(metric)) if y else None,
        caption=sentences("A point is a run at its last measured step.", lost, tally(frame)),
    )


def _places(measures: Sequence[str], at: Sequence[str] | None) -> Sequence[str]:
    """The layer of each measure."""
    if at is None:
        return ("last", "first") if len(measures) == 2 else ("first" if "grad" in measures[0] else "last",)
    if wrong := [place for place in at if place not in PLACES]:
        raise ReportError(unknown("layer", wrong[0], PLACES))
    if len(at) != len(measures):
        both = f"{plural(len(at), 'layer')} for {plural(len(measures), 'measure')}"
        raise ReportError(f"each measure needs one layer: --at gives {both}.")
    return at


def _points(
    group: Group,
    runs: pd.DataFrame,
    found: dict[str, list[Measured]],
    at: Sequence[str],
    metric: str,
    named: Sequence[str],
) -> Points:
    points = [[_value(one, where) for one, where in zip(found[folder], at, strict=True)] for folder in runs["folder"]]
    values = scale(metric) * runs[metric].to_numpy(dtype=float)
    x, y, colour = [*np.array(points).T, values, values][:3]  # with a single measure the metric is on y
    notes = tuple(_note(run, named, metric, point) for run, point in zip(runs.to_dict("records"), points, strict=True))
    return Points(group.line, x, y, colour, group.style, notes)


def _note(run: dict[Hashable, Any], named: Sequence[str], metric: str, values: Sequence[float]) -> str:
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


def _value(one: Measured, where: str) -> float:
    """A measure of one run at its last step, in a layer."""
    values = one.of_layers[0, -1]
    with quiet():
        return float({"first": values[0], "last": values[-1]}.get(where, np.nanmean(values)))
