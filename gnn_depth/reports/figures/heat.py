"""Heat maps of a measure over layers and steps."""

from collections.abc import Sequence

import pandas as pd

from gnn_depth.reports.figures.charts import Axis, MapPanel, Maps
from gnn_depth.reports.figures.groups import groups, names, with_result
from gnn_depth.reports.figures.measured import choose, read
from gnn_depth.reports.figures.words import count_of, listed, sentences, tally


def heatmap(frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None) -> Maps:
    """A measure at every layer and step: of one run, or the median over runs that differ in their seed alone.

    Args:
        frame: Runs, as `load` gives them.
        measure: Name of the measure; the only one by default.
        panel: Axes whose values get a panel each; by default all that vary.

    Raises:
        ReportError: An axis or the measure does not exist, or runs of one panel differ in more than their seed.
    """
    (name,) = choose(with_result(frame), measure)
    made, missing = read(groups(frame, names(frame, panel, ())), name)
    panels = tuple(
        MapPanel(group.panel, one.steps, one.layers, one.typical.T, listed(one.folders)) for group, one in made
    )
    first = made[0][1]
    runs = {len(one.folders) for _, one in made}
    what = "One run a panel." if runs == {1} else f"Median over seeds, {count_of(runs)}."
    caption = sentences(what, missing, tally(frame))
    colour = Axis(first.label)
    return Maps(Axis("step", whole=True), Axis("layer", whole=True), colour, panels, first.log10, caption)
