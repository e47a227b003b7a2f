"""The tables of docs/benchmark.md, from the records of final trainings."""

import math
from pathlib import Path

import pandas as pd
from scipy import stats

from gnn_depth.reports.comparison import corrected_t_test, holm
from tools.benchmark.definition import METHODS, REFERENCE, SETS

BEGIN, END = "<!-- results: benchmark -->", "<!-- end of results -->"


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """The final records, with the score that counts: that of a constant prediction where the
    training diverged or failed."""
    finals = frame[frame.stage == "final"].copy()
    finals["score"] = finals["test"].fillna(finals["chance"])
    return finals


def shared(rows: pd.DataFrame, name: str) -> float:
    """Test rows for each training row, by which splits of one graph depend on one another."""
    if SETS[name].is_redrawn:
        return 0.0
    return float((rows.test_rows / rows.train_rows).mean())


def methods_in(finals: pd.DataFrame) -> list[str]:
    """The methods that have records, in the order of their definition; those of plugins last."""
    found = set(finals.method)
    own = sorted(found.difference(METHODS))
    return [name for name in METHODS if name in found] + own


def accuracy_table(finals: pd.DataFrame, name: str) -> str:
    """Means with 95% intervals by method and depth, and the number of splits."""
    of_set = finals[finals.set == name]
    depths = sorted(of_set.depth.unique())
    lines = [f"| method | {' | '.join(f'{depth} layers' for depth in depths)} |"]
    lines.append("|---" * (len(depths) + 1) + "|")
    for method in methods_in(of_set):
        row = [method]
        for depth in depths:
            cell = of_set[(of_set.method == method) & (of_set.depth == depth)]
            row.append(_mean(cell, name))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _mean(cell: pd.DataFrame, name: str) -> str:
    if cell.empty:
        return ""
    text = f"{100 * cell.score.mean():.1f}"
    # The t interval whose variance counts the rows that splits share.
    root = math.sqrt(1 / len(cell) + shared(cell, name))
    width = 100 * float(stats.t.ppf(0.975, len(cell) - 1) * cell.score.std() * root)
    if not math.isnan(width):
        text += f" ± {width:.1f}"
    return f"{text} ({len(cell)})"


def comparison_table(finals: pd.DataFrame, name: str, depth: int) -> str:
    """All methods of a set and depth against the reference, with Holm's correction."""
    chosen = finals[(finals.set == name) & (finals.depth == depth)]
    table = chosen.pivot_table(index="split", columns="method", values="score")
    if REFERENCE not in table:
        return ""
    ratio, step = shared(chosen, name), 1 / chosen.test_rows.mean()
    found = {}
    for method in methods_in(chosen):
        if method != REFERENCE:
            differences = (table[method] - table[REFERENCE]).dropna()
            found[method] = corrected_t_test(differences, ratio, step)
    adjusted = holm([test.p for test in found.values()])
    lines = [f"| method | difference to {REFERENCE}, points | p | p (Holm) | splits |"]
    lines.append("|---|---|---|---|---|")
    for (method, test), p in zip(found.items(), adjusted, strict=True):
        numbers = f"{100 * test.difference:+.1f} | {test.p:.3f} | {p:.3f} | {test.count}"
        lines.append(f"| {method} | {numbers} |")
    return "\n".join(lines)


def tables(frame: pd.DataFrame) -> str:
    """All tables, set by set."""
    finals = scores(frame)
    parts = []
    for name in SETS:
        if name not in set(finals.set):
            continue
        parts.append(f"### {name}\n\n{accuracy_table(finals, name)}")
        deep = comparison_table(finals, name, 32)
        if deep:
            parts.append(f"With 32 layers:\n\n{deep}")
    return "\n\n".join(parts)


def write(frame: pd.DataFrame, page: Path) -> None:
    """Put the tables between the marks of the page."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{tables(frame)}\n\n{END}{after}")
