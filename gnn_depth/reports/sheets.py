"""Tables of text about runs: means, differences from a baseline, agreement with published numbers."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gnn_depth.registry import unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import Agreement, Level, Published
from gnn_depth.reports.settings import ABSENT, is_percent, last_part, metric_words, number, short_words
from gnn_depth.reports.table import (
    SEEDS_NEEDED,
    SIGNIFICANT,
    SPREADS,
    TESTS,
    Cell,
    Comparison,
    Labels,
    Pair,
    Spread,
    Table,
)

Best: TypeAlias = Literal["auto", "row", "column", "table", "none"]
BEST: tuple[Best, ...] = get_args(Best)


@dataclass(frozen=True)
class Sheet:
    """A table of text that can be written in any format.

    Attributes:
        title: Heading; may be empty.
        head: Names of the columns.
        labels: How many columns on the left are labels; the others are numbers.
        lines: The fields of each row. Text after a line break is a note on the number before it.
        notes: Sentences below the table.
        best: Row and column of the fields in bold.
        label: What LaTeX refers to it by.
    """

    title: str
    head: tuple[str, ...]
    labels: int
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    label: str = ""


def format_value(value: float, metric: str, sign: str = "") -> str:
    """A value of a metric: percent with one decimal, four significant digits for anything else, ``-`` for NaN."""
    if math.isnan(value):
        return "-"
    return f"{100 * value:{sign}.1f}" if is_percent(metric) else f"{value:{sign}.4g}"


def format_cell(cell: Cell, metric: str, spread: Spread) -> str:
    """Mean ± spread."""
    half = cell.half_width(spread)
    return format_value(cell.mean, metric) + ("" if half is None else f" ± {format_value(half, metric)}")


def table_sheet(
    table: Table, comparison: Comparison | None = None, best: Best = "auto", caption: str = "", label: str = ""
) -> Sheet:
    """The table itself, with a star where a cell differs significantly from the baseline.

    Args:
        table: Means over seeds.
        comparison: Differences from a baseline.
        best: The cells of which the best is bold: those of each ``row``, of each ``column``, of the whole ``table``, or
            ``none``. By default those that are compared with one baseline; without one those of a row, or of a column
            where the columns are numbers, such as depths, and the rows are not.
        caption: Replaces the note that says what the numbers are.
        label: Replaces LaTeX's label.

    Raises:
        ReportError: There is no such choice of ``best``.
    """
    if best not in BEST:
        raise ReportError(unknown("choice of best", best, BEST))
    most = max(cell.n for _, _, cell in table.each())
    labels = len(table.row_names)
    lines = []
    for at, (row, cells) in enumerate(zip(table.rows, table.cells, strict=True)):
        pairs: Sequence[Pair | None] = comparison.pairs[at] if comparison else [None] * len(cells)
        fields = []
        for cell, pair in zip(cells, pairs, strict=True):
            star = "*" if pair and pair.significant else ""
            fields.append(_with_note(format_cell(cell, table.metric, table.spread) + star, _note(cell, most)))
        lines.append((*row, *fields))
    first, *others = _notes(table, most)
    notes = (caption or first, *others, *(_significance(comparison) if comparison else []))
    bold = frozenset((row, labels + column) for row, column in _best(table, _competing(table, comparison, best)))
    label = label or "tab:" + "-".join(map(last_part, (*table.row_names, *table.column_names)))
    return Sheet("", _head(table), labels, tuple(lines), notes, bold, label)


def _competing(table: Table, comparison: Comparison | None, best: Best) -> Best:
    """What the best is the best of, where it is not chosen."""
    if best != "auto":
        return best
    if comparison:
        return "row" if comparison.baseline in table.columns else "column"
    rows, columns = (
        all(number(text) is not None for value in labels for text in value if text != ABSENT)
        for labels in (table.rows, table.columns)
    )
    return "column" if columns and not rows else "row"


def _best(table: Table, best: Best) -> Iterator[tuple[int, int]]:
    """The places of the best means among those that compete; all that print equally, and none without competitors."""
    found: dict[int, list[tuple[tuple[int, int], float]]] = {}
    for row, line in enumerate(table.cells):
        for column, cell in enumerate(line):
            if cell.n and best != "none":
                found.setdefault({"row": row, "column": column}.get(best, 0), []).append(((row, column), cell.mean))
    choose = min if "loss" in table.metric else max
    for competing in found.values():
        winner = format_value(choose(mean for _, mean in competing), table.metric)
        if len(competing) > 1:
            yield from (place for place, mean in competing if format_value(mean, table.metric) == winner)


def _with_note(text: str, note: str) -> str:
    return f"{text}\n{note}" if note else text


def _names(table: Table) -> Labels:
    """Names of the axes of rows and columns, for readers."""
    return short_words((*table.row_names, *table.column_names))


def _head(table: Table) -> Labels:
    names = _names(table)[: len(table.row_names)]
    return (*names, *(", ".join(column) or metric_words(table.metric) for column in table.columns))


def _note(cell: Cell, most: int) -> str:
    """A note on the number of runs that count, if not all do, and the number that diverged."""
    parts = []
    if cell.n < cell.results:
        parts.append(f"{cell.n} of {cell.results}")
    elif cell.n < most and cell.n:
        parts.append(f"n = {cell.n}")
    if cell.diverged:
        parts.append(f"{cell.diverged} diverged")
    if not cell.results:
        parts += [f"{count} {status}" for status, count in cell.left_out.items()]
    return ", ".join(parts)


def _notes(table: Table, most: int) -> list[str]:
    cells = [cell for _, _, cell in table.each()]
    least = min((cell.n for cell in cells if cell.n), default=0)
    seeds = _seeds(most) if least == most else f"{least} to {_seeds(most)}"
    what = metric_words(table.metric)
    spread = f"mean ± {SPREADS[table.spread]} over" if most > 1 else "of"
    columns = ", ".join(_names(table)[len(table.row_names) :])
    notes = [f"{what[:1].upper()}{what[1:]}, {spread} {seeds}" + (f"; columns: {columns}." if columns else ".")]
    if fixed := _fixed(table):
        notes.append(f"All runs: {fixed}.")
    if diverged := sum(cell.diverged for cell in cells):
        count = sum(run.status == "diverged" and run.counts for cell in cells for run in cell.runs)
        notes.append(f"Diverged: {diverged}; {count} of them count with their last value.")
    if left_out := sum((Counter(cell.left_out) for cell in cells), Counter()):
        notes.append(f"Left out: {', '.join(f'{count} {status}' for status, count in left_out.items())}.")
    return notes


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _fixed(table: Table) -> str:
    """Axes that are neither in the rows nor in the columns and have one value."""
    named = (*table.row_names, *table.column_names)
    values = {
        name: {cell.settings[name] for _, _, cell in table.each() if name in cell.settings}
        for name in table.axes
        if name not in named
    }
    fixed = {name: next(iter(texts)) for name, texts in values.items() if len(texts) == 1}
    return ", ".join(f"{word}={text}" for word, text in zip(short_words(tuple(fixed)), fixed.values(), strict=True))


def _significance(comparison: Comparison) -> list[str]:
    against = f"against {', '.join(comparison.baseline)}, {TESTS[comparison.test]} over shared seeds"
    notes = [f"* p < {SIGNIFICANT} {against}, not corrected for the number of comparisons."]
    few = [pair for line in comparison.pairs for pair in line if pair and pair.p is None]
    if few:
        cells = "1 cell has" if len(few) == 1 else f"{len(few)} cells have"
        notes.append(f"{cells} too few shared seeds for a p value: {SEEDS_NEEDED[comparison.test]} are needed.")
    return notes


def comparison_sheet(table: Table, comparison: Comparison) -> Sheet:
    """Difference from the baseline and p value of every cell."""
    most = max((pair.shared for line in comparison.pairs for pair in line if pair), default=0)

    def field(pair: Pair | None) -> str:
        if pair is None:
            return ""
        p = "" if pair.p is None else ", p < 0.0001" if pair.p < 0.0001 else f", p = {pair.p:.2g}"
        text = format_value(pair.difference, table.metric, sign="+") + p
        return _with_note(text, _seeds(pair.shared) if pair.shared < most else "")

    rows = zip(table.rows, comparison.pairs, strict=True)
    lines = tuple((*row, *(field(pair) for pair in pairs)) for row, pairs in rows)
    note = f"Difference of means over shared seeds ({most} unless noted), p value of {TESTS[comparison.test]}."
    return Sheet(f"Against {', '.join(comparison.baseline)}", _head(table), len(table.row_names), lines, (note,))


def agreement_sheet(table: Table, found: Sequence[Agreement], published: Sequence[Published] = ()) -> Sheet:
    """Our means next to published numbers, with the difference and the agreement.

    Args:
        table: Our means.
        found: The comparisons that `compare_published` made.
        published: Everything that was compared: a source without a cell in the table is named.
    """
    used = [one.published.source for one in found]
    sources = list(dict.fromkeys([*used, *(entry.source for entry in published)]))
    lines = []
    for one in found:
        entry, number = one.published, one.number
        half = "" if number.half is None else f" ± {format_value(number.half, table.metric)}"
        lines.append(
            (
                *one.row,
                *one.column,
                format_cell(one.cell, table.metric, entry.interval or table.spread),
                f"{format_value(number.mean, table.metric)}{half} [{sources.index(entry.source) + 1}]",
                format_value(one.difference, table.metric, sign="+"),
                one.level,
            )
        )
    names = _names(table)
    counts = Counter(one.level for one in found)
    total = ", ".join(f"{counts[level]} {level}" for level in get_args(Level) if counts[level]) or "none"
    # A misspelt label must not pass for one that this table does not show.
    cited = [source if source in used else f"{source}: matches no cell of this table" for source in sources]
    notes = (f"Agreement: {total}.", *(f"[{place}] {source}" for place, source in enumerate(cited, start=1)))
    head = (*names, "ours", "published", "difference", "agreement")
    return Sheet("Compared with published numbers", head, len(names), tuple(lines), notes)
