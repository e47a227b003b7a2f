"""The limits of all YAML that is read: files, options of the command line, and text inside
checkpoints."""

from typing import Any

import yaml

MAX_ENTRIES = (
    100_000  # after aliases, which multiply: a few lines can stand for billions of entries
)
MAX_DEPTH = 100
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooLargeError(yaml.YAMLError):
    """A text stands for more than anybody writes by hand."""


def check_size(text: str) -> None:
    """Count the entries of a YAML text, each alias with all that it repeats, before anything is
    built.

    Raises a TooLargeError for too many or too deep ones, and a YAMLError for other text.
    """
    sizes: dict[str, int] = {}  # by anchor
    opened: list[
        tuple[str | None, int]
    ] = []  # collections around this place: anchor, and the count at their start
    entries, begins = 0, f", is too large. It begins with {text[:60]!r}."
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


def safe_load(text: str) -> Any:
    """Read YAML as plain values, within the limits; see :func:`check_size`."""
    check_size(text)
    return yaml.safe_load(text)
