"""The parser's error messages, rewritten for people.

jsonargparse says what it expected in terms of types and import paths. Each rule below knows one of its
messages by a pattern and says it with the near miss and the choices; a message that no rule knows is
shown as it is.
"""

import argparse
import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gnn_depth.cli.files import Config
from gnn_depth.cli.sections import GIVEN_BY_DATA, SECTIONS
from gnn_depth.registry import name_of, nearest
from gnn_depth.short_names import load_class, no_option, parameters

TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list",
    "dict": "keys with values",
    "NoneType": "null",
}
NO_KEYS = {"help", "config", "print_config", "print_shtab", *(f"model.{key}" for key in GIVEN_BY_DATA)}
CLASS_PATH = r"class_path[= ]'([\w.]+)'"
MANY = 20  # choices beyond this are left to --help


@dataclass(frozen=True)
class Said:
    """A message for people, and the config key and value that it is about, if any."""

    text: str
    key: str | None = None
    value: str | None = None


Rule = Callable[[str, argparse.ArgumentParser], Said | None]


def explain(message: str, parser: argparse.ArgumentParser, configs: list[Config]) -> str:
    """Say a message of the parser for people, with the line of the config file that it is about."""
    for rule in RULES:
        said = rule(message, parser)
        if said:
            places = (config.find(said.key, said.value) for config in reversed(configs) if said.key)
            place = next(filter(None, places), None)
            return f"{place}: {said.text}" if place else said.text
    return message


def _unknown_word(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.match(r"unrecognized arguments: (.*)", message, re.DOTALL)
    if not match:
        return None
    word = match[1].split()[0].partition("=")[0]
    if not word.startswith("-"):
        return Said(f"unexpected word {word!r}: options begin with --.")
    flags = [flag for flag in parser._option_string_actions if flag.startswith("--") and not flag.endswith("+")]
    # Of no flag that is like it, one that has it as a piece: --seed_everything for --seed.
    pieces = (flag for flag in sorted(flags, key=len) if word[2:] in re.split(r"[._]", flag[2:]))
    near = nearest(word, flags) or next(pieces, None)
    return Said(f"unknown option {word!r}." + (f" Did you mean {near!r}?" if near else " See --help for all."))


def _unknown_key(message: str, parser: argparse.ArgumentParser) -> Said | None:
    group = re.fullmatch(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message)
    alone = re.fullmatch(r"Option '([\w.]+)' is not accepted", message)
    if not (group or alone):
        return None
    section, key = (group[1], group[2]) if group else ("", alone[1] if alone else "")
    return unknown_key(tuple(filter(None, section.split("."))), key.split(".")[0], parser)


def unknown_key(section: tuple[str, ...], key: str, parser: argparse.ArgumentParser) -> Said | None:
    """What there is to say of a key that a section does not have; None if it has it."""
    start = "".join(f"{word}." for word in section)
    keys = [action.dest for action in parser._actions if action.dest not in NO_KEYS]
    within = {name.removeprefix(start).split(".")[0] for name in keys if name.startswith(start)}
    if key in within:
        return None
    what = f"unknown key {key!r} in {start[:-1]!r}" if section else f"unknown key {key!r}"
    return Said(f"{what}.{_hint(key, within)}", start + key)


def _unknown_option_of_class(message: str, parser: argparse.ArgumentParser) -> Said | None:
    option = re.search(r"Option '([\w.]+)' is not accepted", message)
    path = re.search(CLASS_PATH, _innermost(message))
    if not (option and path):
        return None
    key, name = _key(message), option[1].removeprefix("init_args.")
    cls = load_class(path[1])
    if not isinstance(cls, type):
        return None
    registered = name_of(cls)
    if kind := SECTIONS.get(key) or (registered and registered[0]):
        return Said(no_option(kind, cls, name), f"{key}.{name}")
    accepted = [word for word in parameters(cls, 0) if word not in ("params", "optimizer")]
    return Said(f"{cls.__name__} has no option {name!r}.{_hint(name, accepted)}", f"{key}.{name}")


def _nothing_chosen(message: str, parser: argparse.ArgumentParser) -> Said | None:
    nested = re.search(r"NestedArg\(key='([\w.]+)'", message)
    key = _key(message)
    if not nested or re.search(r"Option '|Parser key .*Parser key ", message, re.DOTALL) or not key:
        return None
    said = f"{key}.{nested[1]} has nothing to act on: choose with --{key} NAME before --{key}.{nested[1]}."
    return Said(said, key)


def _no_value(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.match(r"argument (\S+): expected (?:one|at least one) argument", message)
    return Said(f"{match[1].split('/')[-1]} needs a value.") if match else None


def _wrong_value(message: str, parser: argparse.ArgumentParser) -> Said | None:
    inner = _innermost(message)
    choices = [str(c) for found in re.findall(r"Literal(\[.*?\])", inner) for c in ast.literal_eval(found)]
    expected = re.findall(r"Expected an? <class '([\w.]+)'>", inner)
    value = _value(inner)
    if not (choices or expected) or value is None:
        return None
    types = list(dict.fromkeys(TYPES.get(name, name.rpartition(".")[2]) for name in expected))
    if choices:
        choices += [] if types != ["null"] else types
        numbers = "".join(f" Or {one}." for one in types if one in (TYPES["int"], TYPES["float"]))
        return Said(f"{_key(message)} cannot be {value!r}.{_hint(value, set(choices))}{numbers}", _key(message), value)
    return Said(f"{_key(message)} is {' or '.join(types)}, not {value!r}.", _key(message), value)


def _unknown_class(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.search(r"Expected a dot import path string: (\S*)", message) or re.search(
        r"(?:No module named|has no attribute) '?([\w.]+)'?", message
    )
    if not match or re.search(r"<class '(int|float|bool)'>", _innermost(message)):
        return None
    key = _key(message)
    action = next((action for action in parser._actions if action.dest == key), None)
    known = getattr(action, "extra_help", str)().partition("known subclasses: ")[2]
    names = sorted({path.rpartition(".")[2] for path in known.split(", ") if path})
    value = _value(message) or match[1]
    if value.startswith(("{", "[", "Namespace(")):
        inside = re.findall(r"class_path'?(?:=|: )'([\w.]+)'", value)
        value = next((path for path in inside if match[1] in path), match[1])
    if "." in value:
        near = _nearest_path(value, known.split(", "))
        fix = f"Did you mean {near!r}?" if near else "Is it in a plugin? Name that with --plugins FILE."
        return Said(f"{key}: {value!r} cannot be imported. {fix}", key, value)
    return Said(f"unknown {key} {value!r}.{_hint(value, names)}", key, value)


def _nearest_path(path: str, known: Iterable[str]) -> str | None:
    """The known class of this module, or of this name in another one, that is most like a path."""
    module, _, name = path.rpartition(".")
    alike = [other for other in known if other.startswith(f"{module}.") or other.endswith(f".{name}")]
    return nearest(path, [other for other in alike if other != path])  # itself, of a plugin that has gone


def _required(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.search(r"the following arguments are required: (\w+(?:, \w+)*)", message)
    path = re.search(CLASS_PATH, _innermost(message))
    if not match:
        return None
    key = _key(message)
    flags = " ".join(f"--{key}.{name} VALUE" if key else f"--{name} VALUE" for name in match[1].split(", "))
    of = f"{path[1].rpartition('.')[2]} needs" if path else "still missing:"
    return Said(f"{of} {match[1]}: {flags}.")


def _linked(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.match(r'Linked "([\w.]+)" must be given via', message) or re.match(
        r"argument [\w.]+ --> ([\w.]+): ", message
    )
    return Said(f"{match[1]} is taken from the data, and cannot be chosen.", match[1]) if match else None


def _wrong_class(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.search(r"Expected '([\w.]+)' to be a subclass of <class '(?:[\w.]+\.)?(\w+)'>", message) or re.search(
        r"Import path ([\w.]+) does not correspond to a subclass of (\w+)", message
    )
    return Said(f"{_key(message)}: {match[1]} is no {match[2]}.", _key(message)) if match else None


def _no_section(message: str, parser: argparse.ArgumentParser) -> Said | None:
    match = re.search(r'Parser key "([\w.]+)": Unable to load config "(.*)"', message)
    if not match:
        return None
    return Said(f"{match[1]} is made of keys with values, and {match[2]!r} is no file of such.", match[1], match[2])


RULES: list[Rule] = [
    _no_section,
    _unknown_word,
    _no_value,
    _unknown_key,
    _required,
    _unknown_option_of_class,
    _linked,
    _wrong_class,
    _unknown_class,
    _wrong_value,
    _nothing_chosen,
]


def _key(message: str) -> str:
    """``model.norm.scale`` of a message about the key scale of the class at model.norm."""
    return ".".join(re.findall(r'Parser key "([\w.]+)"', message))


def _innermost(message: str) -> str:
    """What the message says of its innermost key: the lines that are indented below it."""
    lines = message.splitlines()
    last = max((i for i, line in enumerate(lines) if 'Parser key "' in line), default=0)
    depth = len(lines[last]) - len(lines[last].lstrip())
    below = [lines[last]]
    for line in lines[last + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        below.append(line)
    return "\n".join(below)


def _value(message: str) -> str | None:
    """The value that a message complains of, as YAML writes it."""
    match = re.search(r"(?:Got value|Given value): (.*?)(?:\. Got value|\n|$)", message)
    return {"None": "null", "True": "true", "False": "false"}.get(match[1], match[1]) if match else None


def _hint(word: Any, choices: Iterable[str]) -> str:
    choices = sorted(choices)
    near = nearest(str(word), choices)
    hint = f" Did you mean {near!r}?" if near else ""
    if (near and len(choices) > MANY) or not choices:
        return hint
    return f"{hint} Available: {', '.join(choices)}." if len(choices) <= MANY else f"{hint} See --help for all."
