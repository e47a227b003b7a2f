"""All parts and all options of a run as text, cached on disk: a misspelt name is found without
torch."""

import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import gnn_depth
from gnn_depth import registry
from gnn_depth.cli import RUNS
from gnn_depth.cli.errors import LIBRARIES
from gnn_depth.cli.known import CommandIndex, known_parts, load_plugins, options_of_run
from gnn_depth.part_specs import Option, PartSpec, imported_parts
from gnn_depth.ranges import Range
from gnn_depth.runs import digest, write_atomically

T = TypeVar("T")
PACKAGE = Path(gnn_depth.__file__).parent


def catalogue(plugins: Iterable[str], command: str = "fit") -> CommandIndex:
    """The parts, with those of these plugins beside those of installed packages, and the options of
    a run command."""
    plugins = tuple(plugins)

    def load() -> None:
        load_plugins(plugins)

    def build() -> tuple[Any, Any]:
        load()
        return imported_parts(), {name: options_of_run(name) for name in RUNS}

    if any(registry.registered(kind) for kind in registry.KINDS):  # everything is imported already
        load()
        return known_parts(command, plugins)
    parts, commands = cached(plugins, build, _read)
    return CommandIndex(parts, load, commands[command])


def _read(content: Any) -> tuple[Any, Any]:
    """The catalogue from its JSON."""
    parts: dict[str, dict[str, PartSpec]] = {}
    for kind, known in content[0].items():
        parts[kind] = {name: _part(part) for name, part in known.items()}
    return parts, {command: _options(known) for command, known in content[1].items()}


def _part(content: Any) -> PartSpec:
    return PartSpec(**content | {"options": _options(content["options"])})


def _options(content: Any) -> dict[str, Option]:
    found = {}
    for name, option in content.items():
        declared = option["range"] and Range(**option["range"])
        found[name] = Option(**option | {"range": declared})
    return found


def cached(plugins: Collection[str], build: Callable[[], T], read: Callable[[Any], T]) -> T:
    """Keep on disk what ``build`` makes of the imported package and plugins, until a source file
    changes.

    ``read`` restores it from JSON. An entry holds time and size of every source file that it was
    built from; a damaged or outdated one is built anew. A cache that cannot be written does no
    harm.
    """
    installed = registry.entry_points(group=registry.ENTRY_POINT_GROUP)  # type: ignore[attr-defined]
    key = _key(installed, plugins)
    # An entry for each set of plugins: else two projects would overwrite each other's.
    place = digest(json.dumps([str(PACKAGE), key["plugins"]]))[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "gnn_depth" / "catalogue" / f"catalogue-{place}.json"
    # Whatever is wrong with an entry, or if there is none, it is built anew.
    damaged = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    with contextlib.suppress(*damaged):
        entry = json.loads(path.read_text(encoding="utf-8"))
        stamps = entry["sources"]
        if entry["key"] == key and all(_stamp(file) == stamps[file] for file in stamps):
            return read(entry["content"])
    content = build()
    if registry.not_loaded():  # a broken plugin may be mended without a change of its own files
        return content
    # Any module of these may add a part or an option.
    packages = {"gnn_depth", *map(_top, plugins)}
    packages.update(_top(entry.module) for entry in installed)
    stamps = {file: _stamp(file) for file in _sources(packages)}
    text = json.dumps({"key": key, "sources": stamps, "content": content}, default=_plain)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    return content


def _key(installed: Collection[Any], plugins: Collection[str]) -> dict[str, list[Any]]:
    """Describe what an entry depends on: versions, packages with plugins, and named plugins."""
    versions = [gnn_depth.__version__, version("torch"), version("lightning")]
    packages = []
    for entry in installed:
        packages.append([entry.name, entry.value, registry.origin(_top(entry.module))])
    named = []
    for plugin in plugins:
        origin = None
        if not plugin.endswith(".py"):  # a file is one of the sources, whose stamps are compared
            origin = registry.origin(_top(plugin))
        named.append([plugin, origin])
    return {
        "versions": [*versions, platform.python_version(), sys.prefix],
        "installed": sorted(packages),
        "plugins": named,
    }


def _plain(content: Any) -> Any:
    """A description without its classes, as JSON keeps it."""
    if not is_dataclass(content) or isinstance(content, type):
        return str(content)
    found = vars(content).copy()
    for name in ("annotation", "cls"):
        found.pop(name, None)
    return found


def _top(module: str) -> str:
    return module.partition(".")[0]


def _sources(packages: Collection[str]) -> set[str]:
    """Files and folders of these imported packages, and of modules outside of libraries, which have
    versions."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and _top(name) in packages:
            found |= {file, *getattr(module, "__path__", ())}
        elif file and not file.startswith(LIBRARIES):
            found.add(file)
    # torch invents some.
    return {file for file in found if Path(file).is_absolute() and Path(file).exists()}


def _stamp(file: str) -> list[int]:
    status = Path(file).stat()
    return [status.st_mtime_ns, status.st_size]
