"""The tables and figures of docs/benchmark.md, from the records."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import brentq

from gnn_depth.reports.comparison import PairedTest, corrected_t_test, holm
from tools.benchmark.definition import (
    DEPTHS,
    HIGHEST_RATE,
    LOWEST_RATE,
    METHODS,
    REFERENCE,
    ROUNDS,
    SETS,
    SHALLOW,
    SPLITS,
    settings,
)
from tools.benchmark.running import has_learned

BEGIN, END = "<!-- results: benchmark -->", "<!-- end of results -->"
MARGIN = 0.01  # of the equivalence tests
POWER = 0.8
ENOUGH_SETS = 5  # for a test over sets


def finals_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The final records, with the score that counts: that of a constant prediction where the
    training diverged or failed."""
    finals = frame[frame.stage == "final"].copy()
    finals["score"] = finals["test"].fillna(finals["chance"])
    return finals


def complete_sets(frame: pd.DataFrame) -> list[str]:
    """The sets of which every cell of every method has all its splits."""
    counts = finals_of(frame).groupby(["set", "method", "depth"]).size()
    found = []
    for name in SETS:
        cells = [(name, method, depth) for method in METHODS for depth in DEPTHS]
        if all(counts.get(cell, 0) >= SPLITS for cell in cells):
            found.append(name)
    return found


def methods_in(finals: pd.DataFrame) -> list[str]:
    """The methods that have records, in the order of their definition; those of plugins last."""
    found = set(finals.method)
    own = sorted(found.difference(METHODS))
    return [name for name in METHODS if name in found] + own


class SetResults:
    """The records of one set.

    Args:
        frame: All records.
        name: The set.
    """

    def __init__(self, frame: pd.DataFrame, name: str) -> None:
        self.name = name
        self.tuning = frame[(frame.set == name) & (frame.stage == "tune")]
        self.finals = finals_of(frame[frame.set == name])
        self.methods = methods_in(self.finals)
        self.depths = sorted(self.finals.depth.unique())
        rows = self.finals[["test_rows", "train_rows"]].mean()
        #: Test rows for each training row, by which splits of one graph depend on one another.
        self.ratio = 0.0 if SETS[name].is_redrawn else float(rows.test_rows / rows.train_rows)
        self.step = 1 / float(rows.test_rows)

    def cell(self, method: str, depth: int) -> pd.Series:
        """The scores of a cell by split."""
        chosen = self.finals[(self.finals.method == method) & (self.finals.depth == depth)]
        scores: pd.Series = chosen.set_index("split").score.sort_index()
        return scores

    def trains(self, method: str, depth: int) -> bool:
        """False if none of the settings of a cell learned."""
        tuned = self.tuning[(self.tuning.method == method) & (self.tuning.depth == depth)]
        return any(has_learned(record) for record in tuned.to_dict("records"))

    def best_shallow(self) -> str:
        """The method whose shallow cell has the highest validation metric on the tuning split."""
        tuned = self.tuning[(self.tuning.depth == SHALLOW) & (self.tuning.epochs == ROUNDS[-1][1])]
        best = tuned.groupby("method").val.max().reindex(self.methods)
        return str(best.idxmax())

    def accuracy_table(self) -> str:
        """Means with 95% intervals by method and depth."""
        lines = heading(["method", *(f"{depth} layers" for depth in self.depths)])
        for method in self.methods:
            row = [method]
            for depth in self.depths:
                text = self._mean(self.cell(method, depth))
                if text and not self.trains(method, depth):
                    text += " (does not train)"
                row.append(text)
            lines.append(row_of(row))
        return "\n".join(lines)

    def _mean(self, scores: pd.Series) -> str:
        if scores.empty:
            return ""
        test = corrected_t_test(scores, self.ratio, self.step)
        return f"{100 * test.difference:.1f} ± {100 * test.half_width:.1f}"

    def comparison_table(self, pairs: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> str:
        """Each first cell against its second one, with Holm's correction over all pairs."""
        tests = []
        for cell, base in pairs:
            differences = (self.cell(*cell) - self.cell(*base)).dropna()
            tests.append(corrected_t_test(differences, self.ratio, self.step))
        adjusted = holm([test.p for test in tests])
        names = ("method", "layers", "difference", "p (Holm)", "p of equivalence", "detectable")
        lines = heading(names)
        for (cell, _), test, p in zip(pairs, tests, adjusted, strict=True):
            difference = f"{100 * test.difference:+.1f} ± {100 * test.half_width:.1f}"
            found = f"{100 * detectable(test, len(pairs)):.1f}"
            chance = f"{p:.3f}".replace("0.000", "< 0.001")
            row = (cell[0], str(cell[1]), difference, chance, f"{equivalence(test):.3f}", found)
            lines.append(row_of(row))
        return "\n".join(lines)

    def against_reference(self, depth: int) -> str:
        others = [name for name in self.methods if name != REFERENCE]
        return self.comparison_table([((name, depth), (REFERENCE, depth)) for name in others])

    def against_shallow(self) -> str:
        base = (self.best_shallow(), SHALLOW)
        deep = [depth for depth in self.depths if depth != SHALLOW]
        pairs = [((name, depth), base) for depth in deep for name in self.methods]
        return self.comparison_table(pairs)

    def facts(self) -> list[str]:
        """What the tuning chose and what the trainings took."""
        chosen = self.finals.drop_duplicates(["method", "depth"])
        places = [place_of_rate(row.method, row.setting) for row in chosen.itertuples()]
        low, high = sum(place < 1 / 8 for place in places), sum(place > 7 / 8 for place in places)
        cells = self.tuning.groupby(["method", "depth"])
        going_on = (ROUNDS[1][0], 1)
        ties = [
            sum(has_tie(tuned, step, count) for _, tuned in cells)
            for step, count in enumerate(going_on)
        ]
        seconds = self.finals.seconds
        return [
            self.name,
            str(len(chosen)),
            f"{low}, {high}",
            f"{ties[0]}, {ties[1]}",
            f"{100 * self.finals.settled.mean():.0f}%",
            f"{self.finals.ran.median():.0f}",
            f"{seconds.median():.0f} ({seconds.min():.0f} to {seconds.max():.0f})",
        ]


def equivalence(test: PairedTest) -> float:
    """The larger p of the two one-sided tests that the difference is within the margin."""
    return float(stats.t.sf((MARGIN - abs(test.difference)) / test.error, test.count - 1))


def detectable(test: PairedTest, tests: int) -> float:
    """The smallest true difference that the test finds with the stated power, if it is the smallest
    p of so many tests."""
    free = test.count - 1
    critical = stats.t.isf(0.025 / tests, free)
    missing = partial(stats.nct.cdf, critical, free)  # probability, by the shift in errors
    shift = brentq(lambda shift: missing(shift) - 1 + POWER, 0, 4 * critical)
    return float(shift * test.error)


def place_of_rate(method: str, setting: float) -> float:
    """Where the learning rate of a setting lies in its range, on a logarithmic scale: 0 to 1."""
    rate = settings(method, METHODS.get(method, {}))[int(setting)]["optimizer"]["lr"]
    return math.log(rate / LOWEST_RATE) / math.log(HIGHEST_RATE / LOWEST_RATE)


def has_tie(tuned: pd.DataFrame, step: int, going_on: int) -> bool:
    """True if the last setting that a round of tuning let go on equals the next one."""
    values = tuned[tuned.epochs == ROUNDS[step][1]].val.sort_values(ascending=False).to_numpy()
    return bool(len(values) > going_on and values[going_on - 1] == values[going_on])


def heading(names: Sequence[str]) -> list[str]:
    return [row_of(names), "|---" * len(names) + "|"]


def row_of(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def tables(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """All tables of these sets."""
    if not names:
        return "No set is complete yet."
    results = [SetResults(frame, name) for name in names]
    facts = heading(
        ("set", "cells", "rates at an edge", "ties", "settled", "epochs (median)", "seconds")
    )
    facts += [row_of(one.facts()) for one in results]
    parts = ["### Trainings", "\n".join(facts)]
    parts += ["### Mean ranks", rank_table(results)]
    for one in results:
        parts.append(f"### {one.name}")
        parts.append(one.accuracy_table())
        for depth in one.depths:
            parts += [f"Against {REFERENCE}, {depth} layers:", one.against_reference(depth)]
        best = f"Against the best shallow cell, {one.best_shallow()} with {SHALLOW} layers:"
        parts += [best, one.against_shallow()]
    return "\n\n".join(parts)


def ranks(results: Sequence[SetResults], depth: int) -> pd.DataFrame:
    """The rank of each method with this depth on each set; 1 is the best."""
    means = {}
    for one in results:
        means[one.name] = {name: one.cell(name, depth).mean() for name in METHODS}
    return pd.DataFrame(means).rank(ascending=False)


def rank_table(results: Sequence[SetResults]) -> str:
    """Mean ranks over sets; Friedman's test where there are enough sets."""
    depths = results[0].depths
    of_depth = {depth: ranks(results, depth) for depth in depths}
    lines = heading(["method", *(f"{depth} layers" for depth in depths)])
    for method in METHODS:
        row = [f"{of_depth[depth].loc[method].mean():.1f}" for depth in depths]
        lines.append(row_of([method, *row]))
    if len(results) >= ENOUGH_SETS:
        p = [f"{stats.friedmanchisquare(*of_depth[d].to_numpy()).pvalue:.3f}" for d in depths]
        lines.append(row_of(["p (Friedman)", *p]))
    return "\n".join(lines)


def figures(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """Accuracy against depth on each set, and ranks by depth; each with the name of its file."""
    results = [SetResults(frame, name) for name in names]
    colours = mpl.colormaps["tab20"](np.linspace(0, 1, len(METHODS)))
    figure, axes = plt.subplots(
        1, len(results), figsize=(5 * len(results), 4), squeeze=False, layout="constrained"
    )
    for ax, one in zip(axes[0], results, strict=True):
        for number, (method, colour) in enumerate(zip(METHODS, colours, strict=True)):
            beside = np.exp2(0.07 * (number - len(METHODS) / 2))  # so that bars do not overlap
            tests = [corrected_t_test(one.cell(method, d), one.ratio, one.step) for d in one.depths]
            means = [100 * test.difference for test in tests]
            widths = [100 * test.half_width for test in tests]
            ax.errorbar(
                np.multiply(one.depths, beside),
                means,
                widths,
                label=method,
                color=colour,
                marker="o",
            )
        ax.set_xscale("log", base=2)
        ax.set_xticks(one.depths, [str(depth) for depth in one.depths])
        ax.set_xlabel("layers")
        ax.set_ylabel(f"test {SETS[one.name].metric}, %")
        ax.set_title(one.name)
    axes[0][-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    yield "benchmark_depth.svg", figure
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    depths = results[0].depths
    places = np.arange(len(METHODS))
    for number, depth in enumerate(depths):
        found = ranks(results, depth)
        mean = found.mean(axis=1)
        spread = [mean - found.min(axis=1), found.max(axis=1) - mean]
        offset = 0.25 * (number - 1)
        axes.errorbar(mean, places + offset, xerr=spread, fmt="o", label=f"{depth} layers")
    axes.set_yticks(places, list(METHODS))
    axes.invert_yaxis()
    axes.set_xlabel("mean rank over the complete sets, and its range")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    yield "benchmark_ranks.svg", figure


def write(frame: pd.DataFrame, page: Path) -> None:
    """Put the tables of the complete sets between the marks of the page, and draw its figures."""
    names = complete_sets(frame)
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{tables(frame, names)}\n\n{END}{after}")
    if names:
        mpl.rcParams["svg.hashsalt"] = "gnn_depth"
        for name, figure in figures(frame, names):
            figure.savefig(page.parent / "pictures" / name, metadata={"Date": None})
            plt.close(figure)
