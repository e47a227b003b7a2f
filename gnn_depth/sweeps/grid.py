"""A grid of runs: a base config, axes, rules and seeds."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gnn_depth.registry import unknown

Label: TypeAlias = str | int | float | bool | None
Settings: TypeAlias = dict[str, Any]  # dotted option -> value; `config` -> a config file to lay over the base
Where: TypeAlias = tuple[str | int, ...]

METRIC = "test_acc_at_best_val"


class GridError(ValueError):
    """A grid file that says nothing sensible.

    Attributes:
        where: The keys that lead to what is wrong.
    """

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class Axis:
    """What is varied: the settings that each of its labels stands for."""

    name: str
    values: dict[Label, Settings]


@dataclass(frozen=True)
class Rule:
    """Settings for some combinations, or that they are skipped: ``when`` has the labels of each axis that it is for."""

    when: dict[str, tuple[Label, ...]]
    settings: Settings
    skip: bool

    def holds(self, labels: Mapping[str, Label]) -> bool:
        return all(labels[axis] in accepted for axis, accepted in self.when.items())


@dataclass(frozen=True)
class Combination:
    """A point of the grid: a label of every axis, and all settings, later ones above earlier ones."""

    labels: dict[str, Label]
    settings: tuple[Settings, ...]

    @property
    def group(self) -> str:
        """``data=Cora,depth=10``: what runs that differ in their seed have in common."""
        return ",".join(f"{axis.rpartition('.')[2]}={say(label)}" for axis, label in self.labels.items()) or "all"


@dataclass(frozen=True)
class Grid:
    """All runs of a sweep.

    Attributes:
        name: Name of the sweep, and of its folder.
        base: Config files that every run starts from.
        axes: What is varied, the first axis slowest.
        seeds: Every combination is run with each.
        rules: Settings of some combinations, applied in order.
        metric: What runs are compared by.
    """

    name: str
    base: tuple[str, ...]
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    rules: tuple[Rule, ...] = field(default=())
    metric: str = METRIC

    def combinations(self) -> Iterator[Combination]:
        """Every combination that no rule skips."""
        for values in itertools.product(*(axis.values.items() for axis in self.axes)):
            labels = {axis.name: label for axis, (label, _) in zip(self.axes, values, strict=True)}
            rules = [rule for rule in self.rules if rule.holds(labels)]
            if not any(rule.skip for rule in rules):
                yield Combination(labels, (*(settings for _, settings in values), *(rule.settings for rule in rules)))

    def subset(self, chosen: Mapping[str, list[str]], seeds: int | None = None) -> "Grid":
        """The part of the grid that has one of these labels, written as text, on each of these axes.

        Args:
            chosen: Labels by axis.
            seeds: How many seeds, from 0 on; all of the grid's if not given.

        Raises:
            GridError: There is no such axis or label.
        """
        axes = {axis.name: axis for axis in self.axes}
        for name, labels in chosen.items():
            key = self.axis_called(name)
            by_text = self.labels_of(key)
            for label in labels:
                if label not in by_text:
                    raise GridError(unknown(f"value of axis {key!r}", label, by_text))
            kept = [by_text[text] for text in by_text if text in labels]
            axes[key] = Axis(key, {label: axes[key].values[label] for label in kept})
        kept_seeds = self.seeds if seeds is None else tuple(range(seeds))
        return replace(self, axes=tuple(axes.values()), seeds=kept_seeds)

    def labels_of(self, name: str) -> dict[str, Label]:
        """The labels of an axis, by their text."""
        return {say(label): label for axis in self.axes if axis.name == name for label in axis.values}

    def axis_called(self, name: str) -> str:
        """The full name of an axis that is called by it or by its last word.

        Raises:
            GridError: There is no such axis.
        """
        names = [axis.name for axis in self.axes]
        last = [full for full in names if full.rpartition(".")[2] == name]
        if name not in names and len(last) != 1:
            raise GridError(unknown("axis", name, names))
        return name if name in names else last[0]


def say(label: Label) -> str:
    """A label as YAML writes it."""
    if label is None:
        return "null"
    return str(label).lower() if isinstance(label, bool) else str(label)
