"""Figures of runs, drawn with Matplotlib's Figure: neither a display nor pyplot is needed."""

import inspect
import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gnn_depth.measurements import colour_scale, edges, lost_and_zero, measure_names
from gnn_depth.registry import unknown
from gnn_depth.reports import settings
from gnn_depth.reports.load import ReportError, at_edge, read_curves, read_measures
from gnn_depth.reports.published import Published, compare_published
from gnn_depth.reports.settings import Labels, counted, is_percent, metric_words, plural, words
from gnn_depth.reports.table import SPREADS, Spread, t_half_width, tabulate
from gnn_depth.runs import RESULTS

FORMATS = (".png", ".pdf", ".svg")
WHEN = ("both", "start", "end")
# Okabe & Ito's palette, readable by the colour-blind, with grey for its yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = "os^DvPX*"
DASHES = ("-", "--", ":", "-.")
COLUMN, PAGE, HEIGHT = 3.5, 7.2, 2.35  # inches: a journal's column and page, and a panel
LETTERS = 14  # of text in an inch
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
DODGE = 0.1  # between the points of several lines above one name
CROWDED = 0.05  # share of an axis: numbers nearer than this get a logarithmic axis
MAX_LAYERS = 6  # panels of a history, unless layers are chosen


class Grouping(NamedTuple):
    """Names of the axes whose values get a panel or a line each."""

    panel: Labels
    line: Labels

    def split(self, values: Labels) -> tuple[str, str]:
        """The panel's title, such as ``data=Cora, depth=10``, and the line's label."""
        titles = []
        # The values of the panel's axes come first, then those of the line's.
        for name, value in zip(self.panel, values, strict=False):
            titles.append(value if name == "name" else f"{words(name)}={value}")
        return ", ".join(titles), ", ".join(values[len(self.panel) :])

    @property
    def remedy(self) -> str:
        """How to keep apart runs that differ: the beginning of an advice."""
        return f"tell them apart with --line or {' '.join(['--panel', *self.panel])}"


def grouping(
    frame: pd.DataFrame,
    panel: Sequence[str] | None,
    line: Sequence[str] | None,
    used: Sequence[str] = (),
) -> Grouping:
    """The grouping by some axes; None stands for all that vary and are not used otherwise."""
    panels = settings.full_names(frame, panel or ())
    lines = settings.full_names(frame, line or ())
    taken = [*used, *panels, *lines]
    if len(set(taken)) < len(taken):
        raise ReportError(f"an axis is used twice, for x, panels or lines: {', '.join(taken)}.")
    # What varies and has no use of its own must be told apart, not averaged.
    rest = tuple(name for name in settings.varying_axes(frame) if name not in taken)
    if line is None:
        lines = rest
    elif panel is None:
        panels = rest
    return Grouping(panels, lines)


def with_result(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that finished or diverged; an error if there is none."""
    results = frame[frame["status"].isin(RESULTS)]
    if results.empty:
        raise ReportError(f"no run has a result: {counted(frame['status'])}.")
    return results


@dataclass
class Picture:
    """A figure of panels that share their axes."""

    by: Grouping
    xlabel: str
    ylabel: str
    titles: Collection[str]  # of the panels; repetitions do not count
    notes: list[str] = field(default_factory=list)  # sentences of the caption

    def __post_init__(self) -> None:
        titles = list(dict.fromkeys(self.titles))
        columns = 2 if len(titles) == 4 else min(len(titles), 3)
        rows = math.ceil(len(titles) / columns)
        width = COLUMN if columns == 1 else PAGE
        self.figure = Figure(figsize=(width, rows * HEIGHT), layout="constrained")
        grid = self.figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for spare in grid.ravel()[len(titles) :]:
            spare.remove()
        self.panels: dict[str, Axes] = dict(zip(titles, grid.ravel(), strict=False))
        self.styles: dict[str, int] = {}  # of the lines by label
        for place, (title, axes) in enumerate(self.panels.items()):
            axes.set_title(textwrap.fill(title, int(LETTERS * width / columns)))
            # The lowest panel of each column has the labels, also above a gap in the last row.
            is_lowest = place + columns >= len(titles)
            axes.tick_params(labelbottom=is_lowest)
            if is_lowest:
                axes.set_xlabel(self.xlabel)
            if place % columns == 0:
                axes.set_ylabel(textwrap.fill(self.ylabel, int(LETTERS * (HEIGHT - 0.5))))
        self.first: Axes = grid[0, 0]  # whose scales and ticks are those of all
        if self.xlabel in ("step", "layer", "epoch"):
            self.first.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))

    def look(self, label: str) -> dict[str, Any]:
        """Colour, marker and dashes of a line, the same in every panel."""
        style = self.styles.setdefault(label, len(self.styles))
        return {
            "label": label,
            "color": COLOURS[style % len(COLOURS)],
            "marker": MARKERS[(style + style // len(COLOURS)) % len(MARKERS)],
            "linestyle": DASHES[style % len(DASHES)],
        }

    def line(self, title: str, label: str, y: pd.Series, is_open: bool = False) -> None:
        """A line over the index of its values, with markers at some of its points.

        An open one is dotted, and not in the legend.
        """
        look = self.look(label) | {"markevery": max(1, len(y) // 8)}
        if is_open:
            look |= {"linestyle": ":", "markerfacecolor": "white", "label": None}
        self.panels[title].plot(y.index, y, **look)

    def band(self, title: str, label: str, low: pd.Series, high: pd.Series) -> None:
        """A band in the colour of a line; it ends where an edge is NaN."""
        colour = self.look(label)["color"]
        self.panels[title].fill_between(low.index, low, high, color=colour, alpha=0.16)

    def finish(
        self,
        title: str = "",
        caption: str | None = None,
        log: Collection[str] | None = None,
        size: tuple[float, float] | None = None,
    ) -> None:
        """Add the legend and the caption, once.

        Args:
            title: Heading.
            caption: Text below the figure, in place of its own.
            log: The logarithmic axes, ``x`` and ``y``; None leaves both as they are.
            size: Width and height in inches, without legend and caption.
        """
        with matplotlib.rc_context(RC):
            if log is not None:
                self.first.set_xscale("log" if "x" in log else "linear")
                self.first.set_yscale("log" if "y" in log else "linear")
            if size is not None:
                self.figure.set_size_inches(size)
            letters = int(LETTERS * self.figure.get_figwidth())
            self.figure.suptitle(textwrap.fill(title, letters))
            handles: dict[str, Any] = {}
            for axes in self.panels.values():
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                    handles.setdefault(label, handle)
            # Both are below the figure, in the tight box of what is saved.
            legend = self.figure.legend(
                handles.values(),
                handles,
                title=", ".join(map(words, self.by.line)),
                loc="upper center",
                bbox_to_anchor=(0.5, 0),
                borderaxespad=0,
                ncols=max(1, letters // max(map(len, [*handles, "        "]))),
            )
            if caption is None:
                caption = " ".join(self.notes)
            low = -legend.get_window_extent().height / self.figure.bbox.height
            self.figure.text(0.5, low, textwrap.fill(caption, letters), va="top", ha="center")

    def save(self, path: Path) -> None:
        """Write the figure into a file, whose suffix is the format."""
        with matplotlib.rc_context(RC):
            self.figure.savefig(path, dpi=200, bbox_inches="tight", pad_inches=0.03)


def draw(kind: str, frame: pd.DataFrame, **options: Any) -> Picture:
    """Draw runs as a figure of a kind: the functions below, with their options.

    Raises:
        ReportError: There is no such kind, it has no such option, or an option names something that
            does not exist.
    """
    check_options(kind, options)
    with matplotlib.rc_context(RC):
        picture = KINDS[kind](frame, **options)
    is_result = frame["status"].isin(RESULTS)
    diverged = int((frame["status"] == "diverged").sum())
    if diverged:
        picture.notes.append(f"{diverged} of {plural(int(is_result.sum()))} diverged.")
    if not is_result.all():
        picture.notes.append(f"Left out: {counted(frame['status'][~is_result])}.")
    return picture


def check_options(kind: str, options: Collection[str]) -> None:
    """Refuse an unknown kind of figure, and unknown options."""
    if kind not in KINDS:
        raise ReportError(unknown("kind of figure", kind, KINDS))
    _, *accepted = inspect.signature(KINDS[kind]).parameters  # the functions are the one list
    for name in options:
        if name not in accepted:
            raise ReportError(unknown(f"option of figure {kind!r}", name, accepted))


def scale(metric: str) -> float:
    """The factor by which a metric is drawn: fractions are shown in percent."""
    return 100.0 if is_percent(metric) else 1.0


def n_of(counts: Collection[int]) -> str:
    """``n=3.``, or ``n=3 to 5.``, the number of runs."""
    if min(counts) == max(counts):
        return f"n={min(counts)}."
    return f"n={min(counts)} to {max(counts)}."


def depth(
    frame: pd.DataFrame,
    x: str = "depth",
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    metric: str | None = None,
    spread: Spread = "std",
    published: Sequence[Published] = (),
) -> Picture:
    """Mean over seeds of a metric against an axis, with bars for its spread.

    Published numbers are open markers in the colour of the line that they compare with. Numbers
    near to one another, such as 2, 4, 8, ..., 128, get a logarithmic axis.
    """
    metric = metric or settings.main_metric(with_result(frame))
    if x == "depth" and x not in map(settings.last_part, settings.settings(frame)):
        x = "num_layers"
    across = settings.full_name(frame, x)
    by = grouping(frame, panel, line, [across])
    table = tabulate(frame, [across], [*by.panel, *by.line], metric, spread, by.remedy)
    rows = [row for (row,) in table.rows]
    numbers = [settings.number(row) for row in rows]
    has_names = None in numbers
    places = np.array(range(1, 1 + len(rows)) if has_names else numbers, dtype=float)
    parts = {column: by.split(column) for column in table.columns}
    titles = [title for title, _ in parts.values()]
    picture = Picture(by, words(across), metric_words(metric), titles)
    factor = scale(metric)
    counts = []
    for column, (title, label) in parts.items():
        look = picture.look(label)
        at = places
        if has_names:  # nothing connects names, and the points of several lines stand side by side
            look["linestyle"] = "none"
            at = places + DODGE * picture.styles[label]
        points = []
        for place, row in zip(at, rows, strict=True):
            cell = table.cells[(row,), column]
            if cell.runs:  # a combination that nobody ran is no gap in the line
                points.append((place, cell.mean, cell.half_width(spread)))
                counts.append(cell.n)
        x_of_line, mean, half = np.array(points, dtype=float).T  # None becomes NaN
        picture.panels[title].errorbar(x_of_line, factor * mean, factor * half, **look)
    for one in compare_published(table, published):
        title, label = parts[one.column]
        # The table has the whole citation.
        source = one.published.source.split(",")[0]
        look = picture.look(label) | {"label": f"{label}, {source}".removeprefix(", ")}
        look |= {"linestyle": "none", "markerfacecolor": "white"}
        place = places[rows.index(one.row[0])]
        half_width = factor * (one.number.half or math.nan)
        picture.panels[title].errorbar(place, factor * one.number.mean, half_width, **look)
    if not has_names and places[0] > 0 and (np.diff(places) < CROWDED * np.ptp(places)).any():
        picture.first.set_xscale("log")
    picture.first.set_xticks(places, rows)
    picture.first.set_xticks([], minor=True)
    picture.notes = [f"Mean and {SPREADS[spread]} over seeds, {n_of(counts)}"]
    return picture


def convergence(
    frame: pd.DataFrame,
    tag: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    spread: Spread = "std",
) -> Picture:
    """Mean over seeds of a column of ``metrics.csv`` in every epoch, with a band for its spread.

    A line ends where the first of its runs finished, because a mean jumps where a run drops out. A
    diverged run counts up to the epoch in which it diverged.
    """
    results = with_result(frame)
    tag = tag or settings.monitor(results)
    found = read_curves(results, tag)
    found["value"] = scale(tag) * found["value"].where(np.isfinite(found["value"]))
    by = grouping(frame, panel, line)
    drawn = groups(results, by, found)
    picture = Picture(by, "epoch", metric_words(tag), [title for title, *_ in drawn])
    counts = []
    for title, label, values in drawn:
        table = values.pivot(index="epoch", columns="run", values="value")
        last = table.apply(pd.Series.last_valid_index).dropna()
        finished = last[results["status"].reindex(last.index) == "finished"]
        # The run that finished first ends the line; where none finished, that diverged first.
        ends = finished if len(finished) else last
        table = table.loc[: ends.min()] if len(ends) else table
        counts.append(table.shape[1])
        mean, half = table.mean(axis=1), table.std(axis=1)
        if spread == "ci":
            # Of a single run the deviation is NaN, whatever it is divided by.
            half = t_half_width(half, table.count(axis=1).clip(lower=2))
        picture.line(title, label, mean)
        picture.band(title, label, mean - half, mean + half)
    picture.notes = [f"Mean and {SPREADS[spread]} over seeds, {n_of(counts)}"]
    return picture


def groups(
    results: pd.DataFrame, by: Grouping, values: pd.DataFrame, check: bool = True
) -> list[tuple[str, str, pd.DataFrame]]:
    """Panel, line and values of each group of runs; the check refuses runs that differ in more than
    their seed."""
    found = settings.grouped(results, (*by.panel, *by.line), by.remedy if check else None)
    made = []
    for labels in settings.in_order(found):
        mine = values[values["run"].isin(found[labels].index)]
        if len(mine):
            made.append((*by.split(labels), mine))
    if not made:
        raise ReportError("no run has a value to draw.")
    return made


def chosen_measures(frame: pd.DataFrame, wanted: str | Sequence[str], most: int) -> list[str]:
    """The measures that a figure shows; by default those that the runs have, if it can show all."""
    known: set[str] = set()
    for folder in frame["folder"]:
        known.update(measure_names(Path(folder)))
    chosen = [wanted] if isinstance(wanted, str) else list(wanted or sorted(known))
    if not 1 <= len(chosen) <= most:
        raise ReportError(
            f"this figure shows {plural(most, 'measure')} at most, not {len(chosen)}. Choose with "
            f"--measure: {', '.join(sorted(known)) or 'the runs have none'}."
        )
    return chosen


def axis_label(name: str, values: pd.DataFrame) -> str:
    """A measure's unit, or its name without one."""
    unit = values.attrs["unit"] or name.replace("_", " ")
    return f"log₁₀ {unit}" if values.attrs["log10"] else unit


class Measured(NamedTuple):
    """A measure of groups of runs."""

    label: str  # of its axis
    groups: list[tuple[str, str, pd.DataFrame]]  # panel, line and values
    facts: dict[Any, Any]  # log10 and around_zero
    notes: list[str]  # on the runs and values

    @property
    def titles(self) -> list[str]:
        """The titles of the panels, repeated for each line."""
        return [title for title, *_ in self.groups]


def measured(frame: pd.DataFrame, measure: str | Sequence[str], by: Grouping) -> Measured:
    """The values of a measure in every group of runs that has it."""
    results = with_result(frame)
    (name,) = chosen_measures(results, measure, 1)
    values = read_measures(results, name)
    found = groups(results, by, values)
    counts = []
    early = 0
    for *_, mine in found:
        runs = mine.groupby("run")
        if runs["layer"].unique().map(tuple).nunique() > 1:
            folders = ", ".join(results["folder"].loc[list(runs.groups)])
            raise ReportError(f"{name!r} has other layers in some of these runs: {folders}.")
        counts.append(len(runs))
        early += int((runs["step"].max() < mine["step"].max()).sum())
    lost, zero = lost_and_zero(values["value"].to_numpy(), values.attrs["log10"])
    notes = [f"Over seeds, {n_of(counts)}"]
    for what, count in (
        ("Exactly zero", zero.sum()),
        ("Not finite", lost.sum()),
        ("Ended earlier than other seeds", early),
        ("Without this measure", len(results) - sum(counts)),
    ):
        if count:
            notes.append(f"{what}: {count}.")
    return Measured(axis_label(name, values), found, values.attrs, notes)


def of_layers(values: pd.DataFrame) -> pd.Series:
    """Mean over the neurons of each layer; a measure of whole layers stays as it is."""
    return values.groupby(["run", "step", "layer"])["value"].mean()


def heatmap(
    frame: pd.DataFrame, measure: Sequence[str] = (), panel: Sequence[str] | None = None
) -> Picture:
    """A measure at every layer and step, the median over seeds.

    An exact zero, which has no logarithm, is black, and a value that is not finite is grey.
    """
    by = grouping(frame, panel, ())
    found = measured(frame, measure, by)
    picture = Picture(by, "step", "layer", found.titles, ["Median.", *found.notes])
    maps = {}
    for title, _, values in found.groups:
        maps[title] = of_layers(values).groupby(["step", "layer"]).median().unstack("step")
    every = np.concatenate([cells.to_numpy().ravel() for cells in maps.values()])
    name, low, high = colour_scale(every, found.facts["around_zero"])
    colours = matplotlib.colormaps[name].with_extremes(under="black", bad="0.6")
    for title, cells in maps.items():
        lost, zero = lost_and_zero(cells.to_numpy(), found.facts["log10"])
        # A zero is drawn as something below the scale.
        shown = np.ma.masked_array(np.where(zero, low - 1, cells), lost)
        axes = picture.panels[title]
        x, y = edges(cells.columns.to_numpy()), edges(cells.index.to_numpy())
        # Thousands of cells would make a PDF slow.
        mesh = axes.pcolormesh(x, y, shown, cmap=colours, vmin=low, vmax=high, rasterized=True)
        for where, colour, label in ((zero, "black", "exactly zero"), (lost, "0.6", "not finite")):
            if where.any():
                axes.scatter([], [], marker="s", color=colour, label=label)
    bar = picture.figure.colorbar(mesh, ax=list(picture.panels.values()))
    bar.set_label(found.label)
    return picture


def layers(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    when: str = "both",
) -> Picture:
    """A measure in every layer at the first and last measured step, and a band between extremes.

    The lines are medians over seeds. The band covers all of them, at all steps or at the only one
    that is shown.
    """
    texts = {
        "both": "Medians. Dotted, open: start of training; filled: end; band: during training.",
        "start": "Medians at the first measured step; band: all seeds.",
        "end": "Medians at the last measured step; band: all seeds.",
    }
    if when not in texts:
        raise ReportError(unknown("time", when, texts))
    by = grouping(frame, panel, line)
    found = measured(frame, measure, by)
    picture = Picture(by, "layer", found.label, found.titles, [texts[when], *found.notes])
    for title, label, values in found.groups:
        shown = values if when == "both" else at_edge(values, "step", when)
        # An edge at infinity would hide the rest.
        finite = of_layers(shown).replace([-math.inf, math.inf], math.nan).groupby("layer")
        picture.band(title, label, finite.min(), finite.max())
        for edge in ("start", "end"):
            if when in (edge, "both"):
                median = of_layers(at_edge(values, "step", edge)).groupby("layer").median()
                picture.line(title, label, median, is_open=when == "both" and edge == "start")
    return picture


def history(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Picture:
    """Mean, quartiles and extremes of a measure over the neurons of a layer at every step.

    Every layer has a panel. The neurons of several seeds are pooled. By default six layers are
    shown, from the first to the last.
    """
    by = grouping(frame, panel, line)
    found = measured(frame, measure, by)
    every = sorted(set().union(*(values["layer"] for *_, values in found.groups)))
    places = np.linspace(0, len(every) - 1, min(len(every), MAX_LAYERS)).round().astype(int)
    drawn = []
    for layer in layers or [every[place] for place in places]:
        if layer not in every:
            raise ReportError(unknown("layer", str(layer), map(str, every)))
        for title, label, values in found.groups:
            mine = values[values["layer"] == layer]
            if len(mine):
                drawn.append((f"{title}, layer {layer}".removeprefix(", "), label, mine))
    notes = [f"Mean, quartiles and extremes of neurons and seeds. Layers: {len(every)}."]
    titles = [title for title, *_ in drawn]
    picture = Picture(by, "step", found.label, titles, notes + found.notes)
    for title, label, mine in drawn:
        finite = mine["value"].where(np.isfinite(mine["value"])).groupby(mine["step"])
        for low, high in ((0.0, 1.0), (0.25, 0.75)):
            picture.band(title, label, finite.quantile(low), finite.quantile(high))
        picture.line(title, label, finite.mean())
    return picture


def scatter(
    frame: pd.DataFrame,
    measure: Sequence[str] = (),
    line: Sequence[str] = (),
    panel: Sequence[str] = (),
    metric: str | None = None,
) -> Picture:
    """A point for each run at its last step: two measures coloured by a metric, or one against it.

    Each measure is taken at the layer that its signal reaches last: the first one for gradients,
    the last one for others. If none is chosen, the gradients are on y.
    """
    metric = metric or settings.main_metric(frame)
    if metric not in frame.attrs["metrics"]:
        raise ReportError(unknown("metric", metric, frame.attrs["metrics"]))
    results = with_result(frame)
    chosen = chosen_measures(results, measure, 2)
    if not measure:
        chosen.sort(key=lambda name: "grad" in name)
    points = pd.DataFrame({"run": results.index}, index=results.index)
    names = []
    for place, name in enumerate(chosen):
        values = read_measures(results, name)
        edge, which = ("start", "first") if "grad" in name else ("end", "last")
        last = at_edge(at_edge(values, "step", "end"), "layer", edge)
        points[place] = last.groupby("run")["value"].mean()
        names.append(f"{axis_label(name, values)}, {which} layer")
    names.append(metric_words(metric))
    points[len(chosen)] = scale(metric) * results[metric].astype(float)
    by = grouping(frame, panel, line)
    # Unchecked: nothing is averaged.
    drawn = groups(results, by, points, check=False)
    picture = Picture(by, names[0], names[1], [title for title, *_ in drawn])
    name, low, high = colour_scale(points[len(chosen)].to_numpy(), around_zero=False)
    # White: a run without the metric.
    colours = matplotlib.colormaps[name].with_extremes(bad="white")
    scaled = {"cmap": colours, "vmin": low, "vmax": high, "plotnonfinite": True}
    for title, label, mine in drawn:
        own = picture.look(label)
        look = {"marker": own["marker"], "c": own["color"], "edgecolors": "black"}
        if len(chosen) == 2:
            look |= {"c": "0.6"}  # of the key in the legend
            dots = picture.panels[title].scatter(mine[0], mine[1], **look | scaled | {"c": mine[2]})
            mine = mine[:0]
        picture.panels[title].scatter(mine[0], mine[1], label=label, **look)
    if len(chosen) == 2:
        bar = picture.figure.colorbar(dots, ax=list(picture.panels.values()))
        bar.set_label(textwrap.fill(names[2], int(LETTERS * (HEIGHT - 0.5))))
    hidden = int((~np.isfinite(points[0] + points[1])).sum())
    picture.notes = ["A point is a run at its last measured step."]
    if hidden:
        picture.notes.append(f"Not drawn, because a value is not finite: {hidden} runs.")
    return picture


KINDS: dict[str, Callable[..., Picture]] = {
    "depth": depth,
    "heatmap": heatmap,
    "layers": layers,
    "history": history,
    "convergence": convergence,
    "scatter": scatter,
}
