"""The arena's results: cells of a set, a remedy and a depth, and the answers to its questions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gnn_depth.arena.definition import Arena
from gnn_depth.arena.records import TrainingRecord
from gnn_depth.arena.statistics import (
    LEVEL,
    PairedTest,
    RankComparison,
    compare_ranks,
    corrected_t_test,
    half_width,
    holm,
)
from gnn_depth.training.summary import NEAR_CHANCE

SETTLED = 0.8  # share of a cell's trainings that must have settled for it to be ranked
DEEP, SHALLOW = 32, 8  # depths of the planned comparison
FEWEST = 3  # splits of a paired test
#: The remedies of "skip and norm suffice" (arXiv 2506.04653).
SKIP_AND_NORM = ("residual_batch", "residual_layer", "linear_batch")


@dataclass
class ArenaCell:
    """The final trainings of a remedy with a number of layers on a set.

    Attributes:
        set: Name of the set.
        remedy: Name of the remedy.
        depth: Number of layers.
        records: Its records by split.
    """

    set: str
    remedy: str
    depth: int
    records: dict[int, TrainingRecord] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """True if enough of its trainings ended because the metric had stopped rising."""
        settled = [record.settled for record in self.records.values()]
        return sum(settled) >= SETTLED * len(settled)

    @property
    def failed(self) -> str:
        """Why it cannot be trained; empty if it can."""
        for record in self.records.values():
            if record.status == "failed":
                return record.reason
        return ""

    @property
    def diverged(self) -> int:
        """The number of trainings whose loss became NaN or infinite."""
        return sum(record.status == "diverged" for record in self.records.values())

    def scores(self, splits: Iterable[int] | None = None) -> list[float]:
        """Test metrics of some splits, by default of all it has."""
        chosen = sorted(self.records) if splits is None else list(splits)
        return [score_of(self.records[split]) for split in chosen]

    @property
    def validation(self) -> float:
        """Mean validation metric; what is chosen, is chosen by it."""
        values = [record.val for record in self.records.values()]
        known = [value for value in values if not math.isnan(value)]
        return float(np.mean(known)) if known else -math.inf

    @property
    def mean(self) -> float:
        """Mean test metric."""
        return float(np.mean(self.scores()))

    @property
    def seconds(self) -> float:
        """Median processor time of a training."""
        return float(np.median([record.seconds for record in self.records.values()]))

    @property
    def bytes(self) -> int:
        """Bytes that a step keeps for its backward pass."""
        return max(record.bytes for record in self.records.values())


def score_of(record: TrainingRecord) -> float:
    """The test metric of a training; that of a constant prediction, if it diverged before its
    first validation."""
    if math.isnan(record.test):
        return record.chance
    return record.test


@dataclass(frozen=True)
class DepthAnswer:
    """The planned comparison of a set: the best deep cell against the best shallow one.

    Attributes:
        set: Name of the set.
        deep: The cell of 32 layers with the best validation metric.
        shallow: That of 8 layers or fewer.
        test: The paired test of their test metrics.
        adjusted: Holm's p over all sets that are compared.
    """

    set: str
    deep: ArenaCell
    shallow: ArenaCell
    test: PairedTest
    adjusted: float


@dataclass(frozen=True)
class PairedComparison:
    """A cell against the reference of its family.

    Attributes:
        cell: The cell.
        test: The paired test of its test metrics minus the reference's.
        adjusted: Holm's p over the family.
    """

    cell: ArenaCell
    test: PairedTest
    adjusted: float

    @property
    def is_different(self) -> bool:
        """True if it can be told apart from the reference."""
        return self.adjusted <= LEVEL


@dataclass(frozen=True)
class Family:
    """Cells of one set and depth, all compared with one of them.

    Attributes:
        reference: The cell they are compared with.
        others: The comparisons, with Holm's correction over all of them.
        splits: The number of splits that all have.
    """

    reference: ArenaCell
    others: list[PairedComparison]
    splits: int


class Results:
    """The final trainings of an arena, by cell.

    Args:
        arena: What was compared; records of other definitions are left out.
        records: The records.
    """

    def __init__(self, arena: Arena, records: Iterable[TrainingRecord]) -> None:
        self.arena = arena
        self.records = list(records)
        self.cells: dict[tuple[str, str, int], ArenaCell] = {}
        for record in self.records:
            job = record.job
            is_known = job.set in arena.sets and job.remedy in arena.remedies
            if job.stage == "final" and is_known:
                key = (job.set, job.remedy, job.depth)
                cell = self.cells.setdefault(key, ArenaCell(*key))
                cell.records[job.split] = record

    def of(self, name: str, depth: int) -> list[ArenaCell]:
        """The cells of a set and depth that could be trained, in the order of the remedies."""
        found = []
        for remedy in self.arena.remedies:
            cell = self.cells.get((name, remedy, depth))
            if cell is not None and not cell.failed:
                found.append(cell)
        return found

    def ranked(self, name: str, depth: int) -> list[ArenaCell]:
        """The settled cells of a set and depth, the best mean first."""
        cells = [cell for cell in self.of(name, depth) if cell.is_settled]
        splits = self.splits(cells)
        return sorted(cells, key=lambda cell: -float(np.mean(cell.scores(range(splits)))))

    @staticmethod
    def splits(cells: Sequence[ArenaCell]) -> int:
        """The number of splits, from 0 on, that all cells have."""
        return min((len(cell.records) for cell in cells), default=0)

    @cached_property
    def sets(self) -> list[str]:
        """The sets with records."""
        return [name for name in self.arena.sets if any(key[0] == name for key in self.cells)]

    def depths(self, name: str) -> list[int]:
        """The depths with records on a set."""
        return sorted({key[2] for key in self.cells if key[0] == name})

    def ratio(self, name: str) -> float:
        """Test rows for each training row that splits share; 0 for sets that are drawn anew."""
        if self.arena.sets[name].is_redrawn:
            return 0.0
        for key, cell in self.cells.items():
            if key[0] == name:
                for record in cell.records.values():
                    if record.rows[0]:
                        return record.rows[2] / record.rows[0]
        return 0.0

    def paired(self, one: ArenaCell, other: ArenaCell) -> PairedTest:
        """The corrected paired test of a cell minus another one of its set."""
        splits = sorted(one.records.keys() & other.records.keys())
        differences = np.subtract(one.scores(splits), other.scores(splits))
        return corrected_t_test(differences, self.ratio(one.set))

    def depth_answers(self, sets: Sequence[str]) -> list[DepthAnswer]:
        """The planned comparison of each set that has enough trainings, with Holm's correction."""
        found = []
        for name in sets:
            deep = [cell for cell in self.of(name, DEEP) if cell.is_settled]
            shallow = []
            for depth in self.depths(name):
                if depth <= SHALLOW:
                    shallow += [cell for cell in self.of(name, depth) if cell.is_settled]
            if min(self.splits(deep), self.splits(shallow)) < FEWEST:
                continue
            best_deep = max(deep, key=lambda cell: cell.validation)
            best_shallow = max(shallow, key=lambda cell: cell.validation)
            found.append((name, best_deep, best_shallow, self.paired(best_deep, best_shallow)))
        adjusted = holm([test.p for *_, test in found])
        return [DepthAnswer(*each, p) for each, p in zip(found, adjusted, strict=True)]

    def family(self, cells: Sequence[ArenaCell], reference: ArenaCell) -> Family:
        """All cells against one of them, with Holm's correction."""
        others = [cell for cell in cells if cell is not reference]
        tests = [self.paired(cell, reference) for cell in others]
        adjusted = holm([test.p for test in tests])
        compared = []
        for cell, test, p in zip(others, tests, adjusted, strict=True):
            compared.append(PairedComparison(cell, test, p))
        return Family(reference, compared, self.splits(cells))

    def against_best(self, name: str, depth: int) -> Family | None:
        """All settled cells of a set and depth against the one with the best validation metric."""
        cells = self.ranked(name, depth)
        if len(cells) < 2 or self.splits(cells) < FEWEST:
            return None
        return self.family(cells, max(cells, key=lambda cell: cell.validation))

    def against_skip_and_norm(self, name: str, depth: int) -> Family | None:
        """All other settled cells against the best skip with a norm, by validation metric."""
        cells = self.ranked(name, depth)
        known = [cell for cell in cells if cell.remedy in SKIP_AND_NORM]
        if not known or self.splits(cells) < FEWEST:
            return None
        reference = max(known, key=lambda cell: cell.validation)
        others = [cell for cell in cells if cell.remedy not in SKIP_AND_NORM]
        return self.family([*others, reference], reference)

    def ranks(self, depth: int) -> RankComparison | None:
        """Friedman's test of the remedies that are ranked on every set at a depth; None if they
        are too few."""
        names = [name for name in self.sets if self.ranked(name, depth)]
        table: list[dict[str, float]] = []
        for name in names:
            cells = self.ranked(name, depth)
            splits = range(self.splits(cells))
            table.append({cell.remedy: float(np.mean(cell.scores(splits))) for cell in cells})
        if len(table) < FEWEST:
            return None
        everywhere = [one for one in self.arena.remedies if all(one in row for row in table)]
        if len(everywhere) < 3:
            return None
        scores = np.array([[row[remedy] for remedy in everywhere] for row in table])
        return compare_ranks(scores, everywhere)

    def failures(self, depth: int) -> tuple[list[ArenaCell], list[ArenaCell]]:
        """The cells of a depth that are no better than a constant prediction on the test rows, and
        those of them that are no better on the training rows either.

        Sets without a training metric of the same kind are left out.
        """
        failed, untrained = [], []
        for name in self.sets:
            for cell in self.of(name, depth):
                trained = [record.train for record in cell.records.values()]
                if any(math.isnan(value) for value in trained):
                    continue
                chance = float(np.mean([record.chance for record in cell.records.values()]))
                if cell.mean <= chance + NEAR_CHANCE:
                    failed.append(cell)
                    if float(np.mean(trained)) <= chance + 2 * NEAR_CHANCE:
                        untrained.append(cell)
        return failed, untrained


def prediction_half_width(values: Sequence[float]) -> float:
    """Half the width of the 95% interval of one further value; NaN for a single value."""
    return half_width(values) * math.sqrt(len(values) + 1)
