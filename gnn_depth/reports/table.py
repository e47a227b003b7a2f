"""A metric averaged over seeds in the cells of a table, and paired tests between cells."""

import math
import statistics
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from gnn_depth.registry import unknown
from gnn_depth.reports import settings
from gnn_depth.reports.load import ReportError, ReportWarning
from gnn_depth.reports.settings import ABSENT, Labels, counted, label
from gnn_depth.runs import RESULTS

Spread: TypeAlias = Literal["std", "ci"]
SPREADS = {"std": "standard deviation", "ci": "95% confidence interval (t)"}

Test: TypeAlias = Literal["wilcoxon", "t"]
TESTS = {"wilcoxon": "Wilcoxon's signed-rank test", "t": "the paired t test"}
# With five pairs Wilcoxon's p is at least 2 / 2^5: nothing could be significant.
SEEDS_NEEDED = {"wilcoxon": 6, "t": 2}
SIGNIFICANT = 0.05
MOST_SETTINGS = 6  # more columns of settings than this fit no screen
# Relative: metrics are float32, and equal differences of accuracies must count as ties.
ROUNDING = 1e-6
EXACT = 13  # number of pairs up to which every assignment of signs is tried


def t_half_width(deviation: float | np.ndarray, n: int | np.ndarray) -> float | np.ndarray:
    r"""Half width of the 95% t interval, :math:`t_{0.975, n-1}\, s / \sqrt n`, for n >= 2 values.

    Both may be arrays.
    """
    from scipy.special import stdtrit  # slow to import, and few tables have intervals

    return stdtrit(n - 1, 0.975) * deviation / n**0.5


class CellRun(NamedTuple):
    """One run of a cell."""

    seed: int | None
    status: str
    value: float  # NaN where it has none
    folder: str

    @property
    def counts(self) -> bool:
        """True if the value enters the mean.

        Diverged runs count with what they reached before, unfinished ones never.
        """
        return self.status in RESULTS and math.isfinite(self.value)


@dataclass(frozen=True)
class Cell:
    """Runs that differ only in their seed, whatever their status."""

    runs: tuple[CellRun, ...]
    settings: Mapping[str, str]  # axes and hyperparameters that they share -> value as text

    @property
    def values(self) -> list[float]:
        """The metric of every run that counts."""
        return [run.value for run in self.runs if run.counts]

    @property
    def by_seed(self) -> dict[int, float]:
        """The metric, by seed, of the runs that count and have a seed."""
        return {run.seed: run.value for run in self.runs if run.counts and run.seed is not None}

    @property
    def n(self) -> int:
        """Number of runs that count."""
        return len(self.values)

    @property
    def statuses(self) -> Counter[str]:
        """Number of runs of each status."""
        return Counter(run.status for run in self.runs)

    @property
    def results(self) -> int:
        """Number of runs that finished or diverged, with or without a value."""
        return sum(self.statuses[status] for status in RESULTS)

    @property
    def mean(self) -> float:
        """Mean over the runs that count; NaN without any."""
        return statistics.fmean(self.values or [math.nan])

    def half_width(self, spread: Spread) -> float | None:
        r"""The number after ±: :math:`s`, or :math:`t_{0.975, n-1}\, s / \sqrt n`.

        None for fewer than two runs.
        """
        if self.n < 2:
            return None
        deviation = statistics.stdev(self.values)
        if spread == "std":
            return deviation
        return float(t_half_width(deviation, self.n))


@dataclass(frozen=True)
class ResultTable:
    """A cell for every pair of a row and a column."""

    metric: str
    spread: Spread
    row_names: Labels  # names of axes
    column_names: Labels
    rows: tuple[Labels, ...]  # and their values
    columns: tuple[Labels, ...]
    cells: Mapping[tuple[Labels, Labels], Cell]  # by row and column, row by row
    axes: Labels = ()  # of the runs' sweeps
    # Axes, seed, status, metric and folder of every run behind the table, also of those that do not
    # count.
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def names(self) -> Labels:
        """Names of the axes of rows and columns."""
        return (*self.row_names, *self.column_names)


def tabulate(
    frame: pd.DataFrame,
    rows: str | Sequence[str],
    columns: str | Sequence[str] = (),
    metric: str | None = None,
    spread: Spread = "std",
    remedy: str = "",
) -> ResultTable:
    """Average a metric over seeds in every cell of a table; without columns it has one column.

    Rows and columns are in the order of their first appearance in the frame, numbers by size. By
    default the metric is that of the test set by which the runs chose their best epoch. The remedy
    says how to keep apart runs that differ in more than their seed, for the message that refuses
    them.
    """
    row_names = settings.full_names(frame, rows)
    column_names = settings.full_names(frame, columns)
    names = (*row_names, *column_names)
    if not row_names or len(set(names)) < len(names):
        raise ReportError(
            f"rows need at least one axis, and columns other axes than rows: not {rows} and "
            f"{columns}."
        )
    known = frame.attrs["metrics"]
    if not known:
        raise ReportError(f"no run has a metric yet: {counted(frame['status'])}.")
    if metric is None:
        metric = settings.main_metric(frame)
    if metric not in known:
        raise ReportError(unknown("metric", metric, known))
    if spread not in SPREADS:
        raise ReportError(unknown("spread", spread, SPREADS))
    remedy = remedy or f"give each a row with {' '.join(['--rows', *row_names])}"
    groups = settings.grouped(frame, names, remedy)
    count = len(row_names)  # labels of rows come first
    row_labels = settings.in_order(labels[:count] for labels in groups)
    column_labels = settings.in_order(labels[count:] for labels in groups)
    cells = {}
    listed = []
    for row, column in product(row_labels, column_labels):
        cells[row, column] = Cell((), {})  # of a combination that nobody ran
        runs = groups.get((*row, *column))
        if runs is not None:
            cells[row, column] = _cell(runs, metric)
            listed.append(runs)
    return ResultTable(
        metric,
        spread,
        row_names,
        column_names,
        row_labels,
        column_labels,
        cells,
        tuple(frame.attrs["axes"]),
        _list_runs(pd.concat(listed, ignore_index=True), metric, names, frame.attrs["axes"]),
    )


def _cell(runs: pd.DataFrame, metric: str) -> Cell:
    found = []
    columns = runs[["seed", "status", metric, "folder"]]
    for seed, status, value, folder in columns.itertuples(index=False, name=None):
        number = None if pd.isna(seed) else int(seed)  # of a training by other code
        found.append(CellRun(number, status, float(value), folder))
    # Runs of a cell differ only in their seed: the first one's settings are those of all.
    shared = {}
    for name in settings.settings(runs):
        text = label(runs[name].iloc[0])
        if text != ABSENT:
            shared[name] = text
    return Cell(tuple(found), shared)


def _list_runs(
    runs: pd.DataFrame, metric: str, names: Sequence[str], axes: Sequence[str]
) -> pd.DataFrame:
    """The runs of all cells with their values on the axes, as numbers or text."""
    own = ["seed", "status", metric, "folder"]
    shown = [name for name in dict.fromkeys([*axes, *names]) if name not in own]
    # Int64, as a run without a seed would make floats of all of them.
    listed = runs[[*shown, *own]].astype({"seed": "Int64"})
    # Parquet has one type for a column: depths are numbers, and parts are text.
    for name in shown:
        plain = listed[name].convert_dtypes()
        if not is_numeric_dtype(plain):
            plain = listed[name].map(label, na_action="ignore")
        listed[name] = plain
    return listed


def arrange(
    frame: pd.DataFrame, rows: Sequence[str] | None, columns: Sequence[str] | None
) -> tuple[Sequence[str], Sequence[str]]:
    """Fill in missing rows and columns: columns get the last varying axis, rows the others.

    Where nothing varies, the table has a single row, for an axis or option that all runs share.
    Single runs that differ in many settings have a row each.
    """
    named = settings.full_names(frame, [*(rows or ()), *(columns or ())])
    axes = settings.varying_axes(frame) or frame.attrs["axes"]
    free = [name for name in axes if name not in named]
    if rows is None and columns is None and not frame.attrs["axes"] and len(free) > MOST_SETTINGS:
        warnings.warn(
            f"the runs differ in {len(free)} settings, so each has a row: --rows and --where "
            f"choose among {', '.join(free)}.",
            ReportWarning,
            stacklevel=2,
        )
        return ["folder"], []
    if rows is None and not free:  # a table needs rows: any setting that all runs share
        known = settings.settings(frame)
        taken = [*named, *settings.varying(frame, known)]
        free = [name for name in known if name not in taken][:1] or ["name"]
    if columns is None:
        if rows is None:
            columns = free[1:][-1:]  # the last axis, if another one is left for the rows
        elif frame.attrs["axes"]:
            columns = free[-1:]
        else:
            # Rows that a user chose for single runs, such as their names, may tell them apart
            # already.
            columns = []
    if rows is None:
        rows = [name for name in free if name not in columns]
    return rows, columns


def to_csv(table: ResultTable) -> str:
    """The runs behind a table as CSV; missing values are empty."""
    return str(table.runs.to_csv(index=False, lineterminator="\n"))


def write_parquet(table: ResultTable, path: Path) -> None:
    """Write the runs behind a table to a Parquet file."""
    try:
        table.runs.to_parquet(path, engine="pyarrow", index=False)
    except ImportError as error:
        raise ReportError(
            "Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'."
        ) from error


class PairedDifference(NamedTuple):
    """A cell compared with the baseline's, over the seeds that both have."""

    difference: float  # of the means; NaN without shared seeds
    shared: int  # number of shared seeds
    p: float | None  # two-sided; None where these are too few

    @property
    def significant(self) -> bool:
        """True if p is below 0.05."""
        return self.p is not None and self.p < SIGNIFICANT


@dataclass(frozen=True)
class Comparison:
    """Every cell of a table compared with the baseline's cell of its row, or of its column.

    The baseline itself has no difference.
    """

    baseline: Labels
    test: Test
    pairs: Mapping[tuple[Labels, Labels], PairedDifference | None]  # one for each cell


def compare(table: ResultTable, baseline: str, test: Test = "wilcoxon") -> Comparison:
    """Compare every cell with a baseline: a column or a row.

    Labels of several axes are separated by commas.
    """
    wanted = tuple(word.strip() for word in baseline.split(","))
    in_columns, in_rows = wanted in table.columns, wanted in table.rows
    if not in_columns and not in_rows:
        labels = [", ".join(labels) for labels in (*table.columns, *table.rows) if labels]
        raise ReportError(unknown("baseline", baseline, labels))
    if in_columns and in_rows:
        raise ReportError(
            f"the baseline {baseline!r} is a row and a column: choose rows and columns that differ."
        )
    pairs: dict[tuple[Labels, Labels], PairedDifference | None] = {}
    for (row, column), cell in table.cells.items():
        opposite = (row, wanted) if in_columns else (wanted, column)
        base = table.cells[opposite]
        pairs[row, column] = None if base is cell else compare_cells(cell, base, test)
    return Comparison(wanted, test, pairs)


def compare_cells(cell: Cell, base: Cell, test: Test) -> PairedDifference:
    """Compare two cells over the seeds that both have."""
    of_cell, of_base = cell.by_seed, base.by_seed
    shared = sorted(of_cell.keys() & of_base.keys())
    if not shared:
        return PairedDifference(math.nan, 0, None)
    ours = np.array(list(map(of_cell.get, shared)), dtype=float)
    theirs = np.array(list(map(of_base.get, shared)), dtype=float)
    p = None
    if len(shared) >= SEEDS_NEEDED[test]:
        tolerance = ROUNDING * max(np.abs(ours).max(), np.abs(theirs).max())
        p = p_value(ours - theirs, test, tolerance)
    return PairedDifference(float((ours - theirs).mean()), len(shared), p)


def p_value(differences: np.ndarray, test: Test, tolerance: float) -> float:
    """Two-sided p value of the hypothesis that paired differences are centred at zero.

    It is 1 if all of them are zero. Differences whose sizes are closer than the tolerance are tied,
    and those below it are zero.
    """
    from scipy import stats

    sizes = np.abs(differences)
    if sizes.max() <= tolerance:
        return 1.0
    if test == "t":
        if np.ptp(differences) <= tolerance:  # t is infinite
            return 0.0
        return float(stats.ttest_1samp(differences, 0).pvalue)
    # Signed integers in the order of the sizes, equal for ties and 0 for zero, so that rounding
    # breaks no tie.
    order = np.argsort(sizes)
    levels = np.empty(len(order), dtype=int)
    levels[order] = np.cumsum(np.diff(sizes[order], prepend=0.0) > tolerance)
    signed = np.sign(differences).astype(int) * levels
    signed = signed[signed != 0]
    if len(signed) == 1:  # either sign is as likely
        return 1.0
    # SciPy's own exact test knows no ties, which accuracies on few nodes have many of.
    method: Any = "auto"
    if len(signed) <= EXACT:
        method = stats.PermutationMethod(n_resamples=2**EXACT)
    return float(stats.wilcoxon(signed, method=method).pvalue)
