"""The pictures of the arena's pages, drawn with Matplotlib."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gnn_depth.arena.results import Results
from gnn_depth.arena.statistics import Correlation, RankComparison

WIDTH, DPI = 9.0, 120
#: The remedies that have a colour of their own; the others are grey.
COLOURS = {
    "plain": "black",
    "residual_batch": "#0072B2",
    "residual_layer": "#56B4E9",
    "linear_batch": "#009E73",
    "gcnii": "#D55E00",
    "gradient_gating": "#CC79A7",
    "antisymmetric": "#E69F00",
}
#: Matplotlib's settings: texts are never read as formulas.
RC: dict[Any, Any] = {"font.size": 8.5, "axes.titlesize": 9.5, "text.parse_math": False}


def _save(figure: Figure, path: Path) -> None:
    # Without the version of Matplotlib, so that equal records give equal files.
    figure.savefig(path, dpi=DPI, bbox_inches="tight", metadata={"Software": ""})


def draw_depths(results: Results, path: Path) -> None:
    """Draw the test metric of every remedy against depth, a panel for each set."""
    names = results.sets
    columns = min(4, len(names))
    lines = math.ceil(len(names) / columns)
    # Those with colours last, so on top of the others.
    remedies = sorted(results.arena.remedies, key=lambda remedy: remedy in COLOURS)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(WIDTH, 2.5 * lines + 0.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(lines, columns, squeeze=False).flatten()
        shown: dict[str, Any] = {}
        for axis, name in zip(axes, names, strict=False):
            depths = results.depths(name)
            for remedy in remedies:
                points = []
                for depth in depths:
                    cell = results.cells.get((name, remedy, depth))
                    if cell is not None and not cell.failed:
                        points.append((depth, 100 * cell.mean, 100 * results.half_width(cell)))
                if not points:
                    continue
                colour = COLOURS.get(remedy, "0.75")
                x, y, width = zip(*points, strict=True)
                thick = 1.6 if remedy in COLOURS else 0.7
                (line,) = axis.plot(x, y, "o-", color=colour, linewidth=thick, markersize=3)
                if remedy in COLOURS:
                    # The interval of two splits is wide; a metric in percent has limits.
                    below, above = np.minimum(width, y), np.minimum(width, 100 - np.array(y))
                    bars = np.array([below, above])
                    axis.errorbar(x, y, bars, fmt="none", ecolor=colour, elinewidth=0.8)
                shown[remedy if remedy in COLOURS else "others"] = line
            axis.set_xscale("log", base=2)
            axis.set_xticks(depths, [str(depth) for depth in depths])
            axis.set_title(f"{name}: nothing learns" if name in results.silent else name)
            axis.grid(axis="y", color="0.92")
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        for axis in axes[: len(names)][-columns:]:
            axis.set_xlabel("layers")
        for row in range(lines):
            axes[row * columns].set_ylabel("test metric, %")
        figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=8)
        _save(figure, path)


def draw_ranks(ranks: RankComparison, path: Path) -> None:
    """Draw mean ranks with bars over the groups that cannot be told apart."""
    count = len(ranks.names)
    half = math.ceil(count / 2)
    height = 0.6 + 0.16 * len(ranks.groups) + 0.2 * half
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        low, high = 1.0, float(count)
        room = 0.3 * (high - low) + 1
        axis.set_xlim(low - room, high + room)
        axis.set_axis_off()
        axis.hlines(0, low, high, color="black", linewidth=1)
        step = max(1, round(count / 10))
        for tick in range(1, count + 1, step):
            axis.vlines(tick, 0, 0.25, color="black", linewidth=1)
            axis.text(tick, 0.4, str(tick), ha="center", va="bottom")
        axis.hlines(1.9, low, low + ranks.critical, color="black", linewidth=2)
        axis.text(
            low + ranks.critical + 0.2,
            1.9,
            f"critical difference {ranks.critical:.1f}; mean rank, 1 is best",
            ha="left",
            va="center",
        )
        for number, group in enumerate(ranks.groups):
            ends = [ranks.ranks[ranks.names.index(name)] for name in (group[0], group[-1])]
            axis.hlines(-0.5 - 0.4 * number, ends[0] - 0.1, ends[1] + 0.1, color="#D55E00", lw=3)
        start = -0.9 - 0.4 * len(ranks.groups)
        for place, (name, rank) in enumerate(zip(ranks.names, ranks.ranks, strict=True)):
            is_left = place < half
            level = start - 0.8 * (place if is_left else count - 1 - place)
            edge = low - 0.3 if is_left else high + 0.3
            axis.plot([rank, rank, edge], [0, level, level], color="0.6", linewidth=0.7)
            side = "right" if is_left else "left"
            shift = -0.1 if is_left else 0.1
            axis.text(edge + shift, level, f"{name} {rank:.1f}", ha=side, va="center")
        axis.set_ylim(start - 0.8 * half, 2.4)
        _save(figure, path)


def draw_correlations(
    rows: Sequence[tuple[str, Mapping[str, Correlation]]], path: Path, title: str
) -> None:
    """Draw rank correlations with their intervals: a line for each measure, a colour for each
    kind."""
    kinds = list(rows[0][1])
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(WIDTH, 0.22 * len(rows) + 1.2), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        place = np.arange(len(rows))
        for number, kind in enumerate(kinds):
            found = [one[1][kind] for one in rows]
            shift = 0.22 * (number - (len(kinds) - 1) / 2)
            low = [max(0.0, one.value - one.low) for one in found]
            high = [max(0.0, one.high - one.value) for one in found]
            axis.errorbar(
                [one.value for one in found],
                place + shift,
                xerr=[low, high],
                fmt="o",
                markersize=3.5,
                color=colours[number],
                elinewidth=1,
                label=kind,
            )
        axis.axvline(0, color="0.5", linewidth=0.8)
        axis.set_yticks(place, [name for name, _ in rows])
        axis.set_xlim(-1.05, 1.05)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlabel("rank correlation with the outcome")
        axis.set_title(title)
        axis.grid(axis="x", color="0.92")
        figure.legend(loc="outside lower center", ncols=len(kinds))
        _save(figure, path)
