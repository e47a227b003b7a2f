"""A grid of runs: a base config with axes, rules and seeds, and a search, read from a file."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from gnn_depth.registry import as_written, unknown
from gnn_depth.runs import ARCHIVE, COLUMNS

Label: TypeAlias = str | int | float | bool | None
# Dotted option -> value; `config` -> a config file to lay over the base.
Settings: TypeAlias = dict[str, Any]
# The labels of an axis, each of which stands for some settings.
Axis: TypeAlias = dict[Label, Settings]
Axes: TypeAlias = dict[str, Axis]
# For the labels of some axes settings, or None to skip the combination.
Rule: TypeAlias = tuple[dict[str, list[Label]], Settings | None]

KEYS = ("base", "axes", "search", "rules", "seeds", "per_seed", "name")
LARGEST_SEED = 2**32 - 1  # the largest that NumPy takes
MOST_RUNS = 100_000  # all are resolved before the first one starts


class GridError(ValueError):
    """A grid file is invalid."""


@dataclass(frozen=True)
class Combination:
    """A point of the grid: a label of every axis, and all settings, of which later ones win."""

    labels: dict[str, Label]
    settings: Sequence[Settings]

    @property
    def group(self) -> str:
        """The name that runs with different seeds share: ``data=Cora,depth=10``."""
        parts = []
        for axis, label in self.labels.items():
            parts.append(f"{axis.rpartition('.')[2]}={as_written(label)}")
        return ",".join(parts) or "all"


@dataclass(frozen=True)
class Grid:
    """All runs of a sweep."""

    name: str  # of the sweep, and of its folder
    base: Sequence[str]  # config files that every run starts from
    axes: Axes  # the first one varies slowest
    seeds: Sequence[int]  # every combination is run with each
    rules: Sequence[Rule]  # applied in order
    # Options that change with the seed, such as the number of a fixed split: a value for each.
    per_seed: Settings
    search: Any  # of settings for every combination, see gnn_depth.sweeps.search
    folder: Path = Path()  # of its file, from which config files are named

    def __post_init__(self) -> None:
        count = math.prod(map(len, self.axes.values())) * len(self.seeds)
        if count > MOST_RUNS:
            raise GridError(f"a grid has at most {MOST_RUNS:,} runs, not {count:,}.")

    def combinations(self) -> Iterator[Combination]:
        """Every combination that no rule skips."""
        for values in itertools.product(*self.axes.values()):
            labels = dict(zip(self.axes, values, strict=True))
            settings: list[Any] = [self.axes[name][label] for name, label in labels.items()]
            for when, changes in self.rules:
                if all(labels[name] in accepted for name, accepted in when.items()):
                    settings.append(changes)
            if None not in settings:
                yield Combination(labels, settings)

    def with_seed(self, combination: Combination, seed: int) -> Combination:
        """A combination with the options that change with the seed."""
        place = self.seeds.index(seed)
        settings = {name: values[place] for name, values in self.per_seed.items()}
        return replace(combination, settings=(*combination.settings, settings))

    def subset(self, chosen: Mapping[str, list[str]], seeds: int | None = None) -> "Grid":
        """The part of the grid with these labels of some axes, as text, and the first seeds."""
        axes = dict(self.axes)
        for word, texts in chosen.items():
            name = axis_called(word, axes)
            axes[name] = {label: axes[name][label] for label in labels_in(name, texts, axes)}
        kept = self.seeds
        if seeds is not None:
            kept = _seeds(seeds)
            if self.per_seed:
                kept = self.seeds[:seeds]
                if seeds > len(kept):
                    raise GridError(
                        f"per_seed has values for {len(kept)} seeds, and {seeds} are asked for."
                    )
        return replace(self, axes=axes, seeds=kept)


def axis_called(word: str, axes: Axes) -> str:
    """The full name of an axis, given that or its last word."""
    if word in axes:
        return word
    matches = [name for name in axes if name.rpartition(".")[2] == word]
    if len(matches) != 1:
        raise GridError(unknown("axis", word, axes))
    return matches[0]


def labels_in(name: str, texts: list[str], axes: Axes) -> list[Label]:
    """The labels of an axis that are written so, in its order."""
    known = {as_written(label): label for label in axes[name]}
    for text in texts:
        if text not in known:
            raise GridError(unknown(f"value of axis {name!r}", text, known))
    return [label for text, label in known.items() if text in texts]


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
    return f"{option}.".startswith(name.replace(".init_args", "") + ".")


def read_grid(content: Mapping[str, object], name: str) -> Grid:
    """Build a grid from the content of a grid file; the name is for a file that has none."""
    if isinstance(content, dict) and {"data", "model", "trainer"} & content.keys():
        raise GridError(
            "this is the config of one training, for gnn-depth fit. A grid names it in base: "
            "[gat_lip_30.yaml], and has axes: {model.num_layers: [2, 8]}."
        )
    section = mapping(content, "a grid", KEYS)
    if not section:
        raise GridError("the grid is empty.")
    axes = {}
    for key, values in mapping(section.get("axes"), "axes").items():
        axes[key] = read_axis(key, values)
    files = _listed(section.get("base") or [])
    if not all(isinstance(file, str) for file in files):
        raise GridError(f"base is the name of a config file, or a list of names, not {files!r}.")
    own = str(section.get("name") or name)
    if {"/", "..", ARCHIVE} & set(PurePath(own).parts):
        raise GridError(f"name is that of a folder among all runs, not {ARCHIVE!r}, nor {own!r}.")
    rules = [_rule(rule, axes) for rule in _listed(section.get("rules") or [])]
    seeds = _seeds(section.get("seeds", 1))
    per_seed = _settings(section.get("per_seed"), "per_seed")
    for option, values in per_seed.items():
        if not isinstance(values, list) or len(values) != len(seeds):
            raise GridError(
                f"per_seed has a value for each of the {len(seeds)} seeds, as in data.split: "
                f"[0, 1, 2], not {option}: {values!r}."
            )
    grid = Grid(own, files, axes, seeds, rules, per_seed, section.get("search"))
    if next(grid.combinations(), None) is None:
        raise GridError("the grid is empty: its rules skip every combination.")
    return grid


def read_axis(name: Any, values: Any) -> Axis:
    """The labels of an axis, or of an option that is searched, and their settings."""
    if not isinstance(name, str) or "=" in name or name in COLUMNS:
        raise GridError(
            f"an axis cannot be called {name!r}: its name is text without '=', and none of the "
            "columns that every table of results has."
        )
    if isinstance(values, list):  # of the option that the axis is called by
        values = {name: values}
    if not isinstance(values, dict):
        raise GridError(
            f"axis {name!r} is a list of values, or labels with their settings, or options with "
            f"equally long lists, not {values!r}."
        )
    if all(isinstance(value, list) for value in values.values()):
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
    settings = mapping(value, of)
    for key in settings:
        if not isinstance(key, str):
            raise GridError(f"the name of an option is text, not {key!r}.")
    if "seed_everything" in settings:
        raise GridError("the seeds of a grid belong under its key `seeds`, not `seed_everything`.")
    return settings


def _rule(content: object, axes: Axes) -> Rule:
    rule = mapping(content, "a rule", ("when", "set", "skip"))
    if ("set" in rule) == ("skip" in rule) or rule.get("skip", True) is not True:
        raise GridError(
            "a rule has `when` and either `set`, options with their values, or `skip: true`."
        )
    when = {}
    for name, values in mapping(rule.get("when"), "when").items():
        axis = axis_called(str(name), axes)
        texts = [as_written(_label(value)) for value in _listed(values)]
        when[axis] = labels_in(axis, texts, axes)
    settings = None
    if "set" in rule:
        settings = _settings(rule["set"], "set")
    return when, settings


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


def _listed(value: Any) -> list[Any]:
    """A list, of one thing if only that is given."""
    return value if isinstance(value, list) else [value]


def mapping(value: Any, of: str, known: Sequence[str] = ()) -> dict[str, Any]:
    """A mapping, an empty one for null; it may be limited to known keys."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GridError(f"{of} must be a mapping, not {value!r}.")
    for key in value:
        if known and key not in known:
            raise GridError(unknown(f"key of {of}", str(key), known))
    return value
