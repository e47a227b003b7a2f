"""The limits of all YAML that is read: files, options of the command line, and text inside
checkpoints."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from jsonargparse import get_loader

# Counted with all that aliases repeat: a few lines can stand for billions of entries.
MAX_ENTRIES = 100_000
MAX_DEPTH = 100
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# One word or number, which cannot contain YAML.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)


class TooLargeError(yaml.YAMLError):
    """A text stands for more than anybody writes by hand."""


def check_size(text: str) -> None:
    """Count the entries of a YAML text, each alias with all that it repeats, before anything is
    built.

    Raises:
        TooLargeError: It has more than :data:`MAX_ENTRIES` entries, is nested more than
            :data:`MAX_DEPTH` deep, or repeats a value inside itself.
        yaml.YAMLError: It is not valid YAML.
    """
    sizes: dict[str, int | None] = {}  # by anchor; None until its collection has ended
    # Collections around this place: anchor, and the count before their start.
    opened: list[tuple[str | None, int]] = []
    entries = 0
    # Events and not nodes, so that nothing is built for a text that is refused.
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, start = opened.pop()
            if anchor:
                sizes[anchor] = entries - start
            continue
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, entries))
            if event.anchor:
                sizes[event.anchor] = None
        if isinstance(event, yaml.AliasEvent):
            repeated = sizes.get(event.anchor, 1)
            if repeated is None:
                inside = f"alias *{event.anchor} stands inside the value that it repeats"
                raise _refusal(f"YAML, in which the {inside}", text)
            entries += repeated
        elif isinstance(event, yaml.NodeEvent):
            entries += 1
        if entries > MAX_ENTRIES:
            raise _refusal(f"YAML with more than {MAX_ENTRIES} entries, aliases included", text)
        if len(opened) > MAX_DEPTH:
            raise _refusal(f"YAML nested more than {MAX_DEPTH} deep", text)


def _refusal(what: str, text: str) -> TooLargeError:
    return TooLargeError(f"{what}, is too large. It begins with {text[:60]!r}.")


def contents(
    value: Any, where: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """A value and everything inside it, each with the keys that lead to it; YAML inside text too,
    which options may read.

    Raises:
        TooLargeError: A text stands for more than the limits allow.
    """
    yield where, value
    if isinstance(value, str):
        inner = value if PLAIN.fullmatch(value) else value_in(value)
        if inner != value:  # quotes in it may hold YAML again
            yield from contents(inner, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from contents(item, (*where, key))
    elif isinstance(value, list | tuple | set):
        for position, item in enumerate(value):
            yield from contents(item, (*where, position))


def check_texts(value: Any) -> None:
    """Refuse text in a value that exceeds the limits if it is read as YAML.

    Raises:
        TooLargeError: A text stands for more than the limits allow.
    """
    for _ in contents(value):
        pass


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
