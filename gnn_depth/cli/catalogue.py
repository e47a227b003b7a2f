"""All parts and all options of a run as text, cached on disk: a misspelt name is found without
torch."""

import contextlib
import functools
import hashlib
import json
import os
import platform
import sys
import sysconfig
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gnn_depth
from gnn_depth import registry
from gnn_depth.cli import RUNS
from gnn_depth.cli.config import Arguments
from gnn_depth.cli.known import Known, load_plugins, options_of, origin
from gnn_depth.ranges import Range
from gnn_depth.runs import write_atomically
from gnn_depth.short_names import Option, Part, imported_parts

PACKAGE = Path(gnn_depth.__file__).parent


def catalogue(plugins: Iterable[str], command: str = "fit") -> Known:
    """The parts, with those of these plugins beside those of installed packages, and the options of
    a run command."""
    plugins = tuple(plugins)

    def build() -> tuple[Any, Any]:
        load_plugins(plugins)
        return imported_parts(), _options_of_runs()

    def read(content: Any) -> tuple[Any, Any]:
        parts, commands = content
        parts = {
            kind: {name: _part(part) for name, part in known.items()}
            for kind, known in parts.items()
        }
        return parts, {command: _options(known) for command, known in commands.items()}

    # Not from disk if everything is imported already.
    is_imported = any(registry.registered(kind) for kind in registry.KINDS)
    parts, commands = build() if is_imported else cached(plugins, build, read)
    return Known(parts, commands[command], plugins)


def _part(content: Any) -> Part:
    return Part(**content | {"options": _options(content["options"])})


def _options(content: Any) -> dict[str, Option]:
    return {
        name: Option(**option | {"range": option["range"] and Range(**option["range"])})
        for name, option in content.items()
    }


@functools.cache
def _options_of_runs() -> dict[str, dict[str, Option]]:
    """The options of every run command, from its parser."""
    from gnn_depth.cli.assemble import CommandLineInterface

    class Unparsed(CommandLineInterface):
        def parse_arguments(self, parser: Any, args: Any) -> None:
            self.config = {"seed_everything": False}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning calls jsonargparse in ways that are deprecated
        parsers = {command: Unparsed(command, Arguments(), build=False).parser for command in RUNS}
    return {command: options_of(parser) for command, parser in parsers.items()}


def cached(plugins: Collection[str], build: Callable[[], Any], read: Callable[[Any], Any]) -> Any:
    """Keep on disk what ``build`` makes of the imported package and plugins, until a source file
    changes.

    ``read`` restores it from JSON. An entry holds time and size of every source file that it was
    built from; a damaged or outdated one is built anew. A cache that cannot be written does no
    harm.
    """
    installed = registry.entry_points(group=registry.ENTRY_POINT_GROUP)  # type: ignore[attr-defined]
    key = {
        "versions": [
            *(gnn_depth.__version__, version("torch"), version("lightning")),
            *(platform.python_version(), sys.prefix),
        ],
        "installed": sorted(
            [entry.name, entry.value, origin(_top(entry.module))] for entry in installed
        ),
        "plugins": [
            [plugin, None if plugin.endswith(".py") else origin(_top(plugin))] for plugin in plugins
        ],
    }
    place = hashlib.sha256(json.dumps([str(PACKAGE), key["plugins"]]).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "gnn_depth" / "catalogue" / f"catalogue-{place}.json"
    # None, or damaged.
    damaged = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    with contextlib.suppress(*damaged):
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["key"] == key and all(
            _stamp(file) == stamp for file, stamp in entry["sources"].items()
        ):
            return read(entry["content"])
    content = build()
    if not registry.not_loaded():  # a broken plugin may be mended without a change of its own files
        tops = {
            _top(name) for name in ("gnn_depth", *(entry.module for entry in installed), *plugins)
        }
        sources = {file: _stamp(file) for file in _sources(tops)}
        text = json.dumps({"key": key, "sources": sources, "content": content}, default=_plain)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
    return content


def _plain(content: Any) -> Any:
    return (
        asdict(content) if is_dataclass(content) and not isinstance(content, type) else str(content)
    )


def _top(module: str) -> str:
    return module.partition(".")[0]


def _sources(packages: Collection[str]) -> set[str]:
    """Files and folders of these imported packages, and of modules outside of libraries, which have
    versions."""
    libraries = tuple(
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and _top(name) in packages:
            found |= {file, *getattr(module, "__path__", ())}
        elif file and not file.startswith(libraries):
            found.add(file)
    return {
        file for file in found if Path(file).is_absolute() and Path(file).exists()
    }  # torch invents some


def _stamp(file: str) -> list[int]:
    status = Path(file).stat()
    return [status.st_mtime_ns, status.st_size]
