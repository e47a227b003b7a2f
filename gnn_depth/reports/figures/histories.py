"""How a measure of neurons is distributed in every layer over a training."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gnn_depth.reports.figures.charts import Axis, Band, Line, Lines
from gnn_depth.reports.figures.groups import Group, groups, into_panels, names, with_result
from gnn_depth.reports.figures.measured import Measured, choose, quiet, read
from gnn_depth.reports.figures.words import listed, sentences, span, tally
from gnn_depth.reports.load import ReportError

MAX_LAYERS = 6


def history(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Lines:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step; a panel for each layer.

    The neurons of several runs, which differ in their seed alone, are taken together.

    Args:
        frame: Runs, as `load` gives them.
        measure: Name of the measure; the only one by default.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get panels of their own, besides those of the layers.
        layers: The layers that are shown; by default six from the first to the last.

    Raises:
        ReportError: An axis, the measure or a layer does not exist, or runs of one line differ in more than their seed.
    """
    (name,) = choose(with_result(frame), measure)
    by = names(frame, panel, line)
    made, missing = read(groups(frame, by), name)
    every = sorted({int(layer) for _, one in made for layer in one.layers})
    shown = _shown(every, layers)
    panels = into_panels(
        (", ".join(filter(None, [group.panel, f"layer {layer}"])), _line(group, one, layer))
        for layer in shown
        for group, one in made
        if layer in one.layers
    )
    what = _what([one for _, one in made])
    left = f"Layers shown: {', '.join(map(str, shown))} of {len(every)}." if len(shown) < len(every) else ""
    caption = sentences(what, left, missing, tally(frame))
    return Lines(Axis("step", whole=True), Axis(made[0][1].label), panels, by.legend, caption)


def _what(made: Sequence[Measured]) -> str:
    """What a line and its bands are; a single value is no mean."""
    counts = [one.values.shape[0] * one.values.shape[3] for one in made]
    if max(counts) == 1:
        return ""
    runs = span(len(one.folders) for one in made)
    several = any(one.values.shape[3] > 1 for one in made)
    of = f"neurons of {runs} {'run' if runs == '1' else 'runs'}" if several else "one of each run"
    return f"Mean, quartiles and extremes over {span(counts)} values: {of}."


def _shown(every: Sequence[int], layers: Sequence[int]) -> list[int]:
    if absent := [layer for layer in layers if layer not in every]:
        raise ReportError(f"layer {absent[0]} was not measured. Available: {span(every)}.")
    if layers:
        return list(dict.fromkeys(layers))
    places = np.linspace(0, len(every) - 1, min(len(every), MAX_LAYERS)).round().astype(int)
    return [every[place] for place in places]


def _line(group: Group, one: Measured, layer: int) -> Line:
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
    return Line(group.line, one.steps, mean, bands, group.style, notes=notes, note=listed(one.folders))
