"""Every part and option that a command line can name, and messages for unknown names and unfit
values."""

import copy
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from gnn_depth import registry
from gnn_depth.cli.errors import UsageError
from gnn_depth.ranges import Range, range_in
from gnn_depth.short_names import (
    SECTIONS,
    Names,
    Option,
    Part,
    Where,
    choices,
    load_class,
    type_name,
)

#: Ranges of Lightning's own options.
RANGES = {
    **dict.fromkeys(
        [
            f"trainer.{n}"
            for n in ("accumulate_grad_batches", "check_val_every_n_epoch", "log_every_n_steps")
        ],
        Range(1),
    ),
    "trainer.gradient_clip_val": Range(0),
    "trainer.num_nodes": Range(1, 10_000),
}
WORDS = {
    "depth": "num_layers",
    "width": "hidden_channels",
    "learning_rate": "lr",
}  # what people also call options
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "None": "null",
}


@dataclass(frozen=True)
class Known(Names):
    """All parts by kind and name, the options of a command by dotted key, and the plugins that were
    named."""

    parts: dict[str, dict[str, Part]]
    options: dict[str, Option]
    plugins: Sequence[str]

    def _import(self, kind: str, path: str, where: Where) -> Part:
        load_plugins(self.plugins)
        return super()._import(kind, path, where)


def options_of(parser: ArgumentParser) -> dict[str, Option]:
    """The options of a command, by dotted key."""
    flags = parser._option_string_actions
    found = {}
    for action in parser._actions:
        name, hint = action.dest, getattr(action, "_typehint", None)
        is_flag = f"--{name}" in action.option_strings and (hint is not None or action.nargs == 0)
        if not is_flag or name.rpartition(".")[2] in ("help", "print_config"):
            continue
        default = parser.get_default(name)
        default = default.as_dict() if isinstance(default, Namespace) else copy.deepcopy(default)
        if name in SECTIONS and isinstance(
            default, dict
        ):  # by the path under which the part is known
            default["class_path"] = registry.import_path(load_class(default["class_path"]))
        found[name] = Option(
            name,
            type="" if hint is None else type_name(hint),
            range=RANGES.get(name) or range_in(hint),
            default=default,
            choices=list(choices(hint)),
            kind=SECTIONS.get(name) or ("class" if f"--{name}.help" in flags else None),
            about=action.help or "",
            nargs=action.nargs,
        )
    return found


def load_plugins(plugins: Iterable[str]) -> None:
    """Import the plugins of installed packages, with a warning for those that fail, and then the
    named plugins."""
    import gnn_depth.data
    import gnn_depth.nn
    import gnn_depth.training  # noqa: F401  (all three register the built-in parts, whose names no plugin can take)

    for failure in registry.load_entry_points():
        print(f"warning: {failure}", file=sys.stderr)
    folder = Path.cwd()
    try:
        for plugin in plugins:
            registry.load_plugin(plugin)
            os.chdir(folder)  # a plugin that leaves it would move the run
    except registry.RegistryError as error:
        raise UsageError(str(error)) from error.__cause__


def origin(module: str) -> str | None:
    """The file from which a module would be imported; None if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def meant_by(key: str, known: Known) -> str:
    """A hint at the option that an unknown one stands for; empty if there is none."""
    word = key.rpartition(".")[2]
    word = WORDS.get(word, word)
    alike = (word, f"{word}s", f"{word}_everything")
    if short := [name for name in known.options if name.rpartition(".")[2] in alike]:
        return f" Did you mean '--{short[0]}'?"
    # Options of parts, the optimizer's first: lr, weight_decay, momentum.
    for section in (
        "model.optimizer",
        *(f"model.{kind}" for kind in registry.KINDS if kind != "data"),
    ):
        if any(word in part.options for part in known.parts[SECTIONS[section]].values()):
            return f" Did you mean '--{section}.{word}', in full '--{section}.init_args.{word}'?"
    # One that has the word as a piece: --trainer.max_epochs for --epochs. Otherwise the most
    # similar one.
    if piece := next(
        (name for name in sorted(known.options, key=len) if word in re.split(r"[._]", name)), None
    ):
        return f" Did you mean '--{piece}'?"
    return registry.hint(f"--{key}", [f"--{name}" for name in known.options])


def unknown_key(name: str, known: Known) -> str:
    section, _, key = name.rpartition(".")
    start = f"{section}." if section else ""
    within = {
        option.removeprefix(start).split(".")[0]
        for option in known.options
        if option.startswith(start)
    }
    what = f"unknown key {key!r} in {section!r}" if section else f"unknown key {key!r}"
    grid = " A grid of runs is for gnn-depth sweep." if key in ("base", "axes", "rules") else ""
    meant = "" if registry.nearest(key, within) else meant_by(name, known)
    return f"{what}.{meant or suggestion(key, within)}{grid}"


def suggestion(word: Any, choices: Any, most: int = 20) -> str:
    """The nearest choice, and the list of choices unless it is long."""
    choices = sorted(choices)
    hint = registry.hint(str(word), choices)
    if (hint and len(choices) > most) or not choices:
        return hint
    return (
        f"{hint} Available: {', '.join(choices)}."
        if len(choices) <= most
        else f"{hint} See --help for all."
    )


def misfit(key: str, option: Option, value: Any) -> str:
    """Why a value does not fit its option; empty if it does, or if its type is not plain."""
    types = [one for one in option.type.split(" | ") if one not in (*option.choices, "Tensor")]
    if not option.type or not set(types) <= set(TYPES):
        return ""
    text = (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )
    fits = {
        "int": _is_a(int, text),
        "float": _is_a(float, text),
        "bool": False,
        "str": isinstance(value, str),
    }
    if text in option.choices or any(
        text == "null" if one == "None" else fits[one] for one in types
    ):
        return ""
    if option.type == "bool" or not option.choices:
        return f"{key} must be {' or '.join(TYPES[one] for one in types)}, not {text!r}."
    wanted = [*option.choices, *(["null"] if "None" in types else [])]
    numbers = "".join(f" Or {TYPES[one]}." for one in types if one in ("int", "float"))
    return f"{key} cannot be {text!r}.{suggestion(text, set(wanted))}{numbers}"


def _is_a(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
