"""Tables of runs as text, for the terminal and Markdown."""

import math
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import pandas as pd

from gnn_depth.registry import counted, first_of, printable
from gnn_depth.reports.published import Agreement, Level, Published
from gnn_depth.reports.settings import ABSENT, is_percent, metric_words, n_of, short_words, tally
from gnn_depth.reports.table import LEVEL, SPREADS, Cell, ResultTable

NEAR_CHANCE, LAGS = 0.02, 0.05  # as in the report of a run
LISTED = 6  # published numbers without a cell that a note names
MARKDOWN = str.maketrans({letter: f"\\{letter}" for letter in "\\|*<`"})


@dataclass(frozen=True)
class Sheet:
    """A table of text, in a frame whose first columns are labels."""

    frame: pd.DataFrame
    labels: int  # how many
    notes: Sequence[str]  # sentences below the table
    title: str = ""


def terminal(sheets: Sequence[Sheet]) -> str:
    """Sheets as plain text.

    A table wider than the terminal continues below, with its labels repeated.
    """
    width = shutil.get_terminal_size().columns
    parts = []
    for sheet in sheets:
        numbers = sheet.frame.iloc[:, sheet.labels :]
        lines = [list(sheet.frame), *sheet.frame.to_numpy()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        head, *labels = [" ".join(map(str.ljust, line[: sheet.labels], widths)) for line in lines]
        numbers = numbers.set_axis(labels).rename_axis(columns=head)
        if sheet.title:
            parts.append(sheet.title)
        notes = "\n".join(textwrap.fill(note, width) for note in sheet.notes)
        parts += [numbers.to_string(line_width=width), notes]
    lines = "\n\n".join(parts).split("\n")
    # Somebody else's results may hold codes that a terminal would obey.
    return "\n".join(printable(line).rstrip() for line in lines) + "\n"


def markdown(sheets: Sequence[Sheet]) -> str:
    """Sheets as tables of GitHub's Markdown, notes as a list."""
    parts = []
    for sheet in sheets:
        if sheet.title:
            parts.append(f"**{sheet.title.translate(MARKDOWN)}**")
        lines = []
        for line in [list(sheet.frame), *sheet.frame.to_numpy()]:
            lines.append(f"| {' | '.join(field.translate(MARKDOWN) for field in line)} |")
        numbers = sheet.frame.shape[1] - sheet.labels
        lines.insert(1, "|" + "---|" * sheet.labels + "---:|" * numbers)
        notes = "\n".join(f"- {note.translate(MARKDOWN)}" for note in sheet.notes)
        parts += ["\n".join(lines), notes]
    return "\n\n".join(parts) + "\n"


def format_value(value: float, metric: str, sign: str = "") -> str:
    """Percent with one decimal, four significant digits for other metrics, ``-`` for NaN."""
    if math.isnan(value):
        return ABSENT
    if is_percent(metric):
        return f"{100 * value:{sign}.1f}"
    return f"{value:{sign}.4g}"


def format_mean(mean: float, half: float | None, metric: str, sign: str = "") -> str:
    """Mean ± half width of the interval, if there is one."""
    text = format_value(mean, metric, sign)
    if half is None or math.isnan(half):
        return text
    return f"{text} ± {format_value(half, metric)}"


def table_sheet(table: ResultTable) -> Sheet:
    """The means themselves, with notes on the runs that do not count."""
    counts = [cell.n for cell in table.cells.values() if cell.n] or [0]
    rows = []
    for row in table.rows:
        fields = []
        for column in table.columns:
            cell = table.cells[row + column]
            mean = format_mean(cell.mean, cell.half_width(table.spread), table.metric)
            fields.append(f"{mean} {_note(cell, max(counts))}".rstrip())
        rows.append([*row, *fields])
    what = metric_words(table.metric)
    columns = [", ".join(column) or what for column in table.columns]
    names = short_words(table.names)
    labels = len(table.rows[0])
    note = f"{what[:1].upper()}{what[1:]}, mean ± {SPREADS[table.spread]} over seeds, "
    note += n_of(counts)
    if names[labels:]:
        note += f"; columns: {', '.join(names[labels:])}"
    frame = pd.DataFrame(rows, columns=[*names[:labels], *columns])
    notes = [f"{note}.", *tally(table.runs["status"])]
    guessed = _no_better_than_constant(table)
    if guessed:
        notes.append(
            "At most two points above the best constant prediction: "
            f"{first_of(guessed, LISTED, '; ')}."
        )
    lagging = [
        " ".join(labels)
        for labels, cell in table.cells.items()
        if cell.counting["initial_averages"].max() > LAGS
    ]
    if lagging:
        notes.append(
            "Too few steps for batch norm, whose running averages, which evaluation uses, are "
            f"still partly their initial values: {first_of(lagging, LISTED, '; ')}."
        )
    return Sheet(frame, labels, notes)


def _no_better_than_constant(table: ResultTable) -> list[str]:
    """The cells of test accuracies, or other shares, that a constant prediction nearly reaches."""
    found = []
    for labels, cell in table.cells.items():
        runs = cell.counting
        measured = "test_" + runs["metric"].astype(str) + "_at_best_val"
        is_share = is_percent(table.metric) and (measured == table.metric).all()
        if is_share and cell.mean <= runs["constant"].mean() + NEAR_CHANCE:
            found.append(" ".join(labels))
    return found


def _note(cell: Cell, most: int) -> str:
    """The number of runs that count, if not all do, and of those that diverged, in brackets."""
    parts = []
    if not cell.results:  # why there is no number
        parts.append(counted(cell.statuses))
    elif cell.n < cell.results:
        parts.append(f"{cell.n} of {cell.results}")
    elif cell.n < most:
        parts.append(f"n = {cell.n}")
    if cell.statuses["diverged"]:
        parts.append(f"{cell.statuses['diverged']} diverged")
    return f"({', '.join(filter(None, parts))})".replace("()", "")


def comparison_sheet(compared: pd.DataFrame, metric: str, against: str) -> Sheet:
    """The paired tests of `gnn_depth.reports.comparison.compare` as text."""
    labels = compared.shape[1] - 5
    lines = []
    for line in compared.itertuples(index=False, name=None):
        count, difference, half, *tests = line[labels:]
        texts = [ABSENT if math.isnan(p) else f"{p:.3g}" for p in tests]
        pair = format_mean(difference, half, metric, sign="+")
        lines.append([*line[:labels], str(count), pair, *texts, _verdict(difference, tests[-1])])
    notes = [
        f"Mean difference of {metric_words(metric)} from {against} over n shared seeds, where it "
        f"was tested with its own 95% confidence interval; {compared.attrs['test']}. The last "
        f"column is after Holm's correction (tests: {compared['p'].count()}). The intervals are "
        "without it: one that excludes 0 may be undecided.",
    ]
    if (compared["p_holm"] > LEVEL).any():
        notes.append(
            "Undecided: these runs do not tell whether there is a difference. More seeds narrow "
            "an interval."
        )
    for why in dict.fromkeys(compared.attrs["untested"].values()):
        untested = [line for line, each in compared.attrs["untested"].items() if each == why]
        notes.append(f"Not tested: {first_of(untested, LISTED, '; ')}; {why}.")
    axes = short_words(list(compared)[:labels])
    names = [*axes, "n", "difference", "p (t-test)", "p (Holm)", "at 5%"]
    return Sheet(pd.DataFrame(lines, columns=names), labels, notes, f"Against {against}")


def _verdict(difference: float, p: float) -> str:
    if math.isnan(p):
        return "not tested"
    if p > LEVEL:
        return "undecided"
    return "higher" if difference > 0 else "lower"


def agreement_sheet(
    table: ResultTable, found: Sequence[Agreement], published: Sequence[Published]
) -> Sheet:
    """Our means next to published numbers, with the number of those that match no cell."""
    sources = list(dict.fromkeys(entry.source for entry in published))
    lines = []
    for one in found:
        interval = one.published.interval or table.spread
        ours = format_mean(one.cell.mean, one.cell.half_width(interval), table.metric)
        number = one.published.number
        theirs = format_mean(number.mean, number.half, table.metric)
        cited = f"{theirs} [{sources.index(one.published.source) + 1}]"
        difference = format_value(one.cell.mean - number.mean, table.metric, sign="+")
        lines.append([*one.labels, ours, cited, difference, one.level])
    levels = sorted((one.level for one in found), key=get_args(Level).index)
    notes = [f"Agreement: {counted(levels) or 'none'}."]
    for place, source in enumerate(sources, start=1):
        notes.append(f"[{place}] {source}")
    # A misspelt label must not pass for one that this table does not show.
    matched = [one.published for one in found]
    missing = []
    for entry in published:
        if entry not in matched:
            *_, over = entry.where
            *fixed, text = entry.where.values()
            missing.append(", ".join([*fixed, f"{over} {text}"]))
    if missing:
        notes.append(f"Published, and in no cell here: {first_of(missing, LISTED, '; ')}.")
    names = [*short_words(table.names), "ours", "published", "difference", "agreement"]
    frame = pd.DataFrame(lines, columns=names)
    return Sheet(frame, len(table.names), notes, "Compared with published numbers")
