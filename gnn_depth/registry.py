"""The registry of parts, which finds classes by kind and name.

The decorator :func:`register` fills it: when this package, an installed plugin or a plugin file is
imported.
"""

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from gnn_depth.ranges import in_range

ENTRY_POINT_GROUP = "gnn_depth.plugins"
KINDS = ("layer", "norm", "init", "skip", "graph_dropout", "task", "data", "transform")

_TABLE: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}  # kind -> name -> class
_BROKEN: dict[str, str] = {}  # installed plugins that do not load -> error message
Registered = TypeVar("Registered", bound=type)


class RegistryError(ValueError):
    """An unknown name, a name already in use, or a plugin that fails to load."""


def register(kind: str, name: str) -> Callable[[Registered], Registered]:
    """Class decorator: register a class under a name for configs and the command line.

    From then on the class's constructor also checks the ranges that its arguments declare, such as
    ``p: Probability``.

    Args:
        kind: One of ``layer``, ``norm``, ``init``, ``skip``, ``graph_dropout``, ``task``, ``data``,
            ``transform``.
        name: The name in configs.

    Raises:
        RegistryError: The kind is unknown, or another class has this name.
    """
    if kind not in KINDS:
        raise RegistryError(unknown("kind", kind, KINDS))

    def add(cls: Registered) -> Registered:
        if "__init__" in vars(cls):
            # Not by an own __init__ of each part: so plugins' parts are checked too.
            cls.__init__ = in_range(cls.__init__)
        owner = _TABLE[kind].setdefault(name, cls)
        # A module that runs again (a notebook cell, a reload) may replace its own class.
        if import_path(owner) != import_path(cls):
            raise RegistryError(
                f"{kind} {name!r} is already {import_path(owner)}: give {import_path(cls)} another "
                "name, or leave out --plugins if its package is installed."
            )
        _TABLE[kind][name] = cls
        return cls

    return add


def registered(kind: str) -> dict[str, type]:
    """All parts of a kind, by name, in alphabetical order."""
    return dict(sorted(_TABLE[kind].items()))


def name_of(cls: type) -> tuple[str, str] | None:
    """The kind and name under which a class is registered, or None."""
    for kind, names in _TABLE.items():
        for name, registered_class in names.items():
            if registered_class is cls:
                return kind, name
    return None


def import_path(cls: type | FunctionType) -> str:
    """``package.module.Class``, or the same of a function."""
    return f"{cls.__module__}.{cls.__qualname__}"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice most similar to a misspelt word, ignoring case; None if none is similar.

    ``gcnii`` is similar to ``remedies/gcnii``.
    """
    by_lower: dict[str, str] = {}
    for choice in sorted(choices, key=lambda choice: choice.count("/")):
        by_lower.setdefault(choice.lower(), choice)
        by_lower.setdefault(choice.lower().rpartition("/")[2], choice)
    for near in difflib.get_close_matches(word.lower(), by_lower, n=1):
        return by_lower[near]
    return None


def hint(word: str, choices: Iterable[str]) -> str:
    """The end of an error message that names the most similar choice; empty if none is similar."""
    near = nearest(word, choices)
    if near is None:
        return ""
    return f" Did you mean {near!r}?"


def unknown(what: str, value: str, choices: Iterable[str], also: Iterable[str] = ()) -> str:
    """The error message for a wrong name: the value, the nearest choice, and all choices."""
    choices = sorted(choices)
    near = hint(value, [*choices, *also])
    return f"unknown {what} {value!r}.{near} Available: {', '.join(choices)}."


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first texts, and the number of others: ``a, b and 2 more``."""
    listed = separator.join(texts[:most])
    if len(texts) > most:
        listed += f" and {len(texts) - most} more"
    return listed


def counted(words: Iterable[str]) -> str:
    """``2 failed, 1 running``, in the order of first appearance."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items())


def as_written(value: Any) -> str:
    """A plain value as text, as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def printable(text: str) -> str:
    """Text whose control characters, which a terminal would obey, are written out."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def imported(option: str, name: str, library: str, names: Iterable[str]) -> Any:
    """A class, given by one of these names in a library, or by its import path.

    Raises:
        ValueError: There is none.
    """
    if "." not in name and name not in names:
        raise ValueError(unknown(option, name, names))
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module or library), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{option} {name!r} cannot be imported: {error}.") from error


def load_entry_points() -> list[str]:
    """Import the plugins of installed packages: their entry points ``gnn_depth.plugins``.

    Returns:
        An error message for each module that fails to load. A later call does not try it again.
        Other modules are loaded all the same.
    """
    failures = []
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        plugin = f"plugin {entry.name!r}"
        if entry.dist is not None:
            plugin += f" of {entry.dist.name}"
        # Once is enough: a failed import may have done half of its work.
        if plugin in _BROKEN:
            continue
        try:
            with _whole_or_not_at_all():
                entry.load()
        except (Exception, SystemExit) as error:
            _BROKEN[plugin] = f"{plugin} ({entry.value}) does not load: {_reason(error)}"
            failures.append(_BROKEN[plugin])
    return failures


def not_loaded() -> str:
    """A hint for the error about an unknown name: the installed plugins that failed to load."""
    return "".join(f" It may be in a plugin that is missing: {each}" for each in _BROKEN.values())


def load_plugin(source: str) -> None:
    """Import a plugin by file (``my_norm.py``) or module name (``my_package.norms``).

    Raises:
        RegistryError: There is no such file or module, or importing it fails.
    """
    # Cached bytecode counts as that of a file of the same size from the same second, and would be
    # that of a file before an edit.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with _whole_or_not_at_all():
            if source.endswith(".py"):
                _import_file(Path(source))
            else:
                importlib.import_module(source)
    except (Exception, SystemExit) as error:
        message = f"plugin {source!r} does not load: {_reason(error)}"
        raise RegistryError(f"{message} A plugin is a .py file or a module.") from error
    finally:
        sys.dont_write_bytecode = writes


@contextmanager
def _whole_or_not_at_all() -> Iterator[None]:
    """Forget the parts that a plugin registered before its import failed."""
    before = {kind: dict(names) for kind, names in _TABLE.items()}
    try:
        yield
    except BaseException:
        _TABLE.update(before)
        raise


def _reason(error: BaseException) -> str:
    """Why a plugin does not load, in a sentence, with the line in which it failed."""
    if isinstance(error, RegistryError):  # raised by its @register
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}."
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{' '.join(repr(error).split())} ({frame.filename}:{frame.lineno})."


#: The content of each plugin file when it was imported.
_IMPORTED: dict[Path, bytes] = {}


def _import_file(path: Path) -> None:
    """Import a plugin file, unless it has been imported already."""
    path = path.resolve()
    if not path.is_file():
        raise RegistryError("there is no such file.")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) != str(path):
        raise RegistryError(
            f"it hides the module {path.stem!r}: rename the file, or leave out --plugins if its "
            "package is installed."
        )
    if known is not None:
        if _IMPORTED.get(path) not in (None, path.read_bytes()):
            raise RegistryError(
                "it was edited after this process had imported it, and its parts are the old "
                "ones: start Python anew."
            )
        return
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Class paths in the run's saved config begin with the module's name, so it must be importable
    # under this name.
    sys.modules[path.stem] = module
    _IMPORTED[path] = path.read_bytes()
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def origin(module: str) -> str | None:
    """The file from which a module would be imported; None if there is no such module."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # its package does not load, or the name is no name
        return None
    return getattr(spec, "origin", None)


def described(cls: type) -> str:
    """Name a part in an error message: ``norm 'pair'``.

    A class from outside this package is named with the file and line of its source.
    """
    words, known = cls.__name__, name_of(cls)
    place = written_at(cls)
    if known is not None:
        kind, name = known
        words = f"{kind} {name!r}"
        if place is not None:
            place = f"{cls.__name__}, {place}"
    if place is None:
        return words
    return f"{words} ({place})"


def written_at(cls: type) -> str | None:
    """File and line of a class's source; None for a class of this package."""
    if cls.__module__.partition(".")[0] == __package__:
        return None
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):  # typed into an interpreter, which keeps no source
        return cls.__module__
