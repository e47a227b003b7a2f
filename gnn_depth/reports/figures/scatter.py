"""Two measures of a run against one another, coloured by what the run reached."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Cloud, CloudPanel, Clouds
from gnn_depth.reports.figures.groups import Group, groups, last_word, names, with_result
from gnn_depth.reports.figures.measured import Measured, choose, measured, quiet
from gnn_depth.reports.figures.measured import names as measures_of
from gnn_depth.reports.figures.words import metric_axis, metric_label, plural, scale, sentences, tally
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import axes, label, metrics, varying
from gnn_depth.reports.table import METRIC

PLACES = ("first", "last", "mean")


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    at: Sequence[str] | None = None,
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str = METRIC,
) -> Clouds:
    """A point for each run: two measures at its last measured step, coloured by a metric, or a metric against one.

    Representations grow alike towards the last layer and gradients towards the first, hence the layers by default.

    Args:
        frame: Runs, as `load` gives them.
        measure: Names of the measures, to the right and upwards; by default the only two, gradients upwards. Of a
            single one, the metric goes upwards.
        at: The layer of each: ``first``, ``last``, or ``mean`` over all. By default the last and the first; of a single
            measure the first of gradients, and the last of anything else.
        line: Axes whose values get a marker each.
        panel: Axes whose values get a panel each.
        metric: What the colour shows, or the height.

    Raises:
        ReportError: An axis, a measure or the metric does not exist, or no run has the measures.
    """
    if metric not in metrics(frame):
        raise ReportError(unknown("metric", metric, metrics(frame)))
    results = with_result(frame)
    count = 1 if len(measure or measures_of(results["folder"])) == 1 else 2
    chosen = choose(results, measure, count)
    if not measure:
        chosen.sort(key=_of_gradients)
    at = _places(chosen, at)
    found = _found(results, chosen)
    by = names(frame, panel, line)
    clouds: dict[str, list[Cloud]] = {}
    for group in groups(frame, by, check=False):
        runs = group.runs[group.runs["folder"].isin(found)]
        if len(runs):
            cloud = _cloud(group, runs, found, at, metric, varying(frame, axes(frame)))
            clouds.setdefault(group.panel, []).append(cloud)
    sides = [Axis(f"{one.label}, {_place(where)}") for one, where in zip(next(iter(found.values())), at, strict=True)]
    panels = tuple(CloudPanel(title, tuple(inside)) for title, inside in clouds.items())
    every = [cloud for inside in clouds.values() for cloud in inside]
    hidden = sum(int((~np.isfinite(cloud.x + cloud.y)).sum()) for cloud in every)
    what = "a measure is not finite" if count == 2 else "the measure or the metric is not finite"
    lost = f"Not drawn, because {what}: {hidden} of {plural(len(found))}." if hidden else ""
    caption = sentences("A point is a run at its last measured step.", lost, tally(frame))
    if count == 1:
        return Clouds(sides[0], metric_axis(metric), None, panels, by.legend, caption)
    return Clouds(sides[0], sides[1], Axis(metric_label(metric)), panels, by.legend, caption)


def _of_gradients(name: str) -> bool:
    return "grad" in name


def _places(measures: Sequence[str], at: Sequence[str] | None) -> Sequence[str]:
    """The layer of each measure."""
    if at is None:
        return ("last", "first") if len(measures) == 2 else ("first" if _of_gradients(measures[0]) else "last",)
    if wrong := [place for place in at if place not in PLACES]:
        raise ReportError(unknown("layer", wrong[0], PLACES))
    if len(at) != len(measures):
        raise ReportError(f"every measure is taken at one layer: {len(measures)} of them at {len(at)} do not fit.")
    return at


def _found(runs: pd.DataFrame, measures: Sequence[str]) -> dict[str, list[Measured]]:
    """The measures of every run that has all of them, by its folder."""
    each = {folder: [measured([folder], name) for name in measures] for folder in runs["folder"]}
    found = {folder: [one for one in ones if one is not None] for folder, ones in each.items()}
    found = {folder: ones for folder, ones in found.items() if len(ones) == len(measures)}
    if not found:
        raise ReportError(f"no run has {'both ' if len(measures) == 2 else ''}{' and '.join(measures)}.")
    return found


def _cloud(
    group: Group,
    runs: pd.DataFrame,
    found: dict[str, list[Measured]],
    at: Sequence[str],
    metric: str,
    told: Sequence[str],
) -> Cloud:
    points = [[_value(one, where) for one, where in zip(found[folder], at, strict=True)] for folder in runs["folder"]]
    reached = scale(metric) * runs[metric].to_numpy(dtype=float)
    x, y, colour = [*np.array(points).T, reached, reached][:3]  # of a single measure the metric goes upwards
    notes = tuple(_note(run, told, metric, point) for run, point in zip(runs.to_dict("records"), points, strict=True))
    return Cloud(group.line, x, y, colour, group.style, notes)


def _note(run: dict[Hashable, Any], told: Sequence[str], metric: str, values: Sequence[float]) -> str:
    settings = [f"{last_word(name)}={label(run[name])}" for name in told]
    reached = "no value" if math.isnan(run[metric]) else f"{scale(metric) * run[metric]:.4g}"
    return "\n".join(
        [
            ", ".join([*settings, f"seed {label(run['seed'])}"]),
            f"{metric_label(metric)}: {reached} ({run['status']})",
            ", ".join(f"{value:.4g}" for value in values),
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
