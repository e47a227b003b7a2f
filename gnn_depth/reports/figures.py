"""Figures of runs, drawn with Matplotlib's Figure: neither a display nor pyplot is needed."""

import inspect
import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from gnn_depth.measurements import colour_scale, edges, lost_and_zero
from gnn_depth.registry import counted, unknown
from gnn_depth.reports import settings
from gnn_depth.reports.load import ReportError, at_edge, read_measures
from gnn_depth.reports.published import compare_published, read_published
from gnn_depth.reports.settings import Names, label, metric_words, scale, words
from gnn_depth.reports.table import SPREADS, Spread, tabulate
from gnn_depth.runs import RESULTS

FORMATS = (".png", ".pdf", ".svg")
# Okabe & Ito's palette, readable by the colour-blind, with grey for its yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = "os^DvPX*"
DASHES = ("-", "--", ":", "-.")
LETTERS = 14  # of text in an inch
COLUMN, PAGE, HEIGHT = 3.5, 7.0, 2.35  # inches: a journal's column and page, and a panel
RC: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "0.9",
    "lines.markersize": 4.5,
    "errorbar.capsize": 2.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "text.parse_math": False,  # a dollar in a label is a dollar
}
DODGE = 0.06  # inches between the points of several lines above one place
CROWDED = 0.05  # share of an axis: numbers nearer than this get a logarithmic axis
MAX_LAYERS = 6  # panels of a history, unless layers are chosen
REMEDY = "tell them apart with --line or --panel"
PANEL, LINE = "panel of a figure", "line of a figure"  # columns of runs and of values


def group(
    frame: pd.DataFrame,
    panel: Names | None,
    line: Names | None,
    used: Names = (),
    remedy: str | None = REMEDY,
) -> pd.DataFrame:
    """The runs in the order of panels and lines, with columns for these; None stands for all axes
    that vary and are not used otherwise.

    With a remedy, the runs of a group may differ only in their seed.
    """
    panels = settings.full_names(frame, panel)
    lines = settings.full_names(frame, line)
    # What varies and has no use of its own must be told apart, not averaged.
    taken = [*used, *panels, *lines]
    rest = tuple(name for name in settings.varying_axes(frame) if name not in taken)
    if line is None:
        lines = rest
    elif panel is None:
        panels = rest
    names = (*panels, *lines)
    groups = settings.grouped(frame, names, remedy)
    found = []
    for labels in settings.in_order(groups):
        named = [f"{words(name)}={text}" for name, text in zip(names, labels, strict=True)]
        # The values of the panels' axes come first, then those of the lines'.
        title, name = ", ".join(named[: len(panels)]), ", ".join(named[len(panels) :])
        found.append(groups[labels].assign(**{PANEL: title, LINE: name}))
    return pd.concat(found)


def with_result(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that finished or diverged; an error if there is none."""
    results = frame[frame["status"].isin(RESULTS)]
    if results.empty:
        raise ReportError(f"no run has a result: {counted(frame['status'])}.")
    return results


class Picture:
    """A figure of panels that share their axes.

    Attributes:
        drawn: Its runs or values, with columns of panels and lines.
        figure: Matplotlib's figure.
        panels: Its axes by title; scales and ticks of the first are those of all.
        notes: Sentences of the caption.
    """

    def __init__(self, drawn: pd.DataFrame, xlabel: str, ylabel: str, *notes: str) -> None:
        self.drawn, self.notes = drawn, list(notes)
        titles = drawn[PANEL].unique()
        columns = {1: 1, 2: 2, 4: 2}.get(len(titles), 3)
        rows = math.ceil(len(titles) / columns)
        self.width, self.height = min(COLUMN * columns, PAGE), rows * HEIGHT
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        grid = self.figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for spare in grid[len(titles) :]:
            spare.remove()
        self.panels: dict[str, Axes] = dict(zip(titles, grid, strict=False))
        for place, (title, axes) in enumerate(self.panels.items()):
            axes.set_title(filled(title, self.width / columns))
            # The lowest of each column has numbers, also above a gap in the last row.
            axes.tick_params(labelbottom=place + columns >= len(titles))
        self.figure.supxlabel(xlabel, size="medium")
        self.figure.supylabel(filled(ylabel, self.height + 0.3), size="medium", ha="center")
        if xlabel in ("step", "layer"):
            grid[0].locator_params("x", nbins=6, steps=[1, 2, 5, 10], integer=True)
        self.names = drawn[LINE].unique().tolist()  # of the lines

    def lines(self) -> Iterator[tuple[Axes, dict[str, Any], pd.DataFrame]]:
        """For every line its panel, its look, which is the same in every panel, and its runs or
        values."""
        for (title, name), mine in self.drawn.groupby([PANEL, LINE], sort=False):
            style = self.names.index(name)
            look = {
                "label": name,
                "color": COLOURS[style % len(COLOURS)],
                "marker": MARKERS[(style + style // len(COLOURS)) % len(MARKERS)],
                "linestyle": DASHES[style % len(DASHES)],
            }
            yield self.panels[title], look, mine

    def colours(
        self, values: pd.Series, unit: str, around_zero: bool = False, **extremes: str
    ) -> dict[str, Any]:
        """The colours of values as options of Matplotlib; their scale stands beside the panels."""
        name, low, high = colour_scale(values.to_numpy(), around_zero)
        shades = ScalarMappable(cmap=matplotlib.colormaps[name].with_extremes(**extremes))
        shades.set_clim(low, high)
        bar = self.figure.colorbar(shades, ax=list(self.panels.values()))
        bar.set_label(filled(unit, self.height))
        return {"norm": shades.norm, "cmap": shades.cmap}

    def save(self, path: Path) -> None:
        """Write the figure into a file, whose suffix is the format."""
        with matplotlib.rc_context(RC):
            self.figure.savefig(path, dpi=200, bbox_inches="tight", pad_inches=0.03)


def filled(text: str, inches: float) -> str:
    """A text in lines of a width."""
    return textwrap.fill(text, int(LETTERS * inches))


def draw(kind: str, frame: pd.DataFrame, heading: str = "", **options: Any) -> Picture:
    """Draw runs as a figure of a kind, one of `KINDS`: the functions below, with their options.

    Raises:
        ReportError: An option names something that does not exist.
    """
    with matplotlib.rc_context(RC):
        picture = KINDS[kind](frame, **options)
        picture.figure.suptitle(filled(heading, picture.width))
        handles: dict[str, Any] = {}
        for axes in picture.panels.values():
            of_panel, labels = axes.get_legend_handles_labels()
            handles |= dict(zip(labels, of_panel, strict=True))
        # Below the figure, in the tight box of what is saved.
        picture.figure.legend(
            handles.values(),
            handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            borderaxespad=0,
            ncols=max(1, int(LETTERS * picture.width) // max(map(len, [*handles, " " * 8]))),
        )
    picture.notes += settings.tally(frame["status"])
    return picture


def check_options(kind: str, options: Collection[str]) -> None:
    """Refuse options that a kind of figure does not have."""
    _, *accepted = inspect.signature(KINDS[kind]).parameters  # the functions are the one list
    for name in options:
        if name not in accepted:
            raise ReportError(unknown(f"option of figure {kind!r}", name, accepted))


def curve(axes: Axes, look: dict[str, Any], y: pd.Series) -> None:
    """A line over the index of its values, with markers at some of its points."""
    axes.plot(y.index, y, markevery=max(1, len(y) // 8), **look)


def band(axes: Axes, look: dict[str, Any], low: pd.Series, high: pd.Series) -> None:
    """A band in the colour of a line; it ends where an edge is NaN."""
    axes.fill_between(low.index, low, high, color=look["color"], alpha=0.16)


def depth(
    frame: pd.DataFrame,
    x: str = "depth",
    line: Names | None = None,
    panel: Names = (),
    metric: str | None = None,
    spread: Spread = "std",
    published: str | None = None,
) -> Picture:
    """Mean over seeds of a metric against an axis, with bars for its spread.

    Published numbers, from a file, are open markers in the colour of the line that they compare
    with. Numbers near to one another, such as 2, 4, 8, ..., 128, get a logarithmic axis.
    """
    metric = settings.known_metric(with_result(frame), metric)
    if x == "depth" and x not in map(settings.last_part, settings.settings(frame)):
        x = "num_layers"
    across = settings.full_name(frame, x)
    values = [text for (text,) in settings.in_order(zip(frame[across].map(label)))]
    places = np.array(list(map(settings.number, values)), float)  # NaN for a name
    has_names = np.isnan(places).any()
    if has_names:
        places = np.arange(1.0, 1 + len(values))
    place_of = dict(zip(values, places, strict=True))
    groups = group(frame, panel, line, [across], remedy=None)
    picture = Picture(groups, words(across), metric_words(metric))
    known = []
    if published is not None:
        known = read_published(published, metric)
    counts, factor = [], scale(metric)
    for axes, look, runs in picture.lines():
        name = look["label"]
        table = tabulate(runs, [across], (), metric, spread, REMEDY)  # which checks the runs
        at = np.array([place_of[text] for (text,) in table.cells])
        if has_names:  # nothing connects names
            look["linestyle"] = "none"
        # The points of several lines stand side by side.
        shift = DODGE * (picture.names.index(name) - (len(picture.names) - 1) / 2)
        beside = ScaledTranslation(shift, 0, picture.figure.dpi_scale_trans)
        cells = list(table.cells.values())
        half = np.array([cell.half_width(spread) for cell in cells], dtype=float)  # None is NaN
        mean = np.array([cell.mean for cell in cells])
        counts += [cell.n for cell in cells]
        drawn = axes.errorbar(at, factor * mean, factor * half, **look)
        axes.margins(x=0.1)
        for artist in drawn.get_children():  # now, as the limits of the axes come from transData
            artist.set_transform(axes.transData + beside)
        for one in compare_published(table, known):
            # The table has the whole citation.
            source, number = one.published.source.split(",")[0], one.published.number
            look["label"] = f"{name}, {source}".removeprefix(", ")
            look |= {"linestyle": "none", "markerfacecolor": "white"}
            y, width = factor * np.array([number.mean, number.half or math.nan])
            axes.errorbar(place_of[one.labels[0]], y, width, **look)
    first, *_ = picture.panels.values()
    if not has_names and places[0] > 0 and (np.diff(places) < CROWDED * np.ptp(places)).any():
        first.set_xscale("log")
    first.set_xticks(places, values)
    first.set_xticks([], minor=True)
    picture.notes.append(f"Mean and {SPREADS[spread]} over seeds, {settings.n_of(counts)}.")
    return picture


def axis_label(values: pd.DataFrame) -> str:
    """A measure's unit, or its name without one."""
    facts = values.attrs
    return "log₁₀ " * facts["log10"] + (facts["unit"] or facts["name"].replace("_", " "))


def measured(
    frame: pd.DataFrame,
    measure: Names,
    panel: Names | None,
    line: Names | None,
) -> tuple[pd.DataFrame, list[str]]:
    """The values of a measure in every line of every panel, and notes on them."""
    results = with_result(frame)
    groups = group(results, panel, line)
    values = read_measures(groups, " ".join(measure))
    for column in (PANEL, LINE):
        values[column] = values["run"].map(groups[column])
    ends = values.groupby([PANEL, LINE, "run"])["step"].max()
    of_line = ends.groupby([PANEL, LINE])
    lost, zero = lost_and_zero(values["value"].to_numpy(), values.attrs["log10"])
    notes = [f"Over seeds, {settings.n_of(of_line.size())}."]
    for what, count in (
        ("Exactly zero (in heat maps black)", zero.sum()),
        ("Not finite (grey)", lost.sum()),
        ("Ended earlier than other seeds", (ends < of_line.transform("max")).sum()),
        ("Without this measure", len(results) - values["run"].nunique()),
    ):
        if count:
            notes.append(f"{what}: {count}.")
    return values, notes


def of_layers(values: pd.DataFrame) -> pd.Series:
    """Mean over the neurons of each layer; a measure of whole layers stays as it is."""
    return values.groupby([PANEL, "run", "step", "layer"])["value"].mean()


def heatmap(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    panel: Sequence[str] | None = None,
) -> Picture:
    """A measure at every layer and step, the median over seeds.

    An exact zero, which has no logarithm, is black, and a value that is not finite is grey.
    """
    values, notes = measured(frame, measure, panel, ())
    picture = Picture(values, "step", "layer", "Median.", *notes)
    medians = of_layers(values).groupby([PANEL, "step", "layer"]).median()
    around_zero = values.attrs["around_zero"]
    look = picture.colours(medians, axis_label(values), around_zero, under="black", bad="0.6")
    for title, axes in picture.panels.items():
        cells = medians[title].unstack("step")
        lost, zero = lost_and_zero(cells.to_numpy(), values.attrs["log10"])
        # A zero is drawn as something below the scale.
        shown = np.ma.masked_array(np.where(zero, look["norm"].vmin - 1, cells), lost)
        x, y = edges(cells.columns.to_numpy()), edges(cells.index.to_numpy())
        # Thousands of cells would make a PDF slow.
        axes.pcolormesh(x, y, shown, rasterized=True, **look)
        axes.locator_params("y", integer=True)
    return picture


def layers(
    frame: pd.DataFrame,
    measure: Names = (),
    line: Names | None = None,
    panel: Names = (),
) -> Picture:
    """A measure in every layer at the first and last measured step, and a band between extremes.

    The lines are medians over seeds. The band covers all of them at all steps.
    """
    values, notes = measured(frame, measure, panel, line)
    legend = "Medians. Dotted, open: start of training; filled: end; band: during training."
    picture = Picture(values, "layer", axis_label(values), legend, *notes)
    start = {"linestyle": ":", "markerfacecolor": "white", "label": None}
    for axes, look, mine in picture.lines():
        # An edge at infinity would hide the rest.
        finite = of_layers(mine).replace([-math.inf, math.inf], math.nan).groupby("layer")
        band(axes, look, finite.min(), finite.max())
        for edge, of_edge in (("min", look | start), ("max", look)):
            median = of_layers(at_edge(mine, "step", edge)).groupby("layer").median()
            curve(axes, of_edge, median)
    return picture


def history(
    frame: pd.DataFrame,
    measure: Names = (),
    line: Names | None = None,
    panel: Names = (),
    layers: Sequence[int] = (),
) -> Picture:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step.

    Every layer has a panel. The neurons of several seeds are pooled. By default six layers are
    shown, from the first to the last.
    """
    values, notes = measured(frame, measure, panel, line)
    every = np.unique(values["layer"])
    places = np.linspace(0, len(every) - 1, min(len(every), MAX_LAYERS)).round().astype(int)
    of_layer = []
    for layer in layers or every[places]:
        if layer not in every:
            raise ReportError(unknown("layer", str(layer), map(str, every)))
        mine = values[values["layer"] == layer]
        title = (mine[PANEL] + f", layer {layer}").str.removeprefix(", ")
        of_layer.append(mine.assign(**{PANEL: title}))
    drawn = pd.concat(of_layer)
    legend = f"Layers: {len(every)}."
    if "neuron" in values:
        legend = f"Mean, quartiles and extremes of neurons. {legend}"
    picture = Picture(drawn, "step", axis_label(values), legend, *notes)
    for axes, look, mine in picture.lines():
        finite = mine["value"].where(np.isfinite(mine["value"])).groupby(mine["step"])
        for low, high in ((0.0, 1.0), (0.25, 0.75)):
            band(axes, look, finite.quantile(low), finite.quantile(high))
        curve(axes, look, finite.mean())
    return picture


def scatter(
    frame: pd.DataFrame,
    measure: Names = (),
    line: Names = (),
    panel: Names = (),
    metric: str | None = None,
) -> Picture:
    """A point for each run at its last step: a measure against another one or against a metric.

    The metric gives the colour, white if a run has none. Each measure is taken at the layer that
    its signal reaches last: the first one for gradients, the last one for others.
    """
    # Without a remedy: nothing is averaged.
    results = group(with_result(frame), panel, line, remedy=None)
    metric = settings.known_metric(results, metric)
    found = {}
    for name in measure or [""]:  # which is refused, with the names that there are
        values = read_measures(results, name)
        edge, where = "max", "last"
        if "grad" in name:
            edge, where = "min", "first"
        at = at_edge(at_edge(values, "step", "max"), "layer", edge)
        found[f"{axis_label(values)}, {where} layer"] = at.groupby("run")["value"].mean()
    shade = metric_words(metric)
    found[shade] = scale(metric) * results[metric]
    xlabel, ylabel = list(found)[:2]
    points = results[[PANEL, LINE]].assign(**found)
    hidden = (~np.isfinite(points[[xlabel, ylabel]])).any(axis=1).sum()
    legend = f"A point is a run at its last measured step. Not finite: {hidden}."
    picture = Picture(points, xlabel, ylabel, legend)
    shown = picture.colours(points[shade], shade, bad="white")
    for axes, look, mine in picture.lines():
        own = {"marker": look["marker"], "edgecolors": "black"}
        at = mine[xlabel], mine[ylabel]
        axes.scatter(*at, c=mine[shade], plotnonfinite=True, **shown, **own)
        axes.scatter([], [], color="0.6", label=look["label"], **own)  # in the legend
    return picture


KINDS: dict[str, Callable[..., Picture]] = {
    "depth": depth,
    "heatmap": heatmap,
    "layers": layers,
    "history": history,
    "scatter": scatter,
}
