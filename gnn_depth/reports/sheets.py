"""Tables of text about runs: means, differences from a baseline, agreement with a paper."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from gnn_depth.registry import first_of, unknown
from gnn_depth.reports.load import ReportError, read_measures
from gnn_depth.reports.published import Agreement, Level, Published
from gnn_depth.reports.settings import (
    ABSENT,
    Labels,
    counted,
    is_percent,
    label,
    last_part,
    metric_words,
    number,
    plural,
    short_words,
)
from gnn_depth.reports.table import (
    SEEDS_NEEDED,
    SIGNIFICANT,
    SPREADS,
    TESTS,
    Cell,
    Comparison,
    ResultTable,
    Spread,
)
from gnn_depth.runs import RESULTS, lower_is_better

Best: TypeAlias = Literal["auto", "row", "column", "table", "none"]
BEST: tuple[Best, ...] = get_args(Best)
TINY_P = 0.0001  # a smaller p value is not printed
LISTED = 6  # published numbers without a cell that a note names


@dataclass(frozen=True)
class Sheet:
    """A table of text that can be written in any format."""

    title: str
    head: tuple[str, ...]  # names of the columns
    labels: int  # how many columns on the left are labels; the others are numbers
    lines: tuple[tuple[str, ...], ...]  # text after a line break is a note on the number before it
    notes: tuple[str, ...] = ()  # sentences below the table
    best: frozenset[tuple[int, int]] = frozenset()  # row and column of the fields in bold
    label: str = ""  # what LaTeX refers to it by


def format_value(value: float, metric: str, sign: str = "") -> str:
    """Percent with one decimal, four significant digits for other metrics, ``-`` for NaN."""
    if math.isnan(value):
        return ABSENT
    if is_percent(metric):
        return f"{100 * value:{sign}.1f}"
    return f"{value:{sign}.4g}"


def format_mean(mean: float, half: float | None, metric: str) -> str:
    """Mean ± half width of the interval, if there is one."""
    text = format_value(mean, metric)
    if half is None:
        return text
    return f"{text} ± {format_value(half, metric)}"


def format_cell(cell: Cell, metric: str, spread: Spread) -> str:
    """Mean ± spread of a cell."""
    return format_mean(cell.mean, cell.half_width(spread), metric)


def table_sheet(
    table: ResultTable,
    comparison: Comparison | None = None,
    best: Best = "auto",
    caption: str = "",
    label: str = "",
) -> Sheet:
    """The table itself, with a star where a cell differs significantly from the baseline.

    The best mean is bold in each ``row``, each ``column``, the whole ``table``, or ``none``; by
    default among the cells compared with one baseline cell. Without a baseline it is each row, or
    each column if the column labels are numbers, such as depths, and the row labels are not. A
    caption replaces the note that says what the numbers are.
    """
    most = max(cell.n for cell in table.cells.values())
    fields = {}
    for place, cell in table.cells.items():
        text = format_cell(cell, table.metric, table.spread)
        pair = comparison.pairs[place] if comparison else None
        if pair and pair.significant:
            text += "*"
        note = _note(cell, most)
        if note:
            text += f"\n{note}"
        fields[place] = text
    notes = _notes(table, most)
    if caption:  # the others say what a reader must know
        notes[0] = caption
    if comparison:
        notes += _significance(comparison)
    return Sheet(
        "",
        _head(table),
        len(table.row_names),
        _lines(table, fields),
        tuple(notes),
        _best(table, comparison, best),
        label or "tab:" + "-".join(map(last_part, table.names)),
    )


def _lines(
    table: ResultTable, fields: Mapping[tuple[Labels, Labels], str]
) -> tuple[tuple[str, ...], ...]:
    lines = []
    for row in table.rows:
        lines.append((*row, *(fields[row, column] for column in table.columns)))
    return tuple(lines)


def _best(
    table: ResultTable, comparison: Comparison | None, best: Best
) -> frozenset[tuple[int, int]]:
    """Place of each best mean, including all that print the same.

    A cell without competitors is never best, and neither is one without a value.
    """
    if best == "auto":
        best = "row"
        if comparison:
            if comparison.baseline in table.rows:
                best = "column"
        elif _are_numbers(table.columns) and not _are_numbers(table.rows):
            best = "column"
    competing: dict[Labels | None, dict[tuple[int, int], float]] = {}
    for (row, column), cell in table.cells.items():
        if cell.n and best != "none":
            rivals = {"row": row, "column": column}.get(best)  # None for the whole table
            place = table.rows.index(row), len(table.row_names) + table.columns.index(column)
            competing.setdefault(rivals, {})[place] = cell.mean
    pick = min if lower_is_better(table.metric) else max
    found = set()
    for means in competing.values():
        # Compared as printed: of two equal numbers one in bold would seem an error.
        winner = format_value(pick(means.values()), table.metric)
        for place, mean in means.items():
            if len(means) > 1 and format_value(mean, table.metric) == winner:
                found.add(place)
    return frozenset(found)


def _are_numbers(labels: Sequence[Labels]) -> bool:
    texts = set(chain.from_iterable(labels)) - {ABSENT}
    return None not in map(number, texts)


def _head(table: ResultTable) -> Labels:
    names = short_words(table.names)[: len(table.row_names)]
    columns = [", ".join(column) or metric_words(table.metric) for column in table.columns]
    return (*names, *columns)


def _note(cell: Cell, most: int) -> str:
    """A note on the number of runs that count, if not all do, and of those that diverged."""
    if not cell.results:  # why the field is empty
        return counted(cell.statuses)
    parts = []
    if cell.n < cell.results:
        parts.append(f"{cell.n} of {cell.results}")
    elif cell.n < most:
        parts.append(f"n = {cell.n}")
    if cell.statuses["diverged"]:
        parts.append(f"{cell.statuses['diverged']} diverged")
    return ", ".join(parts)


def _notes(table: ResultTable, most: int) -> list[str]:
    """Sentences on what the numbers are, what all runs share, and which runs do not count."""
    cells = list(table.cells.values())
    least = min((cell.n for cell in cells if cell.n), default=0)
    seeds = plural(most, "seed")
    if least < most:
        seeds = f"{least} to {seeds}"
    spread = f"mean ± {SPREADS[table.spread]} over" if most > 1 else "of"
    what = metric_words(table.metric)
    first = f"{what[:1].upper()}{what[1:]}, {spread} {seeds}"
    columns = short_words(table.names)[len(table.row_names) :]
    if columns:
        first += f"; columns: {', '.join(columns)}"
    notes = [f"{first}."]
    # Axes that are neither in the rows nor in the columns and have one value.
    fixed = {}
    for name in table.axes:
        values = {cell.settings[name] for cell in cells if name in cell.settings}
        if name not in table.names and len(values) == 1:
            fixed[name] = values.pop()
    if fixed:
        shared = list(map("=".join, zip(short_words(tuple(fixed)), fixed.values(), strict=True)))
        notes.append(f"All runs: {', '.join(shared)}.")
    diverged, left_out = [], []
    for run in chain.from_iterable(cell.runs for cell in cells):
        if run.status == "diverged":
            diverged.append(run)
        elif run.status not in RESULTS:
            left_out.append(run.status)
    if diverged:
        count = sum(run.counts for run in diverged)
        when = "their last value"
        if table.metric.endswith("_at_best_val"):
            when = "the value of their best epoch before that"
        notes.append(f"Diverged: {len(diverged)}; {count} of them count with {when}.")
    if left_out:
        notes.append(f"Left out: {counted(left_out)}.")
    return notes


def _significance(comparison: Comparison) -> list[str]:
    baseline = ", ".join(comparison.baseline)
    notes = [
        f"* p < {SIGNIFICANT} against {baseline}, {TESTS[comparison.test]} over shared seeds, not "
        "corrected for the number of comparisons."
    ]
    # A cell without a star must not seem to have been tested.
    few = sum(pair is not None and pair.p is None for pair in comparison.pairs.values())
    if few:
        needed = SEEDS_NEEDED[comparison.test]
        notes.append(f"{plural(few, 'cell')} without a p value: {needed} shared seeds are needed.")
    return notes


def comparison_sheet(table: ResultTable, comparison: Comparison) -> Sheet:
    """Difference from the baseline and p value of every cell."""
    most = max((pair.shared for pair in comparison.pairs.values() if pair), default=0)
    fields = {}
    for place, pair in comparison.pairs.items():
        if pair is None:
            fields[place] = ""
            continue
        text = format_value(pair.difference, table.metric, sign="+")
        if pair.p is not None and pair.p < TINY_P:
            text += ", p < 0.0001"
        elif pair.p is not None:
            text += f", p = {pair.p:.2g}"
        if pair.shared < most:
            text += f"\n{plural(pair.shared, 'seed')}"
        fields[place] = text
    note = (
        f"Difference of means over shared seeds ({most} unless noted), p value of "
        f"{TESTS[comparison.test]}."
    )
    title = f"Against {', '.join(comparison.baseline)}"
    return Sheet(title, _head(table), len(table.row_names), _lines(table, fields), (note,))


def agreement_sheet(
    table: ResultTable, found: Sequence[Agreement], published: Sequence[Published] = ()
) -> Sheet:
    """Our means next to published numbers; names those that match no cell of the table."""
    # Numbered in the order of the lines; those that match nothing come last.
    used = dict.fromkeys(one.published.source for one in found)
    sources = list(used | dict.fromkeys(entry.source for entry in published))
    lines = []
    for one in found:
        ours = format_cell(one.cell, table.metric, one.published.interval or table.spread)
        theirs = format_mean(one.number.mean, one.number.half, table.metric)
        cited = f"{theirs} [{sources.index(one.published.source) + 1}]"
        difference = format_value(one.difference, table.metric, sign="+")
        lines.append((*one.row, *one.column, ours, cited, difference, one.level))
    counts = Counter(one.level for one in found)
    levels = [f"{counts[level]} {level}" for level in get_args(Level) if counts[level]]
    notes = [f"Agreement: {', '.join(levels) or 'none'}."]
    for place, source in enumerate(sources, start=1):
        # A misspelt label must not pass for one that this table does not show.
        note = f"[{place}] {source}"
        if source not in used:
            note += ": matches no cell of this table"
        else:
            entries = [entry for entry in published if entry.source == source]
            note += _unmatched(entries, found)
        notes.append(note)
    names = short_words(table.names)
    head = (*names, "ours", "published", "difference", "agreement")
    return Sheet("Compared with published numbers", head, len(names), tuple(lines), tuple(notes))


def _unmatched(entries: Sequence[Published], found: Sequence[Agreement]) -> str:
    """Name the published numbers of a source that no cell of the table has: the rest of a note."""
    missing: dict[str, None] = {}
    for entry in entries:
        matched = {one.label for one in found if one.published is entry}
        if not matched and entry.where:
            missing[", ".join(f"{axis} {text}" for axis, text in entry.where.items())] = None
            continue
        for text in entry.numbers:
            if text not in matched:
                missing[f"{entry.over} {text}"] = None
    if not missing:
        return ""
    return f"; no cell here is of {first_of(list(missing), LISTED, '; ')}"


def check_measures(names: Sequence[str], when: str = "start") -> None:
    """Check the options of :func:`measures_sheet` before anything runs.

    Raises:
        ReportError: The names are no list of texts, or there is no such time.
    """
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or not names:
        raise ReportError(f"'names' must be a list of measures, not {names!r}.")
    if when not in ("start", "end"):
        raise ReportError(unknown("time of measures", str(when), ("start", "end")))


def measures_sheet(
    frame: pd.DataFrame, axes: Labels, names: Sequence[str], when: str = "start"
) -> Sheet:
    r"""Measures of runs in their first and in their last layer.

    Runs that differ in their seed only share a line, with the geometric mean of their values.

    Args:
        frame: Runs, as ``read_runs`` returns them.
        axes: Names of the axes whose labels tell the lines apart.
        names: Names of the measures.
        when: ``start`` for the first measured step, ``end`` for the last one.
    """
    lines: dict[Labels, list[str]] = {}
    for labels in frame[list(axes)].itertuples(index=False, name=None):
        lines[tuple(map(label, labels))] = []
    for name in names:
        values = read_measures(frame, name)
        for labels, line in lines.items():
            # Compared as labels, since NaN, a missing value, does not equal itself.
            is_here = pd.Series(True, index=frame.index)
            for axis, text in zip(axes, labels, strict=True):
                is_here &= frame[axis].map(label) == text
            of_runs = values[values.run.isin(frame.index[is_here])]
            line.append(_ends(of_runs, when, values.attrs["log10"]))
    head = (*short_words(axes), *(name.replace("_", " ") for name in names))
    numbers = tuple((*labels, *line) for labels, line in lines.items())
    note = f"First layer -> last layer, at the {when} of training."
    return Sheet("Measures of layers", head, len(axes), numbers, (note,))


def _ends(values: pd.DataFrame, when: str, log10: bool) -> str:
    """A measure of some runs in the first and in the last layer."""
    first, last = [], []
    for _, of_run in values.groupby("run"):
        step = of_run.step.min() if when == "start" else of_run.step.max()
        of_step = of_run[of_run.step == step].set_index("layer").value
        first.append(of_step[of_step.index.min()])
        last.append(of_step[of_step.index.max()])
    if not first:  # these runs have no such measure
        return ABSENT
    texts = []
    for side in (first, last):
        logarithms = np.array(side, dtype=float)
        if not log10:
            with np.errstate(divide="ignore", invalid="ignore"):
                logarithms = np.log10(logarithms)
        mean = float(logarithms.mean())
        text = ABSENT if math.isnan(mean) else f"{10.0**mean:.2g}"
        texts.append(text)
    return " -> ".join(texts)
