"""Config files: YAML that refuses duplicate keys and remembers on which line everything stands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.remote import fetch, is_address
from gnn_depth.registry import nearest
from gnn_depth.short_names import Where

# Keys that stand between a part and its options in files, but not in what the parser says of them.
SILENT = ("class_path", "init_args", "dict_kwargs")
TAG = "tag:yaml.org,2002:"
KEY_TAGS = (f"{TAG}str", f"{TAG}merge")
PLAIN_TAGS = tuple(
    TAG + kind for kind in ("null", "bool", "int", "float", "timestamp", "str", "seq", "map", "merge", "value")
)
INLINE = "--config"  # the source of a config that is written on the command line itself
TEXT = re.compile(r"^\s*\{|:(\s|$)")  # what is in a config, and in no file's name or address
MOST_ENTRIES = 100_000  # more are aliases of aliases, which grow without end


@dataclass(frozen=True)
class Entry:
    """A key or list item of a config: what leads to it, its line (from 1), and its text if it is a scalar."""

    where: Where
    line: int
    text: str | None


@dataclass(frozen=True)
class Config:
    """A config file, or a config given in place of its name on the command line.

    Attributes:
        source: The file or address as the user named it, or the option that it stood at.
        data: Its content.
        entries: Where everything stands.
    """

    source: str
    data: Any
    entries: list[Entry] = field(default_factory=list)

    @property
    def is_file(self) -> bool:
        return self.source != INLINE and not self.is_remote

    @property
    def is_remote(self) -> bool:
        return is_address(self.source)

    def at(self, where: Where) -> str:
        """``file:line`` of a key; of the nearest one that leads to it where it has no line of its own."""
        lines = {entry.where: entry.line for entry in self.entries}
        while where and where not in lines:
            where = where[:-1]
        return f"{self.source}:{lines.get(where, 1)}"

    def find(self, key: str, text: str | None = None) -> str | None:
        """``file:line`` of a dotted key as the parser names it, with this text if one is given."""
        for entry in self.entries:
            dotted = ".".join(word for word in entry.where if isinstance(word, str) and word not in SILENT)
            if dotted == key and text in (None, entry.text):
                return f"{self.source}:{entry.line}"
        return None


def read(source: str, labels: bool = False) -> Config:
    """Read a config file.

    Args:
        source: The file, its address, or a config itself: ``{seed_everything: 3}``, or several lines.
        labels: Whether keys may be numbers: those of grids are labels.

    Raises:
        UsageError: There is no such file, or it is no YAML mapping; the line is named.
    """
    if TEXT.search(source):
        return parse(source, INLINE, labels)
    if is_address(source):
        if labels:
            raise UsageError(f"{source!r} cannot be read: grids name files beside them; download them all.")
        return parse(fetch(source), source)
    path = Path(source)
    try:
        if not path.is_file():
            raise UsageError(f"config file {source!r} {_missing(path)}")
        return parse(path.read_text(encoding="utf-8"), source, labels)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"config file {source!r} cannot be read: {error}.") from None


def _missing(path: Path) -> str:
    if path.is_dir():
        return "is a folder."
    near = nearest(path.name, [other.name for other in path.parent.glob("*.y*ml")])
    hint = f" Did you mean {str(path.with_name(near))!r}?" if near else ""
    return f"does not exist (looked in {Path.cwd()}).{hint}"


def parse(text: str, source: str, labels: bool = False) -> Config:
    """Read a config from text; see :func:`read`.

    Raises:
        UsageError: It is no YAML mapping, or has a key twice; the line is named.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _no_yaml(source, error) from None
    except RecursionError:
        raise UsageError(f"{source}:1: this is nested too deeply for a config.") from None
    if node is None:
        return Config(source, {})
    try:
        entries = list(islice(_entries(node, (), source, labels), MOST_ENTRIES))
    except RecursionError:
        raise UsageError(f"{source}:1: an alias (*name) stands inside what it is an alias of.") from None
    if len(entries) == MOST_ENTRIES:
        raise UsageError(f"{source}:1: this has more than {MOST_ENTRIES} entries, aliases and all; that is no config.")
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(
            f"{source}:1: a config is made of keys with values, such as `model:`, not of {text.strip()[:40]!r}."
        )
    try:
        data = load(text)
    except (yaml.YAMLError, ValueError) as error:  # of `!!int x`
        raise _no_yaml(source, error) from None
    # The parser's YAML takes a lone `model:` for text.
    return Config(source, data if isinstance(data, dict) else yaml.safe_load(text), entries)


def _no_yaml(source: str, error: Exception) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 1
    return UsageError(f"{source}:{line}: this is no YAML: {getattr(error, 'problem', None) or error}.")


def load(text: str) -> Any:
    """YAML as the parser reads it, in which 1e-3 is a number."""
    return get_loader("yaml")(text)


def _entries(node: yaml.Node, where: Where, source: str, labels: bool) -> Iterator[Entry]:
    if node.tag not in PLAIN_TAGS:
        line, tag = node.start_mark.line + 1, node.tag.replace(TAG, "!!")
        raise UsageError(f"{source}:{line}: the tag {tag} stands here, and a config holds plain values alone.")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag not in KEY_TAGS and not (labels and isinstance(key, yaml.ScalarNode)):
                raise UsageError(f"{source}:{line}: a key is a word; put it in quotes if it looks like something else.")
            if key.value in seen:
                name = ".".join(map(str, (*where, key.value)))
                raise UsageError(f"{source}:{line}: the key {name!r} stands on line {seen[key.value]} already.")
            seen[key.value] = line
            yield Entry((*where, key.value), line, value.value if isinstance(value, yaml.ScalarNode) else None)
            yield from _entries(value, (*where, key.value), source, labels)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            text = item.value if isinstance(item, yaml.ScalarNode) else None
            yield Entry((*where, position), item.start_mark.line + 1, text)
            yield from _entries(item, (*where, position), source, labels)
