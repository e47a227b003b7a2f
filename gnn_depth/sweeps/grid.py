"""A grid of runs: a base config with axes, rules and seeds, and a search, read from a file."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
Where: TypeAlias = tuple[str | int, ...]
Kind = TypeVar("Kind", dict[str, Any], list[Any], str)

KEYS = ("base", "axes", "search", "rules", "seeds", "per_seed", "name", "metric")
KINDS: dict[type, str] = {dict: "a mapping", list: "a list", str: "a word"}
SECTIONS_OF_RUNS = ("data", "model", "trainer")
RULE_KEYS = ("when", "set", "skip")
SEARCH_KEYS = ("options", "trials", "sampler", "seed")
RANGE_KEYS = ("low", "high", "log")
SAMPLERS = ("tpe", "random")
LARGEST_SEED = 2**32 - 1  # the largest that NumPy takes
MOST_RUNS = 100_000
MOST_TRIALS = 10_000
DIGITS = 4  # of a number that a search draws: folders carry its name, and more would say nothing
MOST_SEEDS = 10_000  # a larger number is taken for a seed whose brackets were forgotten


class GridError(ValueError):
    """A grid file is invalid; ``where`` are the keys that lead to the mistake."""

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class GridAxis:
    """One or more options that are varied; each label stands for some settings."""

    name: str
    values: dict[Label, Settings]


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
class Interval:
    """Numbers of a range: uniform, or uniform in the logarithm; whole if both ends are whole."""

    name: str  # of the option
    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int)

    def distribution(self) -> "BaseDistribution":
        """The range as Optuna draws from it."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.is_whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def label_of(self, drawn: float) -> Label:
        """The number that is used for one that Optuna drew: with few digits, inside the range."""
        if self.is_whole:
            return int(drawn)
        scale = self.high - self.low
        if self.log:  # digits that suit the whole range would round small numbers to zero
            scale = min(scale, drawn)
        rounded = round(drawn, DIGITS - 1 - math.floor(math.log10(scale)))
        return float(min(max(rounded, self.low), self.high))

    def has(self, label: Label) -> bool:
        """True if a number is one of the range."""
        if isinstance(label, bool) or not isinstance(label, int | float):
            return False
        if self.is_whole and not isinstance(label, int):
            return False
        return self.low <= label <= self.high

    def settings(self, label: Label) -> Settings:
        return {self.name: label}

    def examples(self) -> tuple[Label, ...]:
        """Labels that are checked before the first run: an option that takes both ends takes all
        between them."""
        return (self.low, self.high)

    def __str__(self) -> str:
        scale = ", log scale" if self.log else ""
        kind = "whole numbers " if self.is_whole else ""
        return f"{kind}{self.low} to {self.high}{scale}"


@dataclass(frozen=True)
class Choices:
    """Values of an option to choose from, in no order."""

    name: str  # of the option
    values: dict[Label, Settings]

    def distribution(self) -> "BaseDistribution":
        """The values as Optuna draws from them."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(list(self.values))

    def label_of(self, drawn: Label) -> Label:
        return drawn

    def has(self, label: Label) -> bool:
        return label in self.values

    def settings(self, label: Label) -> Settings:
        return self.values[label]

    def examples(self) -> tuple[Label, ...]:
        return tuple(self.values)

    def __str__(self) -> str:
        return "one of " + ", ".join(map(as_written, self.values))


Searched: TypeAlias = Interval | Choices


@dataclass(frozen=True)
class Search:
    """The section ``search`` of a grid file.

    Attributes:
        options: What is searched, by the name of the option.
        trials: Number of settings to try, for each combination of the axes.
        sampler: ``tpe``, Optuna's tree-structured Parzen estimator, or ``random``.
        seed: Determines what is drawn, given the results so far.
    """

    options: dict[str, Searched]
    trials: int
    sampler: str = "tpe"
    seed: int = 0

    def combined(self, combination: Combination, labels: Mapping[str, Label]) -> Combination:
        """A combination of the axes with values of the searched options, which come last."""
        settings = [option.settings(labels[name]) for name, option in self.options.items()]
        return Combination({**combination.labels, **labels}, (*combination.settings, *settings))

    def examples(self) -> list[dict[str, Label]]:
        """Settings that have each end of a range and each choice at least once."""
        first = {name: option.examples()[0] for name, option in self.options.items()}
        found = [first]
        for name, option in self.options.items():
            for label in option.examples()[1:]:
                found.append({**first, name: label})
        return found


@dataclass(frozen=True)
class Grid:
    """All runs of a sweep."""

    name: str  # of the sweep, and of its folder
    base: tuple[str, ...]  # config files that every run starts from
    axes: tuple[GridAxis, ...]  # the first one varies slowest
    seeds: tuple[int, ...]  # every combination is run with each
    rules: tuple[Rule, ...] = ()  # applied in order
    metric: str | None = None  # that runs are compared by; by default that of their task
    # Options that change with the seed, such as the number of a fixed split.
    per_seed: Mapping[int, Settings] = field(default_factory=dict)
    search: Search | None = None  # of settings for every combination

    def __post_init__(self) -> None:
        sizes_of_all = [len(axis.values) for axis in self.axes]
        if self.search is not None:
            sizes_of_all.append(self.search.trials)
        runs = math.prod([len(self.seeds), *sizes_of_all])
        if runs > MOST_RUNS:
            sizes = " x ".join(map(str, sizes_of_all))
            raise GridError(
                f"the grid has {runs:,} runs ({sizes} x {len(self.seeds)} seeds), and at most "
                f"{MOST_RUNS:,} are accepted: split it into several grids."
            )

    def combinations(self) -> Iterator[Combination]:
        """Every combination that no rule skips."""
        for values in itertools.product(*(axis.values.items() for axis in self.axes)):
            labels = {}
            settings = []
            for axis, (label, of_label) in zip(self.axes, values, strict=True):
                labels[axis.name] = label
                settings.append(of_label)
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
        axes = {axis.name: axis for axis in self.axes}
        for name, labels in chosen.items():
            key = self.axis_called(name)
            by_text = self.labels_of(key)
            for label in labels:
                if label not in by_text:
                    raise GridError(unknown(f"value of axis {key!r}", label, by_text))
            values = axes[key].values
            kept = {by_text[text]: values[by_text[text]] for text in by_text if text in labels}
            axes[key] = GridAxis(key, kept)
        kept_seeds = self.seeds if seeds is None else _seeds(seeds)
        if self.per_seed and seeds is not None:
            known = tuple(self.per_seed)
            kept_seeds = known[:seeds]
            if seeds > len(known):
                raise GridError(
                    f"per_seed has values for {len(known)} seeds, and {seeds} are asked for."
                )
        return replace(self, axes=tuple(axes.values()), seeds=kept_seeds)

    def labels_of(self, name: str) -> dict[str, Label]:
        """The labels of an axis by their text."""
        (values,) = [axis.values for axis in self.axes if axis.name == name]
        return {as_written(label): label for label in values}

    def axis_called(self, name: str) -> str:
        """The full name of an axis, given that or its last word."""
        names = [axis.name for axis in self.axes]
        if name in names:
            return name
        matches = [full for full in names if full.rpartition(".")[2] == name]
        if len(matches) != 1:
            raise GridError(unknown("axis", name, names))
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
    _check_keys(content, KEYS, "a grid file", ())
    axes = {}
    for key, values in _checked(dict, content.get("axes"), ("axes",)).items():
        axes[key] = _axis(key, values, ("axes", key))
    base = content.get("base")
    files: list[Any] = base if isinstance(base, list) else [base]
    if base is None:
        files = []
    if not all(isinstance(file, str) for file in files):
        raise GridError(f"base names config files, not {base!r}.", ("base",))
    rules = []
    for place, rule in enumerate(_checked(list, content.get("rules"), ("rules",))):
        rules.append(_rule(rule, axes, ("rules", place)))
    seeds = _seeds(content.get("seeds", 1))
    grid = Grid(
        _name(content.get("name") or name),
        tuple(files),
        tuple(axes.values()),
        seeds,
        tuple(rules),
        _checked(str, content.get("metric"), ("metric",)) or None,
        _per_seed(content.get("per_seed"), seeds),
        _search(content["search"], axes) if "search" in content else None,
    )
    if grid.search is not None and grid.metric is not None:
        raise GridError(
            "a search is judged by the validation metric that chooses the best epoch: set "
            "model.best_metric in the base config, and leave metric out.",
            ("metric",),
        )
    if next(grid.combinations(), None) is None:
        raise GridError("the grid is empty: its rules skip every combination.", ("rules",))
    return grid


def _search(content: object, axes: Mapping[str, GridAxis]) -> Search:
    """Read the section ``search`` of a grid file with these axes.

    Raises:
        GridError: It is not valid.
    """
    where: Where = ("search",)
    section = _checked(dict, content, where)
    _check_keys(section, SEARCH_KEYS, "search", where)
    options = {}
    for name, values in _checked(dict, section.get("options"), (*where, "options")).items():
        here = (*where, "options", name)
        if name in axes:
            raise GridError(f"{name} is searched and an axis: it can be one of them.", here)
        options[name] = _searched(name, values, here)
    if not options:
        raise GridError(
            "search needs options, as in options: {model.dropout: {low: 0.0, high: 0.8}}.", where
        )
    trials = section.get("trials")
    if type(trials) is not int or not 0 < trials <= MOST_TRIALS:
        raise GridError(
            f"search needs trials, the number of settings to try: from 1 to {MOST_TRIALS}, not "
            f"{trials!r}.",
            (*where, "trials"),
        )
    sampler = section.get("sampler", "tpe")
    if sampler not in SAMPLERS:
        raise GridError(unknown("sampler", str(sampler), SAMPLERS), (*where, "sampler"))
    seed = section.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise GridError(
            f"the seed of a search is a whole number from 0, not {seed!r}.", (*where, "seed")
        )
    return Search(options, trials, sampler, seed)


def _searched(name: Any, values: object, where: Where) -> Searched:
    if isinstance(values, list):
        if not values:
            raise GridError(f"{name} has no values to choose from.", where)
        return Choices(name, _axis(name, values, where).values)
    if not isinstance(values, dict):
        raise GridError(
            f"{name} is searched in a range, {{low: 0.0, high: 0.8}}, or in a list of values, not "
            f"{values!r}.",
            where,
        )
    for key in values:
        if key not in RANGE_KEYS:
            raise GridError(unknown(f"key of the range of {name}", str(key), RANGE_KEYS), where)
    _axis(name, [0], where)  # its name is that of an option
    ends = []
    for key in ("low", "high"):
        end = values.get(key)
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            raise GridError(f"{key} of {name} is a number, not {end!r}.", where)
        ends.append(end)
    low, high = ends
    if not all(isinstance(end, int) for end in ends):  # 0 to 0.8 are no whole numbers
        low, high = float(low), float(high)
    if low >= high:
        raise GridError(f"low of {name} is below high, and not {low} to {high}.", where)
    log = values.get("log", False)
    if not isinstance(log, bool):
        raise GridError(f"log of {name} is true or false, not {log!r}.", where)
    if log and low <= 0:
        raise GridError(
            f"{name} from {low} has no logarithm: with log: true low is above 0.", where
        )
    return Interval(name, low, high, log)


def _per_seed(options: object, seeds: Sequence[int]) -> dict[int, Settings]:
    """The options of each seed, from a list of values for each option."""
    where = ("per_seed",)
    lists = _settings(options, where)
    for name, values in lists.items():
        here = (*where, name)
        if not isinstance(values, list) or name == "config":
            raise GridError(
                f"per_seed has options with a value for each seed, as in data.split: [0, 1, 2], "
                f"not {name}: {values!r}.",
                here,
            )
        if len(values) != len(seeds):
            raise GridError(
                f"{name} has {len(values)} values for {len(seeds)} seeds: it needs one for each.",
                here,
            )
    if not lists:
        return {}
    found = {}
    for place, seed in enumerate(seeds):
        found[seed] = {name: values[place] for name, values in lists.items()}
    return found


def _name(value: object) -> str:
    name = _checked(str, value, ("name",))
    path = PurePath(name)
    if path.is_absolute() or not path.parts or {"..", ARCHIVE} & set(path.parts):
        raise GridError(
            f"name is that of a folder among all runs, and not {ARCHIVE!r}; it is {name!r}.",
            ("name",),
        )
    return name


def _axis(name: Any, values: Any, where: Where) -> GridAxis:
    if not isinstance(name, str) or not _is_line(name) or set("=,") & set(name):
        raise GridError(f"an axis is called by a word without '=' and ',', not {name!r}.", where)
    if name in COLUMNS:
        raise GridError(
            f"an axis cannot be called {name!r}: every table of results has a column of that name.",
            where,
        )
    if isinstance(values, list):
        pairs = [(_label(value, where), _settings({name: value}, where)) for value in values]
    elif isinstance(values, dict) and all(isinstance(value, list) for value in values.values()):
        pairs = _together(values, where)
    elif isinstance(values, dict):
        pairs = [(label, _settings(value, (*where, label))) for label, value in values.items()]
    else:
        raise GridError(
            f"axis {name!r} is a list of values, or labels with their settings, or options with "
            f"equally long lists, not {values!r}.",
            where,
        )
    if not pairs:
        raise GridError(f"the grid is empty: axis {name!r} has no values.", where)
    texts = {as_written(label) for label, _ in pairs}
    # 1, 1.0 and true have texts of their own, and are one key in Python.
    if len(texts) < len(pairs) or len(dict(pairs)) < len(pairs):
        raise GridError(
            f"axis {name!r} has a value twice, or values that are equal, as 1, 1.0 and true are: "
            "give each a label, as in one: {OPTION: 1}.",
            where,
        )
    for text in texts:
        if not _is_line(text):
            raise GridError(f"a label of axis {name!r} is a line of text, not {text!r}.", where)
    return GridAxis(name, dict(pairs))


def _together(options: dict[str, list[Any]], where: Where) -> list[tuple[Label, Settings]]:
    """Options that change together; the values of the first are the labels."""
    if len(set(map(len, options.values()))) > 1:
        said = ", ".join(f"{key} has {len(values)}" for key, values in options.items())
        raise GridError(f"options that change together need equally many values: {said}.", where)
    pairs = []
    for row in zip(*options.values(), strict=True):
        settings = dict(zip(options, row, strict=True))
        pairs.append((_label(row[0], where), _settings(settings, where)))
    return pairs


def _is_line(text: str) -> bool:
    return text.isprintable() and bool(text.strip())


def _label(value: Any, where: Where) -> Label:
    if isinstance(value, dict) and isinstance(value.get("name"), str):  # a part with its options
        rest = [f"{key}={as_written(item)}" for key, item in value.items() if key != "name"]
        return " ".join([value["name"], *rest])
    if isinstance(value, list):
        return "+".join(as_written(_label(item, where)) for item in value) or "[]"
    if isinstance(value, dict):
        raise GridError(
            f"a value that is made of keys needs a label, {{LABEL: {{OPTION: ...}}}}: {value}.",
            where,
        )
    return value


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


def _rule(rule: object, axes: Mapping[str, GridAxis], where: Where) -> Rule:
    rule = _checked(dict, rule, where)
    _check_keys(rule, RULE_KEYS, "a rule", where)
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
            if label not in axes[name].values:
                known = map(as_written, axes[name].values)
                what = f"value of axis {name!r}"
                raise GridError(unknown(what, as_written(label), known), here)
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


def _check_keys(section: Iterable[Any], known: Sequence[str], of: str, where: Where) -> None:
    """Refuse a key of a section that is none of the known ones."""
    for key in section:
        if key not in known:
            raise GridError(unknown(f"key of {of}", str(key), known), (*where, key))


def _checked(kind: type[Kind], value: object, where: Where) -> Kind:
    """A value of a kind, an empty one for null."""
    if not isinstance(value, kind | None):
        key = where[-1] if isinstance(where[-1], str) else f"each of {where[-2]}"
        raise GridError(f"{key} must be {KINDS[kind]}, not {value!r}.", where)
    return kind() if value is None else value
