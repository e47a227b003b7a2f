"""Which words may stand at the cursor of a command line, told without importing torch."""

import argparse
import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise

from gnn_depth import registry
from gnn_depth.cli import COMMANDS, RUNS
from gnn_depth.cli.catalogue import Catalogue, built_in, read, types_of
from gnn_depth.cli.sections import GIVEN_BY_DATA, LIBRARIES, SECTIONS
from gnn_depth.cli.sources import Unreadable, read_module

CLASSES = {
    "model": "gnn_depth.training.module.NodeClassifier",
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
    "run": "gnn_depth.training.recorder.RunRecorder",
}
# Of every run; those that are added below, for some commands alone, are read there.
FLAGS = ("--config", "--plugins", "--trusted-only", "--data", "--print_config", "--help")
HOME_OF_FLAGS = "gnn_depth.cli.assemble"
OWN_FLAGS = {"probe": "gnn_depth.cli.probe_options"}
YES_OR_NO = ("true", "false")
TYPES = ("bool", "int", "float", "str", "None", "list", "dict", "object", "timedelta")


def answers(words: list[str]) -> list[str]:
    """The words that may stand at the end of a command line; none where a file may stand there, or anything.

    Args:
        words: The words after ``gnn-depth``; the last one is what has been written of the word in question.
    """
    if len(words) < 2:
        return _beginning([*COMMANDS, "--help", "--version"], "".join(words))
    command, before, word, start = words[0], words[1:-1], words[-1], ""
    if word.startswith("--") and "=" in word:
        flag, _, word = word.partition("=")
        before, start = [*before, flag], f"{flag}="
    if word == "=":  # bash makes a word of it
        before, word = [*before, word], ""
    if before[-1:] == ["="]:
        before.pop()
    tell = _of_run if command in RUNS else _of_report
    return [start + answer for answer in _beginning(tell(command, before, word), word)]


def _beginning(words: Iterable[str], start: str) -> list[str]:
    return sorted({word for word in words if word.startswith(start)})


def _of_report(command: str, before: list[str], word: str) -> Iterable[str]:
    if command == "list":
        return ("--plugins", *registry.KINDS) if before[-1:] != ["--plugins"] else ()
    module = import_module(f"gnn_depth.cli.{command}")
    make = getattr(module, "_parser", None) or module._options
    parser: argparse.ArgumentParser = make()
    actions = parser._option_string_actions
    if word.startswith("-"):
        return actions
    last = next((place for place in reversed(range(len(before))) if before[place] in actions), None)
    if last is not None:
        action = actions[before[last]]
        if action.nargs in ("+", "*") or (action.nargs != 0 and last == len(before) - 1):
            return map(str, action.choices or ())
    return () if before else _first_words(command, parser)


def _first_words(command: str, parser: argparse.ArgumentParser) -> Iterable[str]:
    if command == "reproduce":
        from gnn_depth.cli.items import names

        return names()
    first = next((action for action in parser._actions if not action.option_strings), None)
    return map(str, first.choices or ()) if first else ()


def _of_run(command: str, before: list[str], word: str) -> Iterable[str]:
    parts = _parts([value for flag, value in pairwise(before) if flag == "--plugins"])
    chosen = dict(pairwise(before))
    pending = before[-1] if before and before[-1].startswith("--") and not word.startswith("-") else None
    if pending is None:
        return _flags(command, parts, chosen, word)
    key = pending[2:].removesuffix("+")
    if kind := SECTIONS.get(key.removesuffix(".help")):
        return [part.class_name if kind == "data" else name for name, part in parts.of(kind).items()]
    if key in ("model.optimizer", "model.scheduler"):
        return _library(key.partition(".")[2])
    if key == "trusted-only":
        return YES_OR_NO
    return _values(_type_of(key, parts, chosen))


def _parts(plugins: list[str]) -> Catalogue:
    try:
        return read(plugins)
    except Unreadable:
        return Catalogue(list(built_in()), [])


def _flags(command: str, parts: Catalogue, chosen: dict[str, str], word: str) -> Iterator[str]:
    """All options; those of a part once its own have begun to be written."""
    yield from FLAGS
    yield from _added(command)
    for section, path in CLASSES.items():
        if word.startswith(f"--{section}.") or f"--{section}.".startswith(word):
            yield from (f"--{section}.{name}" for name in types_of(path) if name not in GIVEN_BY_DATA)
    for key in SECTIONS:
        if word.startswith(f"--{key}."):
            yield f"--{key}.help"
            yield from (f"--{key}.{name}" for name in _options_at(key, parts, chosen))


def _options_at(key: str, parts: Catalogue, chosen: dict[str, str]) -> dict[str, str | None]:
    """The options, with their types, of the part that the line has at a key; of all that may be there, if of none."""
    known = parts.of(SECTIONS[key])
    name = chosen.get(f"--{key}", "")
    here = [part for part in known.values() if name in (part.name, part.class_name)] or list(known.values())
    return {option.name: option.type for part in here for option in part.options}


def _type_of(key: str, parts: Catalogue, chosen: dict[str, str]) -> str | None:
    section, _, name = key.rpartition(".")
    if section in SECTIONS:
        return _options_at(section, parts, chosen).get(name)
    return types_of(CLASSES[section]).get(name) if section in CLASSES else None


def _values(typed: str | None) -> list[str]:
    """The values that a type names: ``linear | none``."""
    words = (typed or "").split(" | ")
    return [
        *(YES_OR_NO if "bool" in words else ()),
        *(w for w in words if re.fullmatch("[a-z]\\w*", w) and w not in TYPES),
    ]


def _library(option: str) -> Iterator[str]:
    """Names of torch's optimizers or schedules."""
    for module in LIBRARIES[option]:
        if module.startswith("torch.") and (source := read_module(module)):
            ours = (name for name, (home, _) in source.imported.items() if home.startswith(f"{module}."))
            yield from (name for name in [*source.classes, *ours] if name[0].isupper())


def _added(command: str) -> Iterator[str]:
    """The options that ``parser.add_argument`` adds for this command."""
    for home in (HOME_OF_FLAGS, OWN_FLAGS.get(command)):
        source = read_module(home) if home else None
        yield from _added_in(source.tree, command) if source else ()


def _added_in(node: ast.AST, command: str) -> Iterator[str]:
    asked = ast.unparse(node.test) if isinstance(node, ast.If) else ""
    if asked.startswith("self.command == ") and f"'{command}'" not in asked:
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        yield from (word.value for word in node.args[:1] if isinstance(word, ast.Constant))
    for inner in ast.iter_child_nodes(node):
        yield from _added_in(inner, command)
