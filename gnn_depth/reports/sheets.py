"""Tables of text about runs: means, differences from a baseline, agreement with published
numbers."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gnn_depth.reports.published import Agreement, Level, Published
from gnn_depth.reports.settings import (
    ABSENT,
    Labels,
    counted,
    is_percent,
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
    Spread,
    Table,
)
from gnn_depth.runs import RESULTS, lower_is_better

Best: TypeAlias = Literal["auto", "row", "column", "table", "none"]
BEST: tuple[Best, ...] = get_args(Best)


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
    """A value of a metric: percent with one decimal, four significant digits for anything else,
    ``-`` for NaN."""
    if math.isnan(value):
        return "-"
    return f"{100 * value:{sign}.1f}" if is_percent(metric) else f"{value:{sign}.4g}"


def format_mean(mean: float, half: float | None, metric: str) -> str:
    """Mean ± half width of the interval, if there is one."""
    return format_value(mean, metric) + ("" if half is None else f" ± {format_value(half, metric)}")


def format_cell(cell: Cell, metric: str, spread: Spread) -> str:
    """Mean ± spread of a cell."""
    return format_mean(cell.mean, cell.half_width(spread), metric)


def table_sheet(
    table: Table,
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
        pair = comparison.pairs[place] if comparison else None
        star = "*" if pair and pair.significant else ""
        fields[place] = _field(
            format_cell(cell, table.metric, table.spread) + star, _note(cell, most)
        )
    first, *others = _notes(table, most)
    notes = (caption or first, *others, *(_significance(comparison) if comparison else ()))
    label = label or "tab:" + "-".join(map(last_part, (*table.row_names, *table.column_names)))
    return Sheet(
        "",
        _head(table),
        len(table.row_names),
        _lines(table, fields),
        notes,
        _best(table, comparison, best),
        label,
    )


def _field(text: str, note: str) -> str:
    return f"{text}\n{note}" if note else text


def _lines(
    table: Table, fields: Mapping[tuple[Labels, Labels], str]
) -> tuple[tuple[str, ...], ...]:
    return tuple((*row, *(fields[row, column] for column in table.columns)) for row in table.rows)


def _best(table: Table, comparison: Comparison | None, best: Best) -> frozenset[tuple[int, int]]:
    """Place of each best mean, including all that print the same; a cell without competitors is
    never best."""
    if best == "auto":
        rows, columns = (
            all(number(text) is not None for value in labels for text in value if text != ABSENT)
            for labels in (table.rows, table.columns)
        )
        of_a_column = comparison.baseline in table.rows if comparison else columns and not rows
        best = "column" if of_a_column else "row"
    competing: dict[Labels, dict[tuple[int, int], float]] = defaultdict(dict)
    for (row, column), cell in table.cells.items():
        if cell.n and best != "none":
            place = table.rows.index(row), len(table.row_names) + table.columns.index(column)
            competing[{"row": row, "column": column}.get(best, ())][place] = cell.mean
    found: set[tuple[int, int]] = set()
    for means in competing.values():
        winner = (min if lower_is_better(table.metric) else max)(means.values())
        texts = {place: format_value(mean, table.metric) for place, mean in means.items()}
        if len(means) > 1:
            found |= {
                place for place, text in texts.items() if text == format_value(winner, table.metric)
            }
    return frozenset(found)


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
    if diverged := cell.statuses["diverged"]:
        parts.append(f"{diverged} diverged")
    return ", ".join(parts) if cell.results else counted(cell.statuses)


def _notes(table: Table, most: int) -> Iterator[str]:
    cells = table.cells.values()
    least = min((cell.n for cell in cells if cell.n), default=0)
    seeds = plural(most, "seed") if least == most else f"{least} to {plural(most, 'seed')}"
    what = metric_words(table.metric)
    spread = f"mean ± {SPREADS[table.spread]} over" if most > 1 else "of"
    columns = ", ".join(_names(table)[len(table.row_names) :])
    yield f"{what[:1].upper()}{what[1:]}, {spread} {seeds}" + (
        f"; columns: {columns}." if columns else "."
    )
    # Axes that are neither in the rows nor in the columns and have one value.
    others = [name for name in table.axes if name not in (*table.row_names, *table.column_names)]
    values = {
        name: {cell.settings[name] for cell in cells if name in cell.settings} for name in others
    }
    fixed = {name: texts.pop() for name, texts in values.items() if len(texts) == 1}
    if fixed:
        each = zip(short_words(tuple(fixed)), fixed.values(), strict=True)
        yield f"All runs: {', '.join(f'{word}={text}' for word, text in each)}."
    runs = [run for cell in cells for run in cell.runs]
    if diverged := [run for run in runs if run.status == "diverged"]:
        count = sum(run.counts for run in diverged)
        yield f"Diverged: {len(diverged)}; {count} of them count with their last value."
    if out := counted(run.status for run in runs if run.status not in RESULTS):
        yield f"Left out: {out}."


def _significance(comparison: Comparison) -> Iterator[str]:
    against = (
        f"against {', '.join(comparison.baseline)}, {TESTS[comparison.test]} over shared seeds"
    )
    yield f"* p < {SIGNIFICANT} {against}, not corrected for the number of comparisons."
    if few := sum(pair is not None and pair.p is None for pair in comparison.pairs.values()):
        yield f"{plural(few, 'cell')} without a p value: {SEEDS_NEEDED[comparison.test]} shared seeds are needed."


def comparison_sheet(table: Table, comparison: Comparison) -> Sheet:
    """Difference from the baseline and p value of every cell."""
    most = max((pair.shared for pair in comparison.pairs.values() if pair), default=0)
    fields = dict.fromkeys(comparison.pairs, "")
    for place, pair in comparison.pairs.items():
        if pair:
            p = (
                ""
                if pair.p is None
                else ", p < 0.0001"
                if pair.p < 0.0001
                else f", p = {pair.p:.2g}"
            )
            text = format_value(pair.difference, table.metric, sign="+") + p
            fields[place] = _field(text, plural(pair.shared, "seed") if pair.shared < most else "")
    note = f"Difference of means over shared seeds ({most} unless noted), p value of {TESTS[comparison.test]}."
    title = f"Against {', '.join(comparison.baseline)}"
    return Sheet(title, _head(table), len(table.row_names), _lines(table, fields), (note,))


def agreement_sheet(
    table: Table, found: Sequence[Agreement], published: Sequence[Published] = ()
) -> Sheet:
    """Our means next to published numbers; a published source that matches no cell of the table is
    named."""
    used = [one.published.source for one in found]
    sources = list(dict.fromkeys([*used, *(entry.source for entry in published)]))
    lines = [
        (
            *(*one.row, *one.column),
            format_cell(one.cell, table.metric, one.published.interval or table.spread),
            f"{format_mean(*one.number, table.metric)} [{sources.index(one.published.source) + 1}]",
            format_value(one.difference, table.metric, sign="+"),
            one.level,
        )
        for one in found
    ]
    counts = Counter(one.level for one in found)
    total = (
        ", ".join(f"{counts[level]} {level}" for level in get_args(Level) if counts[level])
        or "none"
    )
    # A misspelt label must not pass for one that this table does not show.
    cited = [
        source if source in used else f"{source}: matches no cell of this table"
        for source in sources
    ]
    notes = (
        f"Agreement: {total}.",
        *(f"[{place}] {source}" for place, source in enumerate(cited, start=1)),
    )
    names = _names(table)
    head = (*names, "ours", "published", "difference", "agreement")
    return Sheet("Compared with published numbers", head, len(names), tuple(lines), notes)
