"""The limits of all YAML that is read: files, options of the command line, and text inside
checkpoints."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from jsonargparse import get_loader

# Each alias repeats what it stands for, which may hold aliases: a few lines can grow without end.
MAX_ALIASES = 20
MAX_DEPTH = 100
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# One word or number, which cannot contain YAML.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)


class TooLargeError(yaml.YAMLError):
    """A text stands for more than anybody writes by hand."""


def check_size(text: str) -> None:
    """Refuse YAML that is nested too deep or repeats too much, before anything is built.

    Raises:
        TooLargeError: It has more than :data:`MAX_ALIASES` aliases, is nested more than
            :data:`MAX_DEPTH` deep, or repeats a value inside itself.
        yaml.YAMLError: It is not valid YAML.
    """
    opened: list[str | None] = []  # anchors of the collections around this place
    aliases: list[str] = []
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        elif isinstance(event, yaml.AliasEvent):
            aliases.append(event.anchor)
        is_inside_itself = bool(aliases) and aliases[-1] in opened
        if len(aliases) > MAX_ALIASES or len(opened) > MAX_DEPTH or is_inside_itself:
            raise TooLargeError(
                f"YAML nested more than {MAX_DEPTH} deep, with more than {MAX_ALIASES} aliases or "
                f"an alias inside its own value is not read. It begins with {text[:60]!r}."
            )


def contents(
    value: Any, where: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """A value and everything inside it, each with the keys that lead to it; YAML inside text too,
    which options may read.

    Raises:
        TooLargeError: A text stands for more than the limits allow.
    """
    yield where, value
    if isinstance(value, str) and not PLAIN.fullmatch(value):
        inner = value_in(value)
        if inner != value:  # quotes in it may hold YAML again
            yield from contents(inner, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from contents(item, (*where, key))
    elif isinstance(value, list | tuple | set):
        for position, item in enumerate(value):
            yield from contents(item, (*where, position))


def safe_load(text: str) -> Any:
    """Read YAML as plain values, within the limits; see :func:`check_size`."""
    check_size(text)
    return yaml.safe_load(text)


def value_in(text: str) -> Any:
    """Read a text as YAML with jsonargparse's loader, to which 1e-3 is a number; text that is no
    YAML is returned as it is.

    Text that is too large is a TooLargeError.
    """
    try:
        check_size(text)
        return get_loader("yaml")(text)
    except TooLargeError:
        raise
    except (yaml.YAMLError, ValueError):  # ValueError: `!!int x`
        return text
