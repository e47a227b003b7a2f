"""The limits of all YAML that is read: files, options of the command line, and text inside
checkpoints."""

import re
from typing import Any

import yaml
from jsonargparse import get_loader

# After aliases, which multiply: a few lines can stand for billions of entries.
MAX_ENTRIES = 100_000
MAX_DEPTH = 100
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Text that stands for nothing more as YAML: one word or number.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)


class TooLargeError(yaml.YAMLError):
    """A text stands for more than anybody writes by hand."""


def check_size(text: str) -> None:
    """Count the entries of a YAML text, each alias with all that it repeats, before anything is
    built.

    Raises a TooLargeError for too many or too deep ones, and a YAMLError for other text.
    """
    sizes: dict[str, int] = {}  # by anchor
    # Collections around this place: anchor, and the count at their start.
    opened: list[tuple[str | None, int]] = []
    entries, begins = 0, f", is too large. It begins with {text[:60]!r}."
    # Events and not nodes: of a text that is too large nothing is built.
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, start = opened.pop()
            sizes[anchor or ""] = entries - start
            continue
        if isinstance(event, yaml.AliasEvent):
            entries += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.NodeEvent):
            entries += 1
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, entries))
        if entries > MAX_ENTRIES:
            raise TooLargeError(
                f"YAML with more than {MAX_ENTRIES} entries, aliases included{begins}"
            )
        if len(opened) > MAX_DEPTH:
            raise TooLargeError(f"YAML nested more than {MAX_DEPTH} deep{begins}")


def check_texts(value: Any) -> None:
    """Raise a TooLargeError for text in a value that would be read as YAML without end."""
    if isinstance(value, str) and not PLAIN.fullmatch(value):
        inner = value_in(value)
        if inner != value:  # quotes in it may hold YAML again
            check_texts(inner)
    elif isinstance(value, dict):
        check_texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            check_texts(item)


def safe_load(text: str) -> Any:
    """Read YAML as plain values, within the limits; see :func:`check_size`."""
    check_size(text)
    return yaml.safe_load(text)


def value_in(text: str) -> Any:
    """Read a text as YAML, in which 1e-3 is a number; other text is returned as it is.

    Text that is too large is a TooLargeError.
    """
    try:
        check_size(text)
        return get_loader("yaml")(text)
    except TooLargeError:
        raise
    except (yaml.YAMLError, ValueError):  # ValueError: `!!int x`
        return text
