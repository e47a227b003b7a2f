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
Where: TypeAlias = tuple[str | int, ...]
Kind = TypeVar("Kind", dict[str, Any], list[Any])

KEYS = ("base", "axes", "search", "rules", "seeds", "per_seed", "name")
KINDS: dict[type, str] = {dict: "a mapping", list: "a list"}
SECTIONS_OF_RUNS = ("data", "model", "trainer")
RULE_KEYS = ("when", "set", "skip")
SEARCH_KEYS = ("options", "trials", "sampler", "seed")
RANGE_KEYS = ("low", "high", "log")
SAMPLERS = ("tpe", "random")
LARGEST_SEED = 2**32 - 1  # the largest that NumPy takes
MOST_SEEDS = 10_000  # a larger number is taken for a seed whose brackets were forgotten


class GridError(ValueError):
    """A grid file is invalid; ``where`` are the keys that lead to the mistake."""

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class Rule:
    """Settings for some combinations, or their exclusion.

    ``when`` gives the matching labels of each axis.
    """

    when: dict[str, tuple[Label, ...]]
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
class SearchedOption:
    """Values to choose from, or the two ends of a range, and how Optuna draws from them."""

    name: str
    values: Axis
    distribution: "BaseDistribution"

    def label_of(self, drawn: Any) -> Label:
        """The value that is used for one that Optuna drew: a number has four digits."""
        if drawn in self.values or not isinstance(drawn, float):
            return drawn
        low, high = self.values
        return min(max(float(f"{drawn:.4g}"), low), high)  # type: ignore[type-var]

    def settings(self, label: Label) -> Settings:
        return self.values.get(label, {self.name: label})


@dataclass(frozen=True)
class Search:
    """The section ``search`` of a grid file.

    Attributes:
        options: What is searched.
        trials: Number of settings to try, for each combination of the axes.
        sampler: ``tpe``, Optuna's tree-structured Parzen estimator, or ``random``.
        seed: Determines what is drawn, given the results so far.
    """

    options: tuple[SearchedOption, ...]
    trials: int
    sampler: str
    seed: int

    def combined(self, combination: Combination, labels: Mapping[str, Label]) -> Combination:
        """A combination of the axes with values of the searched options, which come last."""
        settings = [option.settings(labels[option.name]) for option in self.options]
        return Combination({**combination.labels, **labels}, (*combination.settings, *settings))

    def examples(self) -> list[dict[str, Label]]:
        """Settings that have each end of a range and each choice at least once."""
        first = {option.name: next(iter(option.values)) for option in self.options}
        found = [first]
        for option in self.options:
            for label in list(option.values)[1:]:
                found.append({**first, option.name: label})
        return found


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

    def combinations(self) -> Iterator[Combination]:
        """Every combination that no rule skips."""
        for values in itertools.product(*self.axes.values()):
            labels = dict(zip(self.axes, values, strict=True))
            settings = [self.axes[name][label] for name, label in labels.items()]
            rules = [rule for rule in self.rules if rule.applies(labels)]
            settings += [rule.settings for rule in rules]
            if not any(rule.skip for rule in rules):
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
    """True if an option is another one, or a part of it: ``model.norm`` covers
    ``model.norm.scale``."""
    name = name.replace(".init_args", "")
    return f"{option}.".startswith(f"{name}.")


def read_grid(content: Mapping[str, object], name: str) -> Grid:
    """Build a grid from the content of a grid file; the name is for a file that has none."""
    section = _section(content, KEYS, ())
    axes = {}
    for key, values in _checked(dict, section.get("axes"), ("axes",)).items():
        axes[key] = _axis(key, values, ("axes", key))
    base = section.get("base") or []
    files = base if isinstance(base, list) else [base]
    if not all(isinstance(file, str) for file in files):
        raise GridError(f"base names config files, not {base!r}.", ("base",))
    rules = []
    for place, rule in enumerate(_checked(list, section.get("rules"), ("rules",))):
        rules.append(_rule(rule, axes, ("rules", place)))
    seeds = _seeds(section.get("seeds", 1))
    search = None
    if "search" in section:
        search = _search(section["search"], axes)
    grid = Grid(
        _name(section.get("name") or name),
        tuple(files),
        axes,
        seeds,
        tuple(rules),
        _per_seed(section.get("per_seed"), seeds),
        search,
    )
    if next(grid.combinations(), None) is None:
        raise GridError("the grid is empty: its rules skip every combination.", ("rules",))
    return grid


def _search(content: object, axes: Mapping[str, Axis]) -> Search:
    """Read the section ``search`` of a grid file with these axes."""
    where = ("search",)
    section = {"seed": 0, "sampler": "tpe", **_section(content, SEARCH_KEYS, where)}
    options = []
    for name, values in _checked(dict, section.get("options"), (*where, "options")).items():
        here = (*where, "options", name)
        if name in axes:
            raise GridError(f"{name} is searched and an axis: it can be one of them.", here)
        options.append(_searched(name, values, here))
    if not options:
        raise GridError(
            "search needs options, as in options: {model.dropout: {low: 0.0, high: 0.8}}.", where
        )
    for key, least in (("trials", 1), ("seed", 0)):
        number = section.get(key)
        if type(number) is not int or number < least:
            raise GridError(
                f"search needs {key}, a whole number from {least}, not {number!r}.", (*where, key)
            )
    if section["sampler"] not in SAMPLERS:
        said = unknown("sampler", str(section["sampler"]), SAMPLERS)
        raise GridError(said, (*where, "sampler"))
    return Search(tuple(options), section["trials"], section["sampler"], section["seed"])


def _searched(name: Any, values: object, where: Where) -> SearchedOption:
    from optuna import distributions

    if isinstance(values, list):
        axis = _axis(name, values, where)
        return SearchedOption(name, axis, distributions.CategoricalDistribution(list(axis)))
    section = _section(values, RANGE_KEYS, where)
    kind: Any = distributions.FloatDistribution
    if type(section.get("low")) is type(section.get("high")) is int:  # 0 to 0.8 are no integers
        kind = distributions.IntDistribution
    try:
        drawn = kind(**section)
        if not math.isfinite(drawn.high - drawn.low):
            raise ValueError("both are finite")
    except (TypeError, ValueError) as error:
        raise GridError(
            f"{name} is searched in a list, or from low to high: {error}", where
        ) from error
    return SearchedOption(name, _axis(name, [drawn.low, drawn.high], where), drawn)


def _per_seed(options: object, seeds: Sequence[int]) -> dict[int, Settings]:
    """The options of each seed, from a list of values for each option."""
    lists = _settings(options, ("per_seed",))
    for name, values in lists.items():
        if not isinstance(values, list) or len(values) != len(seeds):
            raise GridError(
                f"per_seed has a value for each of the {len(seeds)} seeds, as in data.split: "
                f"[0, 1, 2], not {name}: {values!r}.",
                ("per_seed", name),
            )
    if not lists:
        return {}
    rows = zip(*lists.values(), strict=True)
    return {seed: dict(zip(lists, row, strict=True)) for seed, row in zip(seeds, rows, strict=True)}


def _name(name: object) -> str:
    if isinstance(name, str):
        path = PurePath(name)
        if path.parts and not path.is_absolute() and not {"..", ARCHIVE} & set(path.parts):
            return name
    raise GridError(
        f"name is that of a folder among all runs, and not {ARCHIVE!r}; it is {name!r}.", ("name",)
    )


def _axis(name: Any, values: Any, where: Where) -> Axis:
    if not isinstance(name, str) or not _is_line(name) or set("=,") & set(name):
        raise GridError(f"an axis is called by a word without '=' and ',', not {name!r}.", where)
    if name in COLUMNS:
        raise GridError(
            f"an axis cannot be called {name!r}: every table of results has a column of that name.",
            where,
        )
    if isinstance(values, list):
        pairs = [(_label(value, where), _settings({name: value}, where)) for value in values]
    elif not isinstance(values, dict):
        raise GridError(
            f"axis {name!r} is a list of values, or labels with their settings, or options with "
            f"equally long lists, not {values!r}.",
            where,
        )
    elif all(isinstance(value, list) for value in values.values()):
        pairs = _together(values, where)
    else:
        pairs = [(label, _settings(value, (*where, label))) for label, value in values.items()]
    if not pairs:
        raise GridError(f"the grid is empty: axis {name!r} has no values.", where)
    axis = dict(pairs)
    texts = {as_written(label) for label in axis}
    # 1, 1.0 and true have texts of their own, and are one key in Python.
    if len(texts) < len(pairs):
        raise GridError(
            f"axis {name!r} has a value twice, or values that are equal, as 1, 1.0 and true are: "
            "give each a label, as in one: {OPTION: 1}.",
            where,
        )
    if not all(map(_is_line, texts)):
        raise GridError(f"a label of axis {name!r} is no line of text: {sorted(texts)}.", where)
    return axis


def _together(options: dict[str, list[Any]], where: Where) -> list[tuple[Label, Settings]]:
    """Options that change together; the values of the first are the labels."""
    counts = {key: len(values) for key, values in options.items()}
    if len(set(counts.values())) > 1:
        raise GridError(f"options that change together need equally many values: {counts}.", where)
    pairs = []
    for row in zip(*options.values(), strict=True):
        settings = dict(zip(options, row, strict=True))
        pairs.append((_label(row[0], where), _settings(settings, where)))
    return pairs


def _is_line(text: str) -> bool:
    return text.isprintable() and bool(text.strip())


def _label(value: Any, where: Where) -> Label:
    if isinstance(value, list):
        return "+".join(as_written(_label(item, where)) for item in value) or "[]"
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("name"), str):
        raise GridError(
            f"a value that is made of keys needs a label, {{LABEL: {{OPTION: ...}}}}: {value}.",
            where,
        )
    # a part with its options
    rest = [f"{key}={as_written(item)}" for key, item in value.items() if key != "name"]
    return " ".join([value["name"], *rest])


def _settings(value: object, where: Where) -> Settings:
    if isinstance(value, str) and value.endswith((".yaml", ".yml")):
        return {"config": value}
    settings = _checked(dict, value, where)
    for key in settings:
        if not isinstance(key, str) or "=" in key:  # it would carry a value already
            raise GridError(f"an option is called by a word without '=', not {key!r}.", where)
    if "seed_everything" in settings:
        raise GridError(
            "the seeds of a grid belong under its key `seeds`, not `seed_everything`.", where
        )
    if not isinstance(settings.get("config", ""), str):
        raise GridError(f"config names a config file, not {settings['config']!r}.", where)
    return settings


def _rule(content: object, axes: Mapping[str, Axis], where: Where) -> Rule:
    rule = _section(content, RULE_KEYS, where)
    if ("set" in rule) == ("skip" in rule) or rule.get("skip", True) is not True:
        raise GridError(
            "a rule has `when` and either `set`, options with their values, or `skip: true`.", where
        )
    when = {}
    for name, labels in _checked(dict, rule.get("when"), (*where, "when")).items():
        here = (*where, "when", name)
        if name not in axes:
            raise GridError(unknown("axis", str(name), axes), here)
        listed = labels if isinstance(labels, list) else [labels]
        when[name] = tuple(_label(label, here) for label in listed)
        for label in when[name]:
            if label not in axes[name]:
                known = map(as_written, axes[name])
                raise GridError(unknown(f"value of axis {name!r}", as_written(label), known), here)
    return Rule(when, _settings(rule.get("set"), (*where, "set")), "skip" in rule)


def _seeds(seeds: object) -> tuple[int, ...]:
    if type(seeds) is int and 0 < seeds <= MOST_SEEDS:  # True is an int too
        return tuple(range(seeds))
    if isinstance(seeds, list) and all(type(seed) is int for seed in seeds):
        in_range = all(0 <= seed <= LARGEST_SEED for seed in seeds)
        if seeds and in_range and len(set(seeds)) == len(seeds):
            return tuple(seeds)
    raise GridError(
        f"seeds must be a number up to {MOST_SEEDS}, or a list of different ones from 0 to "
        f"{LARGEST_SEED}, not {seeds!r}.",
        ("seeds",),
    )


def _section(content: object, known: Sequence[str], where: Where) -> dict[str, Any]:
    """A mapping that has none but the known keys."""
    section = _checked(dict, content, where)
    for key in section:
        if key not in known:
            raise GridError(unknown("key", str(key), known), (*where, key))
    return section


def _checked(kind: type[Kind], value: object, where: Where) -> Kind:
    """A value of a kind, an empty one for null."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise GridError(f"{where[-1]} must be {KINDS[kind]}, not {value!r}.", where)
    return value
