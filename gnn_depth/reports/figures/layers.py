"""A measure against the layer: at the start and at the end of training, and between its extremes."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from gnn_depth.reports.figures.charts import Axis, Band, Line, Lines
from gnn_depth.reports.figures.groups import Group, groups, into_panels, names, with_result
from gnn_depth.reports.figures.measured import Measured, choose, quiet, read
from gnn_depth.reports.figures.words import count_of, listed, sentences, tally


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
) -> Lines:
    """A measure in every layer at a run's first and last measured step, in a band from its least to its largest value.

    Of several runs, which differ in their seed alone, the lines are medians and the band holds all of them.

    Args:
        frame: Runs, as `load` gives them.
        measure: Name of the measure; the only one by default.
        line: Axes whose values get two lines each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one line differ in more than their seed.
    """
    (name,) = choose(with_result(frame), measure)
    by = names(frame, panel, line)
    made, missing = read(groups(frame, by), name)
    panels = into_panels((group.panel, drawn) for group, one in made for drawn in _lines(group, one))
    runs = {len(one.folders) for _, one in made}
    what = "" if runs == {1} else f"Medians over seeds, {count_of(runs)}."
    key = "Dotted, open: start of training. Solid, filled: end. Band: least to largest value during training."
    caption = sentences(key, what, missing, tally(frame))
    return Lines(Axis("layer", whole=True), Axis(made[0][1].label), panels, by.legend, caption)


def _lines(group: Group, one: Measured) -> list[Line]:
    values = one.of_layers
    runs = np.arange(len(values))
    first, last = one.reached.argmax(axis=1), one.reached.shape[1] - 1 - one.reached[:, ::-1].argmax(axis=1)
    finite = np.where(np.isfinite(values), values, np.nan)
    with quiet():
        low, high = np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))
    made = []
    parts: tuple[tuple[Literal["start", "end"], np.ndarray, tuple[Band, ...]], ...]
    parts = (("end", last, (Band(low, high),)), ("start", first, ()))
    for when, at, bands in parts:
        with quiet():
            y = np.nanmedian(values[runs, at], axis=0)
        notes = tuple(
            f"{group.line} {when} of training\nlayer {layer}: {value:.4g}\nfrom {least:.4g} to {most:.4g}".lstrip()
            for layer, value, least, most in zip(one.layers, y, low, high, strict=True)
        )
        made.append(Line(group.line, one.layers, y, bands, group.style, when, notes, listed(one.folders)))
    return made
