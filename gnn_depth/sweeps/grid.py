"""A grid of runs: a base config with axes, rules and seeds, and a search, read from a file."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gnn_depth.registry import as_written, unknown
from gnn_depth.runs import ARCHIVE, COLUMNS

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Label: TypeAlias = str | int | float | bool | None
# Dotted option -> value; `config` -> a config file to lay over the base.
Settings: TypeAlias = dict[str, Any]
# The labels of an axis, each of which stands for some settings.
Axis: TypeAlias = dict[Label, Settings]
Kind = TypeVar("Kind", dict[str, Any], list[Any])

KEYS = ("base", "axes", "search", "rules", "seeds", "per_seed", "name")
KINDS: dict[type, str] = {dict: "a mapping", list: "a list"}
RULE_KEYS = ("when", "set", "skip")
SEARCH_KEYS = ("options", "trials", "sampler", "seed")
SAMPLERS = ("tpe", "random")
LARGEST_SEED = 2**32 - 1  # the largest that NumPy takes
MOST_RUNS = 100_000  # all are resolved before the first one starts


class GridError(ValueError):
    """A grid file is invalid."""


@dataclass(frozen=True)
class Rule:
    """Settings for some combinations, or their exclusion.

    ``when`` gives the matching labels of each axis.
    """

    when: dict[str, list[Label]]
    settings: Settings
    skip: bool

    def applies(self, labels: Mapping[str, Label]) -> bool:
        return all(labels[axis] in accepted for axis, accepted in self.when.items())


@dataclass(frozen=True)
class Combination:
    """A point of the grid: a label of every axis, and all settings, of which later ones win."""

    labels: dict[str, Label]
    settings: tuple[Settings, ...]

    @property
    def group(self) -> str:
        """The name that runs with different seeds share: ``data=Cora,depth=10``."""
        parts = []
        for axis, label in self.labels.items():
            parts.append(f"{axis.rpartition('.')[2]}={as_written(label)}")
        return ",".join(parts) or "all"


@dataclass(frozen=True)
class Search:
    """The section ``search`` of a grid file.

    Attributes:
        values: Of each searched option those to choose from, or the two ends of its range.
        distributions: How Optuna draws each option.
        trials: Number of settings to try, for each combination of the axes.
        sampler: ``tpe``, Optuna's tree-structured Parzen estimator, or ``random``.
        seed: Determines what is drawn, given the results so far.
    """

    values: dict[str, Axis]
    distributions: dict[str, "BaseDistribution"]
    trials: int
    sampler: str
    seed: int

    def combined(self, combination: Combination, drawn: Mapping[str, Label]) -> Combination:
        """A combination of the axes with values of the searched options, which come last; numbers
        that Optuna drew have four digits."""
        labels, settings = dict(combination.labels), list(combination.settings)
        for name, label in drawn.items():
            known = self.values[name]
            if isinstance(label, float) and label not in known:
                label = float(f"{label:.4g}")
            labels[name] = label
            settings.append(known.get(label, {name: label}))
        return Combination(labels, tuple(settings))


@dataclass(frozen=True)
class Grid:
    """All runs of a sweep."""

    name: str  # of the sweep, and of its folder
    base: tuple[str, ...]  # config files that every run starts from
    axes: dict[str, Axis]  # the first one varies slowest
    seeds: tuple[int, ...]  # every combination is run with each
    rules: tuple[Rule, ...] = ()  # applied in order
    # Options that change with the seed, such as the number of a fixed split.
    per_seed: Mapping[int, Settings] = field(default_factory=dict)
    search: Search | None = None  # of settings for every combination

    def __post_init__(self) -> None:
        count = math.prod(map(len, self.axes.values())) * len(self.seeds)
        if count > MOST_RUNS:
            raise GridError(f"a grid has at most {MOST_RUNS:,} runs, not {count:,}.")

    def combinations(self) -> Iterator[Combination]:
        """Every combination that no rule skips."""
        for values in itertools.product(*self.axes.values()):
            labels = dict(zip(self.axes, values, strict=True))
            settings = [self.axes[name][label] for name, label in labels.items()]
            skips = False
            for rule in self.rules:
                if rule.applies(labels):
                    settings.append(rule.settings)
                    skips |= rule.skip
            if not skips:
                yield Combination(labels, tuple(settings))

    def with_seed(self, combination: Combination, seed: int) -> Combination:
        """A combination with the options that change with the seed."""
        settings = self.per_seed.get(seed, {})
        return replace(combination, settings=(*combination.settings, settings))

    def subset(self, chosen: Mapping[str, list[str]], seeds: int | None = None) -> "Grid":
        """The part of the grid with these labels of some axes, as text, and the first seeds."""
        axes = dict(self.axes)
        for name, texts in chosen.items():
            key = self.axis_called(name)
            known = self.labels_of(key)
            for text in texts:
                if text not in known:
                    raise GridError(unknown(f"value of axis {key!r}", text, known))
            axes[key] = {known[text]: axes[key][known[text]] for text in known if text in texts}
        kept = self.seeds
        if seeds is not None and self.per_seed:
            kept = self.seeds[:seeds]
            if seeds > len(self.seeds):
                raise GridError(
                    f"per_seed has values for {len(self.seeds)} seeds, and {seeds} are asked for."
                )
        elif seeds is not None:
            kept = _seeds(seeds)
        return replace(self, axes=axes, seeds=kept)

    def labels_of(self, name: str) -> dict[str, Label]:
        """The labels of an axis by their text."""
        return {as_written(label): label for label in self.axes[name]}

    def axis_called(self, name: str) -> str:
        """The full name of an axis, given that or its last word."""
        if name in self.axes:
            return name
        matches = [full for full in self.axes if full.rpartition(".")[2] == name]
        if len(matches) != 1:
            raise GridError(unknown("axis", name, self.axes))
        return matches[0]


def dotted_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of settings by dotted option, those in sections and in parts too."""
    found = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            for name, inner in dotted_options(value).items():
                found[f"{key}.{name}"] = inner
        else:
            found[key] = value
    return {name.replace(".init_args", ""): value for name, value in found.items()}


def covers(name: str, option: str) -> bool:
    """True if one option is the other or contains it: ``model.norm`` covers
    ``model.norm.scale``."""
    name = name.replace(".init_args", "")
    return f"{option}.".startswith(f"{name}.")


def read_grid(content: Mapping[str, object], name: str) -> Grid:
    """Build a grid from the content of a grid file; the name is for a file that has none."""
    section = _section("a grid", content, KEYS)
    if not section:
        raise GridError("the grid is empty.")
    axes = {}
    for key, values in _checked(dict, section.get("axes"), "axes").items():
        axes[key] = _axis(key, values)
    files = section.get("base") or []
    if isinstance(files, str):
        files = [files]
    if not all(isinstance(file, str) for file in _checked(list, files, "base")):
        raise GridError(f"base names config files, not {files!r}.")
    own = section.get("name") or name
    if not isinstance(own, str) or {"/", "..", ARCHIVE} & set(PurePath(own).parts):
        raise GridError(f"name is that of a folder among all runs, not {ARCHIVE!r}, nor {own!r}.")
    rules = [_rule(rule, axes) for rule in _checked(list, section.get("rules"), "rules")]
    seeds = _seeds(section.get("seeds", 1))
    per_seed = _per_seed(section.get("per_seed"), seeds)
    search = None
    if "search" in section:
        search = _search(section["search"], axes)
    grid = Grid(own, tuple(files), axes, seeds, tuple(rules), per_seed, search)
    if next(grid.combinations(), None) is None:
        raise GridError("the grid is empty: its rules skip every combination.")
    return grid


def _search(content: object, axes: Mapping[str, Axis]) -> Search:
    """Read the section ``search`` of a grid file with these axes."""
    from optuna import distributions

    section = {"seed": 0, "sampler": "tpe", **_section("search", content, SEARCH_KEYS)}
    found: dict[str, Axis] = {}
    drawn: dict[str, BaseDistribution] = {}
    for name, values in _checked(dict, section.get("options"), "options").items():
        if name in axes:
            raise GridError(f"{name} is searched and an axis: it can be one of them.")
        if isinstance(values, list):
            found[name] = _axis(name, values)
            drawn[name] = distributions.CategoricalDistribution(list(found[name]))
            continue
        ends = _checked(dict, values, name)
        kind: Any = distributions.FloatDistribution
        if type(ends.get("low")) is type(ends.get("high")) is int:  # 0 to 0.8 are no integers
            kind = distributions.IntDistribution
        try:
            drawn[name] = kind(**ends)
        except (TypeError, ValueError) as error:
            raise GridError(f"{name} is searched in a list, or from low to high: {error}") from None
        found[name] = _axis(name, [ends["low"], ends["high"]])
    if not found:
        raise GridError(
            "search needs options, as in options: {model.dropout: {low: 0.0, high: 0.8}}."
        )
    for key, least in (("trials", 1), ("seed", 0)):
        number = section.get(key)
        if type(number) is not int or number < least:
            raise GridError(f"search needs {key}, a whole number from {least}, not {number!r}.")
    sampler = section["sampler"]
    if sampler not in SAMPLERS:
        raise GridError(unknown("sampler", str(sampler), SAMPLERS))
    return Search(found, drawn, section["trials"], sampler, section["seed"])


def _per_seed(options: object, seeds: Sequence[int]) -> dict[int, Settings]:
    """The options of each seed, from a list of values for each option."""
    found: dict[int, Settings] = {}
    for name, values in _settings(options, "per_seed").items():
        if not isinstance(values, list) or len(values) != len(seeds):
            raise GridError(
                f"per_seed has a value for each of the {len(seeds)} seeds, as in data.split: "
                f"[0, 1, 2], not {name}: {values!r}."
            )
        for seed, value in zip(seeds, values, strict=True):
            found.setdefault(seed, {})[name] = value
    return found


def _axis(name: Any, values: Any) -> Axis:
    if not isinstance(name, str) or "=" in name or name in COLUMNS:
        raise GridError(
            f"an axis cannot be called {name!r}: its name is text without '=', and none of the "
            "columns that every table of results has."
        )
    if isinstance(values, list):  # of the option that the axis is called by
        pairs = [(_label(value), {name: value}) for value in values]
    elif not isinstance(values, dict):
        raise GridError(
            f"axis {name!r} is a list of values, or labels with their settings, or options with "
            f"equally long lists, not {values!r}."
        )
    elif all(isinstance(value, list) for value in values.values()):
        # Options that change together; the values of the first are the labels.
        counts = {key: len(value) for key, value in values.items()}
        if len(set(counts.values())) > 1:
            raise GridError(f"options that change together need equally many values: {counts}.")
        rows = zip(*values.values(), strict=True)
        pairs = [(_label(row[0]), dict(zip(values, row, strict=True))) for row in rows]
    else:
        pairs = list(values.items())
    if not pairs:
        raise GridError(f"the grid is empty: axis {name!r} has no values.")
    axis = {label: _settings(settings, f"axis {name!r}") for label, settings in pairs}
    # 1, 1.0 and true have texts of their own, and are one key in Python.
    if len(set(map(as_written, axis))) < len(pairs):
        raise GridError(
            f"axis {name!r} has a value twice, or values that are equal, as 1, 1.0 and true are: "
            "give each a label, as in one: {OPTION: 1}."
        )
    return axis


def _label(value: Any) -> Label:
    if isinstance(value, list):
        return "+".join(as_written(_label(item)) for item in value) or "[]"
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("name"), str):
        raise GridError(
            f"a value that is a mapping needs a label, {{LABEL: {{OPTION: ...}}}}: {value}."
        )
    # a part with its options
    rest = [f"{key}={as_written(item)}" for key, item in value.items() if key != "name"]
    return " ".join([value["name"], *rest])


def _settings(value: object, of: str) -> Settings:
    if isinstance(value, str) and value.endswith((".yaml", ".yml")):
        return {"config": value}
    settings = _checked(dict, value, of)
    for key in settings:
        if not isinstance(key, str):
            raise GridError(f"the name of an option is text, not {key!r}.")
    if "seed_everything" in settings:
        raise GridError("the seeds of a grid belong under its key `seeds`, not `seed_everything`.")
    if not isinstance(settings.get("config", ""), str):
        raise GridError(f"config names a config file, not {settings['config']!r}.")
    return settings


def _rule(content: object, axes: Mapping[str, Axis]) -> Rule:
    rule = _section("a rule", content, RULE_KEYS)
    if ("set" in rule) == ("skip" in rule) or rule.get("skip", True) is not True:
        raise GridError(
            "a rule has `when` and either `set`, options with their values, or `skip: true`."
        )
    when = {}
    for name, labels in _checked(dict, rule.get("when"), "when").items():
        if name not in axes:
            raise GridError(unknown("axis", str(name), axes))
        listed = labels if isinstance(labels, list) else [labels]
        when[name] = [_label(label) for label in listed]
        for label in when[name]:
            if label not in axes[name]:
                known = map(as_written, axes[name])
                raise GridError(unknown(f"value of axis {name!r}", as_written(label), known))
    return Rule(when, _settings(rule.get("set"), "set"), "skip" in rule)


def _seeds(seeds: object) -> tuple[int, ...]:
    if type(seeds) is int and 0 < seeds <= MOST_RUNS:  # True is an int too
        return tuple(range(seeds))
    if isinstance(seeds, list) and seeds:
        in_range = all(type(seed) is int and 0 <= seed <= LARGEST_SEED for seed in seeds)
        if in_range and len(set(seeds)) == len(seeds):
            return tuple(seeds)
    raise GridError(
        f"seeds must be a number up to {MOST_RUNS}, or a list of different ones from 0 to "
        f"{LARGEST_SEED}, not {seeds!r}."
    )


def _section(of: str, content: object, known: Sequence[str]) -> dict[str, Any]:
    """A mapping that has none but the known keys."""
    section = _checked(dict, content, of)
    for key in section:
        if key not in known:
            raise GridError(unknown(f"key of {of}", str(key), known))
    return section


def _checked(kind: type[Kind], value: object, of: str) -> Kind:
    """A value of a kind, an empty one for null."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise GridError(f"{of} must be {KINDS[kind]}, not {value!r}.")
    return value
