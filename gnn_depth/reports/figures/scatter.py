"""Two measures of a run against one another, coloured by what the run reached."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.errors import ReportError
from gnn_depth.reports.figures.charts import Axis, Cloud, CloudPanel, Clouds
from gnn_depth.reports.figures.groups import Group, groups, last_word, names, with_result
from gnn_depth.reports.figures.measured import Measured, choose, measured, quiet
from gnn_depth.reports.figures.words import metric_label, plural, scale, sentences, tally
from gnn_depth.reports.settings import axes, label, metrics, varying
from gnn_depth.reports.tabulate import METRIC

PLACES = ("first", "last", "mean")


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    at: Sequence[str] = ("last", "first"),
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str = METRIC,
) -> Clouds:
    """A point for each run: two measures at its last measured step, coloured by a metric.

    Representations grow alike towards the last layer and gradients towards the first, hence the layers by default.

    Args:
        frame: Runs, as `load` gives them.
        measure: Names of the two measures, to the right and upwards; by default the only two, gradients upwards.
        at: The layer of each: ``first``, ``last``, or ``mean`` over all.
        line: Axes whose values get a marker each.
        panel: Axes whose values get a panel each.
        metric: What the colour shows.

    Raises:
        ReportError: An axis, a measure or the metric does not exist, or no run has both measures.
    """
    if metric not in metrics(frame):
        raise ReportError(unknown("metric", metric, metrics(frame)))
    if wrong := [place for place in at if place not in PLACES]:
        raise ReportError(unknown("layer", wrong[0], PLACES))
    if len(at) != 2:
        raise ReportError(f"two measures are taken at two layers, not at {len(at)}.")
    chosen = choose(with_result(frame), measure, count=2)
    if not measure:
        chosen.sort(key=lambda name: "grad" in name)
    pairs = _pairs(with_result(frame), chosen)
    by = names(frame, panel, line)
    clouds: dict[str, list[Cloud]] = {}
    for group in groups(frame, by, check=False):
        runs = group.runs[group.runs["folder"].isin(pairs)]
        if len(runs):
            cloud = _cloud(group, runs, pairs, at, metric, varying(frame, axes(frame)))
            clouds.setdefault(group.panel, []).append(cloud)
    x, y = (Axis(f"{one.label}, {_place(where)}") for one, where in zip(next(iter(pairs.values())), at, strict=True))
    panels = tuple(CloudPanel(title, tuple(inside)) for title, inside in clouds.items())
    every = [cloud for inside in clouds.values() for cloud in inside]
    hidden = sum(int((~np.isfinite(cloud.x + cloud.y)).sum()) for cloud in every)
    lost = f"Not drawn, because a measure is not finite: {hidden} of {plural(len(pairs))}." if hidden else ""
    caption = sentences("A point is a run at its last measured step.", lost, tally(frame))
    return Clouds(x, y, Axis(metric_label(metric)), panels, by.legend, caption)


def _pairs(runs: pd.DataFrame, measures: Sequence[str]) -> dict[str, tuple[Measured, Measured]]:
    """Both measures of every run that has them, by its folder."""
    found = {}
    for folder in runs["folder"]:
        one, other = (measured([folder], name) for name in measures)
        if one is not None and other is not None:
            found[folder] = (one, other)
    if not found:
        raise ReportError(f"no run has both {' and '.join(measures)}.")
    return found


def _cloud(
    group: Group,
    runs: pd.DataFrame,
    pairs: dict[str, tuple[Measured, Measured]],
    at: Sequence[str],
    metric: str,
    told: Sequence[str],
) -> Cloud:
    points = [[_value(one, where) for one, where in zip(pairs[folder], at, strict=True)] for folder in runs["folder"]]
    x, y = np.array(points).T
    colour = scale(metric) * runs[metric].to_numpy(dtype=float)
    notes = tuple(_note(run, told, metric, *point) for run, point in zip(runs.to_dict("records"), points, strict=True))
    return Cloud(group.line, x, y, colour, group.style, notes)


def _note(run: dict[Hashable, Any], told: Sequence[str], metric: str, x: float, y: float) -> str:
    settings = [f"{last_word(name)}={label(run[name])}" for name in told]
    reached = "no value" if math.isnan(run[metric]) else f"{scale(metric) * run[metric]:.4g}"
    return "\n".join(
        [
            ", ".join([*settings, f"seed {label(run['seed'])}"]),
            f"{metric_label(metric)}: {reached} ({run['status']})",
            f"{x:.4g}, {y:.4g}",
            run["folder"],
        ]
    )


def _value(one: Measured, where: str) -> float:
    """A measure of one run at its last step, in a layer."""
    values = one.of_layers[0, -1]
    if where == "mean":
        with quiet():
            return float(np.nanmean(values))
    return float(values[0 if where == "first" else -1])


def _place(where: str) -> str:
    return "mean of layers" if where == "mean" else f"{where} layer"
