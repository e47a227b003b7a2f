"""Config files: YAML that refuses duplicate keys and remembers on which line everything stands."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader

from gnn_depth.cli.errors import UsageError
from gnn_depth.short_names import Where

# Keys that stand between a part and its options in files, but not in what the parser says of them.
SILENT = ("class_path", "init_args", "dict_kwargs")
KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
INLINE = "--config"  # the source of a config that is written on the command line itself


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
        source: The file as the user named it, or the option that it stood at.
        data: Its content.
        entries: Where everything stands.
    """

    source: str
    data: Any
    entries: list[Entry] = field(default_factory=list)

    @property
    def is_file(self) -> bool:
        return self.source != INLINE

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
        source: The file, or a config itself that begins with ``{``.
        labels: Whether keys may be numbers: those of grids are labels.

    Raises:
        UsageError: There is no such file, or it is no YAML mapping; the line is named.
    """
    if source.lstrip().startswith("{"):
        return parse(source, INLINE, labels)
    path = Path(source)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else f"does not exist (looked in {Path.cwd()})"
        raise UsageError(f"config file {source!r} {what}.")
    try:
        return parse(path.read_text(encoding="utf-8"), source, labels)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"config file {source!r} cannot be read: {error}.") from None


def parse(text: str, source: str, labels: bool = False) -> Config:
    """Read a config from text; see :func:`read`.

    Raises:
        UsageError: It is no YAML mapping, or has a key twice; the line is named.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{source}:{line}: this is no YAML: {getattr(error, 'problem', None) or error}.") from None
    if node is None:
        return Config(source, {})
    try:
        entries = list(_entries(node, (), source, labels))
    except RecursionError:
        raise UsageError(f"{source}:1: an alias (*name) stands inside what it is an alias of.") from None
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(
            f"{source}:1: a config is made of keys with values, such as `model:`, not of {text.strip()[:40]!r}."
        )
    data = load(text)
    # The parser's YAML takes a lone `model:` for text.
    return Config(source, data if isinstance(data, dict) else yaml.safe_load(text), entries)


def load(text: str) -> Any:
    """YAML as the parser reads it, in which 1e-3 is a number."""
    return get_loader("yaml")(text)


def _entries(node: yaml.Node, where: Where, source: str, labels: bool) -> Iterator[Entry]:
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
