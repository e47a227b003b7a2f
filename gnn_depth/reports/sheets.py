"""What there is to say of a table: its cells, differences from a baseline, verdicts on published numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from gnn_depth.reports.cells import SPREADS, Cell, Labels, Table
from gnn_depth.reports.compare import NEEDED, SIGNIFICANT, TESTS, Comparison, Pair
from gnn_depth.reports.published import Published
from gnn_depth.reports.sheet import Entry, Sheet, is_percent, say, say_cell
from gnn_depth.reports.verdicts import Verdict, Word

STAR = "*"


def table_sheet(table: Table, comparison: Comparison | None = None) -> Sheet:
    """The table itself, the best of every row marked, and what differs from the baseline."""
    most = max(cell.n for _, _, cell in table.each())
    lines = []
    for place, (row, cells) in enumerate(zip(table.rows, table.cells, strict=True)):
        pairs: Sequence[Pair | None] = comparison.pairs[place] if comparison else [None] * len(cells)
        best = _best(cells, table.metric)
        entries = [
            Entry(
                say_cell(cell, table.metric, table.spread),
                STAR if pair and pair.significant else "",
                _note(cell, most),
                say(cell.mean, table.metric) == best,
            )
            for cell, pair in zip(cells, pairs, strict=True)
        ]
        lines.append((*map(Entry, row), *entries))
    notes = [*_notes(table, most), *(_significance(comparison) if comparison else [])]
    return Sheet("", _head(table), len(table.row_names), tuple(lines), tuple(notes))


def _short(table: Table) -> Labels:
    """Names of the axes of rows and columns, by their last words where these differ."""
    names = (*table.row_names, *table.column_names)
    last = [name.rpartition(".")[2] for name in names]
    return tuple(word if last.count(word) == 1 else name for name, word in zip(names, last, strict=True))


def _head(table: Table) -> Labels:
    names = _short(table)[: len(table.row_names)]
    return (*names, *(_joined(column) or table.metric for column in table.columns))


def _joined(labels: Labels) -> str:
    return ", ".join(labels)


def _best(cells: Sequence[Cell], metric: str) -> str | None:
    """The best mean of a row as it is said, so that what looks equal is treated alike; None without competitors."""
    means = [cell.mean for cell in cells if cell.n]
    if len(means) < 2:
        return None
    return say(min(means) if "loss" in metric else max(means), metric)


def _note(cell: Cell, most: int) -> str:
    """How many runs count, where not all do, and how many diverged."""
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
    unit = f"{table.metric} in %" if is_percent(table.metric) else table.metric
    spread = f"mean ± {SPREADS[table.spread]} over" if most > 1 else "of"
    notes = [
        f"{unit}, {spread} {seeds}"
        + (f"; columns: {_joined(_short(table)[len(table.row_names) :])}." if table.column_names else ".")
    ]
    if fixed := _fixed(table):
        notes.append(f"Of all runs: {fixed}.")
    if diverged := sum(cell.diverged for cell in cells):
        count = sum(run.status == "diverged" and run.counts for cell in cells for run in cell.runs)
        notes.append(f"Diverged: {diverged}, of which {count} count with what they had reached.")
    if left_out := sum((Counter(cell.left_out) for cell in cells), Counter()):
        notes.append(f"Left out: {', '.join(f'{count} {status}' for status, count in left_out.items())}.")
    return notes


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _fixed(table: Table) -> str:
    """Axes that are neither of rows nor of columns and have one value."""
    named = (*table.row_names, *table.column_names)
    values = {
        name: {cell.settings[name] for _, _, cell in table.each() if name in cell.settings}
        for name in table.axes
        if name not in named
    }
    return ", ".join(f"{name}={next(iter(texts))}" for name, texts in values.items() if len(texts) == 1)


def _significance(comparison: Comparison) -> list[str]:
    against = f"against {_joined(comparison.baseline)}, {TESTS[comparison.test]} over shared seeds"
    notes = [f"{STAR} p < {SIGNIFICANT} {against}, not corrected for the number of comparisons."]
    few = [pair for line in comparison.pairs for pair in line if pair and pair.p is None]
    if few:
        cells = "1 cell has" if len(few) == 1 else f"{len(few)} cells have"
        notes.append(f"{cells} too few shared seeds for a p value: {NEEDED[comparison.test]} are needed.")
    return notes


def comparison_sheet(table: Table, comparison: Comparison) -> Sheet:
    """Difference from the baseline and p value of every cell."""
    most = max((pair.shared for line in comparison.pairs for pair in line if pair), default=0)
    lines = [
        (*map(Entry, row), *(_compared(pair, most, table.metric) for pair in pairs))
        for row, pairs in zip(table.rows, comparison.pairs, strict=True)
    ]
    note = f"Difference of means over shared seeds ({most} where nothing else is said), p of {TESTS[comparison.test]}."
    return Sheet(f"Against {_joined(comparison.baseline)}", _head(table), len(table.row_names), tuple(lines), (note,))


def _compared(pair: Pair | None, most: int, metric: str) -> Entry:
    if pair is None:
        return Entry("")
    p = "" if pair.p is None else ", p < 0.0001" if pair.p < 0.0001 else f", p = {pair.p:.2g}"
    return Entry(say(pair.difference, metric, sign="+") + p, note=_seeds(pair.shared) if pair.shared < most else "")


def verdict_sheet(table: Table, verdicts: Sequence[Verdict], published: Sequence[Published] = ()) -> Sheet:
    """Our means beside published numbers, with the difference and a verdict on each.

    Args:
        table: Our means.
        verdicts: What `against` found.
        published: What it looked for: a source that is of no cell is named.
    """
    used = [verdict.published.source for verdict in verdicts]
    sources = list(dict.fromkeys([*used, *(entry.source for entry in published)]))
    lines = []
    for verdict in verdicts:
        entry, number = verdict.published, verdict.number
        half = "" if number.half is None else f" ± {say(number.half, table.metric)}"
        entries = (
            Entry(say_cell(verdict.cell, table.metric, entry.interval or table.spread)),
            Entry(say(number.mean, table.metric) + half, f" [{sources.index(entry.source) + 1}]"),
            Entry(say(verdict.difference, table.metric, sign="+")),
            Entry(verdict.word),
        )
        lines.append((*map(Entry, (*verdict.row, *verdict.column)), *entries))
    names = _short(table)
    counts = Counter(verdict.word for verdict in verdicts)
    said = ", ".join(f"{counts[word]} {word}" for word in get_args(Word) if counts[word]) or "none"
    # A label that was misspelt must not pass for one that is not in this table.
    cited = [source if source in used else f"{source}: of no cell of this table" for source in sources]
    notes = [f"Verdicts: {said}.", *(f"[{place}] {source}" for place, source in enumerate(cited, start=1))]
    head = (*names, "ours", "published", "difference", "verdict")
    return Sheet("Beside published numbers", head, len(names), tuple(lines), tuple(notes))
