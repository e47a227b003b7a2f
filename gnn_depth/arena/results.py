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
FEWEST = 3  # splits of a paired test, and sets of a comparison of ranks
LEARNT = 2 * NEAR_CHANCE  # above chance: if no cell of a set exceeds this, nothing learns there
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

    def validation(self, splits: Iterable[int] | None = None) -> float:
        """Mean validation metric of some splits, by default of all it has; what is chosen, is
        chosen by it."""
        chosen = self.records if splits is None else splits
        known = _known(self.records[split].val for split in chosen)
        return float(np.mean(known)) if known else -math.inf

    @property
    def mean(self) -> float:
        """Mean test metric."""
        return float(np.mean(self.scores()))

    @property
    def chance(self) -> float:
        """Mean test metric of a constant prediction."""
        return float(np.mean([record.chance for record in self.records.values()]))

    @property
    def trained(self) -> float:
        """Mean training metric of the last epoch, with dropout; NaN if it is unknown."""
        known = _known(record.train for record in self.records.values())
        return float(np.mean(known)) if known else math.nan

    @property
    def seconds(self) -> float:
        """Median processor time of a training; NaN if all were trained on a GPU."""
        known = _known(record.seconds for record in self.records.values())
        return float(np.median(known)) if known else math.nan

    @property
    def bytes(self) -> int:
        """Bytes that a step keeps for its backward pass."""
        return max(record.bytes for record in self.records.values())


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def score_of(record: TrainingRecord) -> float:
    """The test metric of a training; that of a constant prediction, if it diverged before its
    first validation."""
    if math.isnan(record.test):
        return record.chance
    return record.test


CellPair = tuple[ArenaCell, ArenaCell]


@dataclass(frozen=True)
class BestCell:
    """The best remedy and depth of a set, by mean test metric.

    Attributes:
        remedy: Name of the remedy.
        depth: Number of layers.
        score: Mean test metric.
        chance: That of a constant prediction.
    """

    remedy: str
    depth: int
    score: float
    chance: float

    @property
    def learns(self) -> bool:
        """True if it is better than a constant prediction by more than chance explains."""
        return round(self.score - self.chance, 6) > LEARNT  # rounded: 0.34 - 0.3 > 0.04


def best_cells(records: Iterable[TrainingRecord]) -> dict[str, BestCell]:
    """The best remedy and depth of each set, over all final or small trainings that they have."""
    groups: dict[tuple[str, str, int, int], list[TrainingRecord]] = {}
    for record in records:
        job = record.job
        if job.stage in ("final", "small") and not math.isnan(score_of(record)):
            # The small trainings are not tuned: each setting is a model of its own.
            groups.setdefault((job.set, job.remedy, job.depth, job.setting), []).append(record)
    found: dict[str, BestCell] = {}
    for (name, remedy, depth, _), group in groups.items():
        score = float(np.mean([score_of(record) for record in group]))
        chance = float(np.mean([record.chance for record in group]))
        if name not in found or score > found[name].score:
            found[name] = BestCell(remedy, depth, score, chance)
    return found


@dataclass(frozen=True)
class Compared:
    """A paired test as one of its family.

    Attributes:
        cell: The cell that is compared.
        reference: The cell that it is compared with.
        test: The paired test of their test metrics, cell minus reference.
        adjusted: Holm's p over the family.
        detectable: The smallest difference that the test could have found.
    """

    cell: ArenaCell
    reference: ArenaCell
    test: PairedTest
    adjusted: float
    detectable: float

    @property
    def means(self) -> tuple[float, float]:
        """Mean test metrics of the two, over the splits that both have."""
        splits = sorted(self.cell.records.keys() & self.reference.records.keys())
        one, other = self.cell.scores(splits), self.reference.scores(splits)
        return float(np.mean(one)), float(np.mean(other))

    @property
    def is_different(self) -> bool:
        """True if the two can be told apart."""
        return self.adjusted <= LEVEL

    @property
    def is_better(self) -> bool:
        """True if the cell is better than the reference."""
        return self.is_different and self.test.difference > 0

    @property
    def is_worse(self) -> bool:
        """True if the cell is worse than the reference."""
        return self.is_different and self.test.difference < 0


@dataclass(frozen=True)
class Family:
    """Cells of one set and depth, all compared with one of them.

    Attributes:
        reference: The cell they are compared with.
        others: The comparisons, with Holm's correction over all of them.
        splits: The number of splits that all have.
    """

    reference: ArenaCell
    others: list[Compared]
    splits: int


@dataclass(frozen=True)
class Failures:
    """Cells that are no better than a constant prediction, on test and on training rows.

    Attributes:
        cells: The cells that are asked.
        failed: Those that are no better on the test rows.
        untrained: Those of them that are no better on the training rows either.
        unknown: The sets without a training metric of the same kind; none of their cells is asked.
    """

    cells: list[ArenaCell]
    failed: list[ArenaCell]
    untrained: list[ArenaCell]
    unknown: list[str]


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
        """The settled cells of a set and depth, the best mean first; none where nothing learns.

        If others have more, a cell with fewer splits than a paired test takes is left out: all are
        compared over the splits that all have.
        """
        if name in self.silent:
            return []
        settled = [cell for cell in self.of(name, depth) if cell.is_settled]
        most = max((self.splits([cell]) for cell in settled), default=0)
        needed = min(most, FEWEST)
        cells = [cell for cell in settled if self.splits([cell]) >= needed]
        splits = self.splits(cells)
        return sorted(cells, key=lambda cell: -float(np.mean(cell.scores(range(splits)))))

    @staticmethod
    def splits(cells: Sequence[ArenaCell]) -> int:
        """The number of splits, from 0 on, that all cells have."""
        count = 0
        while cells and all(count in cell.records for cell in cells):
            count += 1
        return count

    @cached_property
    def sets(self) -> list[str]:
        """The sets with records."""
        return [name for name in self.arena.sets if any(key[0] == name for key in self.cells)]

    @cached_property
    def silent(self) -> dict[str, BestCell]:
        """The sets on which nothing learns, with their best cells: they decide no question."""
        best = best_cells(self.records)
        return {name: best[name] for name in self.sets if name in best and not best[name].learns}

    @property
    def telling(self) -> list[str]:
        """The sets on which something learns."""
        return [name for name in self.sets if name not in self.silent]

    def depths(self, name: str) -> list[int]:
        """The depths with records on a set."""
        return sorted({key[2] for key in self.cells if key[0] == name})

    @cached_property
    def rows(self) -> dict[str, tuple[int, int, int]]:
        """Rows to train, validate and test on of each set."""
        found: dict[str, tuple[int, int, int]] = {}
        for (name, _, _), cell in self.cells.items():
            for record in cell.records.values():
                if record.rows[0]:
                    found.setdefault(name, record.rows)
        return found

    def ratio(self, name: str) -> float:
        """Test rows for each training row that splits share; 0 for sets that are drawn anew, NaN
        if no record has its rows."""
        if self.arena.sets[name].is_redrawn:
            return 0.0
        if name not in self.rows:
            return math.nan
        train, _, test = self.rows[name]
        return test / train

    def half_width(self, cell: ArenaCell) -> float:
        """Half the width of the 95% interval of a cell's mean."""
        return half_width(cell.scores(), self.ratio(cell.set))

    def paired(self, one: ArenaCell, other: ArenaCell) -> PairedTest:
        """The corrected paired test of a cell minus another one of its set."""
        splits = sorted(one.records.keys() & other.records.keys())
        differences = np.subtract(one.scores(splits), other.scores(splits))
        # An area under a curve has finer steps: a larger floor of its variance is on the safe side.
        step = 1 / self.rows[one.set][2] if one.set in self.rows else 0.0
        return corrected_t_test(differences, self.ratio(one.set), step)

    def compare(self, pairs: Sequence[CellPair]) -> list[Compared]:
        """The paired tests of a family, with Holm's correction over all of them."""
        tests = [self.paired(*pair) for pair in pairs]
        adjusted = holm([test.p for test in tests])
        known = sum(not math.isnan(test.p) for test in tests)
        found = []
        for pair, test, p in zip(pairs, tests, adjusted, strict=True):
            found.append(Compared(*pair, test, p, test.detectable(max(known, 1))))
        return found

    def depth_answers(
        self, sets: Sequence[str], layers: int = DEEP, most: int = SHALLOW
    ) -> list[Compared]:
        """Compare the best cell of each set with some layers with its best one of at most so many.

        Holm's correction is over the sets; those without enough trainings are left out.
        """
        pairs = [self._depth_pair(name, layers, most) for name in sets]
        return self.compare([pair for pair in pairs if pair is not None])

    def sufficiency_answers(self, sets: Sequence[str]) -> list[Compared]:
        """Compare the best other deep cell of each set with its best skip with a norm.

        Holm's correction is over the sets; those without enough trainings are left out.
        """
        pairs = [self._sufficiency_pair(name) for name in sets]
        return self.compare([pair for pair in pairs if pair is not None])

    def planned(self, name: str) -> list[ArenaCell]:
        """The cells of a set that these two comparisons are about."""
        found = []
        for pair in (self._depth_pair(name, DEEP, SHALLOW), self._sufficiency_pair(name)):
            found += [cell for cell in pair or () if cell not in found]
        return found

    def _depth_pair(self, name: str, layers: int, most: int) -> CellPair | None:
        """The best cell of a set with some layers, and the best one with at most so many; None
        without enough trainings."""
        deep = self.ranked(name, layers)
        shallow = []
        for depth in self.depths(name):
            if depth <= most:
                shallow += self.ranked(name, depth)
        if min(self.splits(deep), self.splits(shallow)) < FEWEST:
            return None
        return self.best(deep), self.best(shallow)

    def _sufficiency_pair(self, name: str) -> CellPair | None:
        """The best other deep cell of a set and the best skip with a norm; None without enough
        trainings."""
        family = self.against_skip_and_norm(name, DEEP)
        if family is None or not family.others:
            return None
        return self.best([one.cell for one in family.others]), family.reference

    def best(self, cells: Sequence[ArenaCell]) -> ArenaCell:
        """The cell with the best validation metric over the splits that all cells have: a cell is
        not chosen, or passed over, because it has more splits than others."""
        splits = range(self.splits(cells))
        return max(cells, key=lambda cell: cell.validation(splits))

    def family(self, cells: Sequence[ArenaCell], reference: ArenaCell) -> Family:
        """All cells against one of them, with Holm's correction."""
        pairs = [(cell, reference) for cell in cells if cell is not reference]
        return Family(reference, self.compare(pairs), self.splits(cells))

    def against_best(self, name: str, depth: int) -> Family | None:
        """All settled cells of a set and depth against the one with the best validation metric."""
        cells = self.ranked(name, depth)
        if len(cells) < 2 or self.splits(cells) < FEWEST:
            return None
        return self.family(cells, self.best(cells))

    def against_skip_and_norm(self, name: str, depth: int) -> Family | None:
        """All other settled cells against the best skip with a norm, by validation metric."""
        cells = self.ranked(name, depth)
        known = [cell for cell in cells if cell.remedy in SKIP_AND_NORM]
        if not known or self.splits(cells) < FEWEST:
            return None
        reference = self.best(known)
        others = [cell for cell in cells if cell.remedy not in SKIP_AND_NORM]
        return self.family([*others, reference], reference)

    def ranked_sets(self, depth: int) -> list[str]:
        """The sets with at least half as many ranked remedies as the set with most."""
        counts = {name: len(self.ranked(name, depth)) for name in self.telling}
        most = max(counts.values(), default=0)
        return [name for name, count in counts.items() if count and 2 * count >= most]

    def dropped(self, depth: int) -> dict[str, list[str]]:
        """The remedies without a rank on one of the ranked sets, each with the reasons."""
        found: dict[str, list[str]] = {}
        names = self.ranked_sets(depth)
        for remedy in self.arena.remedies:
            by_reason: dict[str, list[str]] = {}
            for name in names:
                reason = self._why_not_ranked(name, remedy, depth)
                if reason:
                    by_reason.setdefault(reason, []).append(name)
            reasons = [f"{reason} {', '.join(where)}" for reason, where in by_reason.items()]
            if reasons:
                found[remedy] = reasons
        return found

    def _why_not_ranked(self, name: str, remedy: str, depth: int) -> str:
        """Why a remedy has no rank on a set; empty if it has one."""
        cell = self.cells.get((name, remedy, depth))
        if cell is None and not self.arena.takes(remedy, name):
            return "left out of"
        if cell is None:
            return "no trainings yet on"
        if cell.failed:
            return "cannot be trained on"
        if not cell.is_settled:
            return "not settled on"
        return "" if cell in self.ranked(name, depth) else "only begun on"

    def ranks(self, depth: int) -> RankComparison | None:
        """Friedman's test of the remedies that are ranked on every set at a depth; None if they
        are too few."""
        dropped = self.dropped(depth)
        everywhere = [remedy for remedy in self.arena.remedies if remedy not in dropped]
        names = self.ranked_sets(depth)
        if len(names) < FEWEST or len(everywhere) < 3:
            return None
        scores = []
        for name in names:
            splits = range(self.splits(self.ranked(name, depth)))
            cells = [self.cells[name, remedy, depth] for remedy in everywhere]
            scores.append([float(np.mean(cell.scores(splits))) for cell in cells])
        return compare_ranks(np.array(scores), everywhere)

    def failures(self, depth: int) -> Failures:
        """The cells of a depth that are no better than a constant prediction.

        The records have no training metric of a constant prediction. The training metric of a cell
        is compared with the test metric of one, with twice the margin: in splits drawn at random
        the largest class has nearly the same share of both.
        """
        found = Failures([], [], [], [])
        for name in self.telling:
            cells = self.of(name, depth)
            if not cells:
                continue
            if not _known(cell.trained for cell in cells):
                found.unknown.append(name)
                continue
            found.cells.extend(cells)
            for cell in cells:
                if cell.mean > cell.chance + NEAR_CHANCE:
                    continue
                found.failed.append(cell)
                # One that diverged in its first epoch has no training metric.
                if math.isnan(cell.trained) or cell.trained <= cell.chance + LEARNT:
                    found.untrained.append(cell)
        return found


def prediction_half_width(values: Sequence[float]) -> float:
    """Half the width of the 95% interval of one further value; NaN for a single value."""
    return half_width(values) * math.sqrt(len(values) + 1)
