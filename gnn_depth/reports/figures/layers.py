"""A measure against the layer: at the start and at the end of training, and between its extremes."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Axis, Band, Line, Lines
from gnn_depth.reports.figures.groups import Group, groups, into_panels, names, with_result
from gnn_depth.reports.figures.measured import Measured, choose, quiet, read
from gnn_depth.reports.figures.words import count_of, listed, sentences, tally
from gnn_depth.reports.load import ReportError

When: TypeAlias = Literal["both", "start", "end"]
WHEN: tuple[When, ...] = get_args(When)
KEYS = {
    "both": "Dotted, open: start of training. Solid, filled: end. Band: least to largest value during training.",
    "start": "At the first measured step.",
    "end": "At the last measured step.",
}


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    when: When = "both",
) -> Lines:
    """A measure in every layer at a run's first and last measured step, in a band from its least to its largest value.

    Of several runs, which differ in their seed alone, the lines are medians and the band holds all of them. Where the
    figure is of one step alone, so is the band, which is then of the runs, and the lines may differ in their dashes.

    Args:
        frame: Runs, as `load` gives them.
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
    caption = sentences(KEYS[when], what, "Band: all seeds." if what and when != "both" else "", missing, tally(frame))
    return Lines(Axis("layer", whole=True), Axis(made[0][1].label), panels, by.legend, caption)


def _both(group: Group, one: Measured) -> list[Line]:
    """The start and the end, and everything between."""
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
        made.append(Line(group.line, one.layers, y, bands, group.style, when, notes, listed(one.folders)))
    return made


def _one(group: Group, one: Measured) -> list[Line]:
    """A single step, and all runs around their median."""
    y = one.typical[0]
    notes = tuple(
        f"{group.line}\nlayer {layer}: {value:.4g}".lstrip() for layer, value in zip(one.layers, y, strict=True)
    )
    bands = (Band(*_extremes(one)),) if len(one.folders) > 1 else ()
    return [Line(group.line, one.layers, y, bands, group.style, notes=notes, note=listed(one.folders))]


def _extremes(one: Measured) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest finite value of every layer."""
    finite = np.where(np.isfinite(one.of_layers), one.of_layers, np.nan)
    with quiet():
        return np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))
