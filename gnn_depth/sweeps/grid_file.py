"""Grid files, read: what they may say, and what is wrong with the others."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from gnn_depth.registry import unknown
from gnn_depth.runs import ARCHIVE, COLUMNS
from gnn_depth.sweeps.grid import METRIC, Axis, Grid, GridError, Label, Rule, Settings, Where, say

KEYS = ("base", "axes", "rules", "seeds", "name", "metric")
RULE_KEYS = ("when", "set", "skip")
LARGEST_SEED = 2**32 - 1  # NumPy's
MOST_SEEDS = 10_000  # more are one seed, written without its brackets


def read_grid(content: Mapping[str, Any], name: str) -> Grid:
    """The grid that a file's content describes.

    Args:
        content: The file, parsed.
        name: Name of the sweep where the file gives none.

    Raises:
        GridError: Something in it is unknown, empty or of the wrong kind.
    """
    for key in content:
        if key not in KEYS:
            raise GridError(unknown("key of a grid file", str(key), KEYS), (key,))
    axes = tuple(_axis(key, values) for key, values in _mapping(content.get("axes"), ("axes",)).items())
    base = content.get("base")
    files = [] if base is None else base if isinstance(base, list) else [base]
    if not all(isinstance(file, str) for file in files):
        raise GridError(f"base names config files, not {base!r}.", ("base",))
    by_name = {axis.name: axis for axis in axes}
    rules = tuple(_rule(rule, by_name, ("rules", n)) for n, rule in enumerate(_list(content.get("rules"), ("rules",))))
    grid = Grid(
        _name(content.get("name", name)),
        tuple(files),
        axes,
        _seeds(content.get("seeds", 1)),
        rules,
        _text(content.get("metric", METRIC), ("metric",)),
    )
    if next(grid.combinations(), None) is None:
        raise GridError("the grid is empty: its rules skip every combination.", ("rules",))
    return grid


def _name(value: Any) -> str:
    name = _text(value, ("name",))
    path = PurePath(name)
    if path.is_absolute() or not path.parts or {"..", ARCHIVE} & set(path.parts):
        raise GridError(f"name is that of a folder among all runs, and not {ARCHIVE!r}; it is {name!r}.", ("name",))
    return name


def _axis(name: Any, values: Any) -> Axis:
    where = ("axes", name)
    if not isinstance(name, str) or not _is_line(name) or set("=,") & set(name):
        raise GridError(f"an axis is called by a word without '=' and ',', not {name!r}.", where)
    if name in COLUMNS:
        raise GridError(f"an axis cannot be called {name!r}: every table of results has a column of that name.", where)
    if isinstance(values, list):
        found = {_label(value, where): _settings({name: value}, where) for value in values}
        count = len(values)
    elif isinstance(values, dict) and all(isinstance(value, list) for value in values.values()):
        found, count = _zipped(values, where), len(next(iter(values.values()), []))
    elif isinstance(values, dict):
        found = {label: _settings(value, (*where, label)) for label, value in values.items()}
        count = len(values)
    else:
        raise GridError(
            f"axis {name!r} is a list of values, or labels with their settings, or options with equally long lists, "
            f"not {values!r}.",
            where,
        )
    if not found:
        raise GridError(f"the grid is empty: axis {name!r} has no values.", where)
    texts = {say(label) for label in found}
    if len(texts) < count:
        raise GridError(f"axis {name!r} has a value twice.", where)
    for text in texts:
        if not _is_line(text):
            raise GridError(f"a label of axis {name!r} is a line of text, not {text!r}.", where)
    return Axis(name, found)


def _zipped(options: dict[str, list[Any]], where: Where) -> dict[Label, Settings]:
    """Options that change together; the first one's values are the labels."""
    lengths = {key: len(values) for key, values in options.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise GridError(f"options that change together need equally many values: {said}.", where)
    rows = zip(*options.values(), strict=True)
    return {_label(row[0], where): _settings(dict(zip(options, row, strict=True)), where) for row in rows}


def _is_line(text: str) -> bool:
    return text.isprintable() and bool(text.strip())


def _label(value: Any, where: Where) -> Label:
    if isinstance(value, dict) and isinstance(value.get("name"), str):  # a part with options
        rest = [f"{key}={say(item)}" for key, item in value.items() if key != "name"]
        return " ".join([value["name"], *rest])
    if isinstance(value, list):
        return "+".join(say(_label(item, where)) for item in value) or "[]"
    if isinstance(value, dict):
        raise GridError(f"a value that is made of keys needs a label, {{LABEL: {{OPTION: ...}}}}: {value}.", where)
    return value


def _settings(value: Any, where: Where) -> Settings:
    if isinstance(value, str) and value.endswith((".yaml", ".yml")):
        return {"config": value}
    if value is None:
        return {}
    settings = dict(_mapping(value, where))
    for key in settings:
        if not isinstance(key, str) or "=" in key:  # it would bring a value of its own
            raise GridError(f"an option is called by a word without '=', not {key!r}.", where)
    if "seed_everything" in settings:
        raise GridError("the seeds of a grid stand under its key `seeds`, not `seed_everything`.", where)
    if not isinstance(settings.get("config", ""), str):
        raise GridError(f"config names a config file, not {settings['config']!r}.", where)
    return settings


def _rule(rule: Any, axes: Mapping[str, Axis], where: Where) -> Rule:
    rule = _mapping(rule, where)
    for key in rule:
        if key not in RULE_KEYS:
            raise GridError(unknown("key of a rule", str(key), RULE_KEYS), (*where, key))
    if ("set" in rule) == ("skip" in rule) or rule.get("skip", True) is not True:
        raise GridError("a rule has `when` and either `set`, options with their values, or `skip: true`.", where)
    when = {}
    for name, labels in _mapping(rule.get("when", {}), (*where, "when")).items():
        here = (*where, "when", name)
        if name not in axes:
            raise GridError(unknown("axis", str(name), axes), here)
        when[name] = tuple(_label(label, here) for label in (labels if isinstance(labels, list) else [labels]))
        for label in when[name]:
            if label not in axes[name].values:
                raise GridError(unknown(f"value of axis {name!r}", say(label), map(say, axes[name].values)), here)
    return Rule(when, _settings(rule.get("set"), (*where, "set")), "skip" in rule)


def _seeds(seeds: Any) -> tuple[int, ...]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 0 < seeds <= MOST_SEEDS:
        return tuple(range(seeds))
    right = isinstance(seeds, list) and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    if not right or not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise GridError(
            f"seeds is how many, up to {MOST_SEEDS}, or a list of different ones from 0 to {LARGEST_SEED}, "
            f"not {seeds!r}.",
            ("seeds",),
        )
    return tuple(seeds)


def _mapping(value: Any, where: Where) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        what = where[-1] if isinstance(where[-1], str) else f"each of {where[-2]}"
        raise GridError(f"{what} is made of keys with values, not of {value!r}.", where)
    return value or {}


def _list(value: Any, where: Where) -> list[Any]:
    if not isinstance(value, list | None):
        raise GridError(f"{where[-1]} is a list, not {value!r}.", where)
    return value or []


def _text(value: Any, where: Where) -> str:
    if not isinstance(value, str) or not value:
        raise GridError(f"{where[-1]} is a word, not {value!r}.", where)
    return value
