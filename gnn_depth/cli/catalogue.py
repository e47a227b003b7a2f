"""Every registered part and its options as plain text, cached on disk so that `list` and completion need no torch."""

import contextlib
import hashlib
import importlib.util
import inspect
import json
import os
import platform
import sys
import sysconfig
import tempfile
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import gnn_depth
from gnn_depth import registry
from gnn_depth.short_names import options

PACKAGE = Path(gnn_depth.__file__).parent
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """An option of a part.

    Attributes:
        name: What configs call it.
        type: Its type as text, None where it has none.
        default: Its default as text, None where it has none.
        choices: The values that its type names: ``paper | released``.
    """

    name: str
    type: str | None
    default: str | None
    choices: list[str]

    def __str__(self) -> str:
        typed = f": {self.type}" if self.type is not None else ""
        return self.name + typed + (f" = {self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class Part:
    """A registered class.

    Attributes:
        kind: ``layer``, ``norm`` and so on.
        name: Its registered name.
        path: Its import path.
        doc: Its docstring.
        options: What a config may set.
    """

    kind: str
    name: str
    path: str
    doc: str
    options: list[Option]

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]


def catalogue(plugins: Collection[str]) -> dict[str, dict[str, Part]]:
    """All parts by kind and name: built-in ones, and those of installed packages and of these plugins.

    Raises:
        UsageError: A plugin does not load.
    """
    if any(registry.registered(kind) for kind in registry.KINDS):  # everything is imported already
        parts = _import_parts(plugins)
    else:
        parts = cached("parts", plugins, lambda: _import_parts(plugins), _parts_of_json)
    return {kind: {part.name: part for part in parts if part.kind == kind} for kind in registry.KINDS}


def _import_parts(plugins: Collection[str]) -> list[Part]:
    from gnn_depth.cli.config import load_plugins

    load_plugins(list(plugins))
    return [describe(kind, name, cls) for kind in registry.KINDS for name, cls in registry.registered(kind).items()]


def _parts_of_json(content: Any) -> list[Part]:
    return [Part(**part | {"options": [Option(**option) for option in part["options"]]}) for part in content]


def describe(kind: str, name: str, cls: type) -> Part:
    """A class as text."""
    found = [
        Option(
            name,
            None if parameter.annotation is parameter.empty else type_name(parameter.annotation),
            None if parameter.default is parameter.empty else _text(parameter.default),
            list(choices(parameter.annotation)),
        )
        for name, parameter in options(kind, cls).items()
    ]
    return Part(kind, name, registry.import_path(cls), inspect.getdoc(cls) or "", found)


def _text(default: Any) -> str:
    return default.__name__ if isinstance(default, type) else str(default)


def type_name(annotation: Any) -> str:
    """A type as text, without modules, and literals by their values: ``float | None``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if annotation in (None, type(None)):
        return "None"
    if isinstance(annotation, list):  # the arguments of a Callable
        return f"[{', '.join(map(type_name, annotation))}]"
    if origin is None:
        return annotation.__name__ if isinstance(annotation, type) else str(annotation).rpartition(".")[2]
    return f"{getattr(origin, '__name__', origin)}[{', '.join(map(type_name, arguments))}]"


def choices(annotation: Any) -> Iterator[str]:
    """The values that a type names."""
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    elif get_origin(annotation) in (Union, types.UnionType, list):
        for argument in get_args(annotation):
            yield from choices(argument)


def cached(name: str, plugins: Collection[str], build: Callable[[], T], read: Callable[[Any], T]) -> T:
    """Build something from the imported package once, then read it from disk until a source file changes.

    An entry holds time and size of every source file that it was built from. One that is damaged or outdated is built
    anew; a cache that cannot be written does no harm.

    Args:
        name: Name of the entry.
        plugins: Plugins to import beside the package.
        build: Imports the package and the plugins, and returns lists, dicts, dataclasses and text.
        read: Restores that from JSON.
    """
    key = _key(plugins)
    place = hashlib.sha256(json.dumps([str(PACKAGE), key["plugins"]]).encode()).hexdigest()[:16]
    path = _folder() / f"{name}-{place}.json"
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):  # none, or damaged
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["key"] == key and all(_stamp(file) == stamp for file, stamp in entry["sources"].items()):
            return read(entry["content"])
    content = build()
    if not registry.not_loaded():  # a broken plugin may be mended without a change of its own files
        sources = {file: _stamp(file) for file in _sources(plugins)}
        _write(path, json.dumps({"key": key, "sources": sources, "content": content}, default=asdict))
    return content


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnn_depth" / "catalogue"


def _key(plugins: Iterable[str]) -> dict[str, Any]:
    """Everything that an entry depends on, apart from the source files."""
    return {
        "versions": [gnn_depth.__version__, version("torch"), platform.python_version(), sys.prefix],
        "installed": sorted([entry.name, entry.value, _origin(entry.module)] for entry in _installed()),
        "plugins": [[plugin, None if plugin.endswith(".py") else _origin(plugin)] for plugin in plugins],
    }


def _installed() -> Iterable[Any]:
    return registry.entry_points(group=registry.ENTRY_POINT_GROUP)  # type: ignore[attr-defined]


def _origin(module: str) -> str | None:
    """The file from which the top package of a module would be imported; None if there is none."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def _sources(plugins: Iterable[str]) -> set[str]:
    """Files and folders of the imported packages that an entry depends on; all other packages have versions."""
    tops = {name.partition(".")[0] for name in ("gnn_depth", *(entry.module for entry in _installed()), *plugins)}
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] in tops:
            found |= {file, *getattr(module, "__path__", ())}
        elif file and not file.startswith(libraries):
            found.add(file)
    return {file for file in found if Path(file).is_absolute() and Path(file).exists()}  # torch invents some


def _stamp(file: str) -> list[int]:
    status = Path(file).stat()
    return [status.st_mtime_ns, status.st_size]


def _write(path: Path, text: str) -> None:
    """Write a file atomically; if that is impossible, do not write it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).replace(path)
