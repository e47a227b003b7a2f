"""Config files: YAML that refuses duplicate keys and remembers the line of every key."""

import re
import site
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gnn_depth.part_specs import Where, items_of
from gnn_depth.registry import hint
from gnn_depth.yaml_limits import LOADER, TooLargeError, safe_load, value_in

INLINE = "--config"  # the name of a config that is written on the command line itself
TAG = "tag:yaml.org,2002:"
KEY_TAGS = (f"{TAG}str", f"{TAG}merge")
PLAIN_KINDS = ("null", "bool", "int", "float", "timestamp", "str", "seq", "map", "merge", "value")
PLAIN_TAGS = tuple(f"{TAG}{kind}" for kind in PLAIN_KINDS)
IN_PLACE = re.compile(r"^\s*\{|:(\s|$)")  # found in a config, and in no file name


class ConfigError(ValueError):
    """A config file does not exist, or cannot be read; the message has file and line."""


@dataclass(frozen=True)
class Source:
    """A config as it was written, in a file or on the command line."""

    name: str  # the file as the user named it, or the option that holds the config
    data: Any  # its content, a nested dict
    # The line of every key and list item, by the keys that lead to it.
    lines: dict[Where, int] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return not self.name.startswith("--")

    @property
    def plugins(self) -> list[str]:
        """The config's plugins; files are looked up from its folder, and given by full path, so
        that the resolved config runs from any folder."""
        folder = Path(self.name).parent if self.is_file else Path.cwd()
        given, found = self.data.get("plugins") or [], []
        for name in items_of(given):
            if not isinstance(name, str):
                message = f"plugins must be names of files or modules, not {given!r}."
                raise ConfigError(f"{self.at(('plugins',))}: {message}")
            if name.endswith(".py"):
                name = str((folder / name).resolve())
            found.append(name)
        return found

    def at(self, where: Where) -> str:
        """``file:line`` of a key, or of the nearest key above it that has a line."""
        while where and where not in self.lines:
            where = where[:-1]
        return f"{self.name}:{self.lines.get(where, 1)}"


def read_config(source: str, labels: bool = False, below: str = "") -> Source:
    """Read a config file, or a config itself: ``{seed_everything: 3}``, or several lines.

    With ``labels`` keys may be numbers, as the labels of a grid. A shipped config has a name below
    the folder ``below``.
    """
    # Both come from one flag: nobody names a file with a colon and a space.
    if IN_PLACE.search(source):
        return parse_config(source, INLINE, labels)
    try:
        path = _find(source, below)
        return parse_config(path.read_text(encoding="utf-8"), str(path), labels)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {source!r} cannot be read: {error}.") from None


def shipped(below: str = "") -> dict[str, Path]:
    """The configs that come with the package, or those of one folder, by their path without suffix:
    ``lipschitz/gat``.

    The working directory's own ``configs`` come first, then those of the source tree and of the
    installed package: in an environment, in a folder (``pip install --target``) or of the user.
    """
    found: dict[str, Path] = {}
    here = Path(__file__).parents[1]
    installed = [Path(top, "share", "gnn_depth") for top in (sys.prefix, here, site.getuserbase())]
    for top in [Path(), here, *installed]:
        folder = top / "configs" / below
        for path in sorted(folder.rglob("*.yaml")):
            found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), path)
    return found


def to_yaml(config: Any) -> str:
    """A config as the text of its file."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _find(name: str, below: str) -> Path:
    """A file, or the shipped config of a name: its path or, where only one has it, the last word of
    that."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    known = shipped(below)
    # Those in reproduce are items, not configs of a run.
    known = {full: path for full, path in known.items() if not full.startswith("reproduce/")}
    same = [full for full in known if full.rpartition("/")[2] == name]
    if name in known:
        return known[name]
    if len(same) == 1:
        return known[same[0]]
    if same:
        raise ConfigError(f"config {name!r} may be {' or '.join(same)}: name one of them.")
    others = [*known, *(other.name for other in path.parent.glob("*.y*ml"))]
    near = hint(name, others) or hint(path.name, others)
    where = f"looked in {Path.cwd()} and among the shipped ones of configs/{below}"
    raise ConfigError(f"config file {name!r} does not exist ({where}).{near}")


def parse_config(text: str, name: str, labels: bool) -> Source:
    """Read a config from text; see :func:`read_config`."""
    lines: dict[Where, int] = {}
    try:
        data = value_in(text)
        # Twice: the nodes have the lines and the repeated keys.
        node = yaml.compose(text, Loader=LOADER)
        if node is not None:
            lines.update(_lines(node, (), name, labels))
        if data == text:  # jsonargparse reads a lone `model:` as text
            data = safe_load(text)
    except TooLargeError as error:
        raise ConfigError(f"{name}:1: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or error
        raise ConfigError(
            f"{name}:{line}: this is not YAML: look here and in the line above for a colon without "
            f"a space after it, an open bracket or quote, a tab, or uneven indentation ({problem})."
        ) from None
    if not isinstance(data or {}, dict):
        begins = text.strip()[:40]
        raise ConfigError(
            f"{name}:1: a config consists of keys with values, such as `model:`, not {begins!r}."
        )
    return Source(name, data or {}, lines)


def _lines(node: yaml.Node, where: Where, name: str, labels: bool) -> Iterator[tuple[Where, int]]:
    """The line of every key and list item; tags, keys that are no text and repeated keys are
    errors."""
    if node.tag not in PLAIN_TAGS:
        line, tag = node.start_mark.line + 1, node.tag.replace(TAG, "!!")
        raise ConfigError(
            f"{name}:{line}: the tag {tag} is not allowed; a config holds plain values only."
        )
    if isinstance(node, yaml.MappingNode):
        seen: dict[Any, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            # YAML reads yes, 1 and 2024-01-01 as no text: such a key would be found nowhere.
            if key.tag not in KEY_TAGS and not (labels and isinstance(key, yaml.ScalarNode)):
                raise ConfigError(
                    f"{name}:{line}: a key must be text; quote it if it looks like something else."
                )
            place = (*where, key.value)
            # As Python has it, for which the labels 1, 1.0 and true are equal.
            known = key.value if key.tag in KEY_TAGS else yaml.safe_load(key.value)
            if known in seen:
                dotted = ".".join(map(str, place))
                first = seen[known]
                raise ConfigError(f"{name}:{line}: the key {dotted!r} is already on line {first}.")
            seen[known] = line
            yield place, line
            yield from _lines(value, place, name, labels)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield (*where, position), item.start_mark.line + 1
            yield from _lines(item, (*where, position), name, labels)
