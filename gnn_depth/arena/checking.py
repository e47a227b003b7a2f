"""Train records again and compare; and a user's own parts as further remedies."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gnn_depth import registry
from gnn_depth.arena.definition import Arena, ArenaRemedy
from gnn_depth.arena.records import TrainingRecord
from gnn_depth.arena.results import Results, prediction_half_width, score_of
from gnn_depth.arena.running import belongs, perform
from gnn_depth.training.identity import plugin_version

#: The kinds of parts of a model, each of which is the name of its option too.
KINDS = ("layer", "norm", "skip", "init", "graph_dropout")
SAME = 1e-4  # of a metric: equal but for the order of sums
MOST = 0.02  # difference that agrees: with two or three splits nearly any is within the interval


@dataclass(frozen=True)
class Again:
    """A record that was trained again.

    Attributes:
        record: The record.
        score: Its test metric in the new training.
        interval: Half the 95% interval of a further split of its cell; NaN where it has only one.
    """

    record: TrainingRecord
    score: float
    interval: float

    @property
    def is_equal(self) -> bool:
        """True if both are equal to the last digit that a record keeps."""
        return self.score == score_of(self.record)

    @property
    def width(self) -> float:
        """The largest difference that agrees: what splits of this cell differ by, and no more than
        2 points; of a cell with one split, what the order of sums may change."""
        if math.isnan(self.interval):
            return SAME
        return max(SAME, min(self.interval, MOST))

    @property
    def agrees(self) -> bool:
        """True if both are equal, or nearly so."""
        return abs(self.score - score_of(self.record)) <= self.width

    def __str__(self) -> str:
        job = self.record.job
        verdict = "agrees" if self.agrees else "DIFFERS"
        digits = "equal to the last digit" if self.is_equal else "not equal to the last digit"
        return (
            f"{verdict}: {job.set}, {job.remedy}, {job.depth} layers, split {job.split}: recorded "
            f"{score_of(self.record):.5g}, now {self.score:.5g}, {digits}; at most "
            f"{self.width:.4f} apart agrees"
        )


def train_again(
    arena: Arena, records: Iterable[TrainingRecord], count: int, seed: int = 0
) -> Iterable[Again]:
    """Train some final records again, chosen at random.

    Args:
        arena: What they belong to; records of another definition are not chosen.
        records: The records.
        count: Number of records; all, if there are fewer.
        seed: Determines the choice.

    Raises:
        ValueError: There is none.
    """
    known = [record for record in records if belongs(arena, record)]
    finals = []
    for cell in Results(arena, known).cells.values():
        for record in cell.records.values():
            finals.append((cell, record))
    if not finals:
        raise ValueError("there is no final training of this version's arena among the records.")
    chosen = np.random.default_rng(seed).permutation(len(finals))[:count]
    for place in chosen:
        cell, record = finals[int(place)]
        score = score_of(perform(arena, record.job))
        scores = cell.scores()
        width = prediction_half_width(scores) if len(scores) > 1 else math.nan
        yield Again(record, score, width)


def remedies_of(plugin: str) -> dict[str, ArenaRemedy]:
    """A remedy for each part that a plugin registers, with the part's options by default.

    Raises:
        ValueError: It does not load, or registers no part of a model.
    """
    before = {kind: set(registry.registered(kind)) for kind in KINDS}
    registry.load_plugin(plugin)
    found = {}
    for kind in KINDS:
        for name in registry.registered(kind):
            if name not in before[kind]:
                found[name] = ArenaRemedy({kind: name}, code=plugin_version(plugin))
    if not found:
        raise ValueError(
            f"plugin {plugin!r} registers no part that the arena could compare: a "
            f"{', '.join(KINDS)}."
        )
    return found
