"""One table of named parts: kind -> name -> class, filled by decorators, entry points and plugin files."""

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeAlias, TypeVar

ENTRY_POINT_GROUP = "gnn_depth.plugins"
KINDS = ("layer", "norm", "init", "skip", "graph_dropout", "data")

_TABLE: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}
_CONTESTED: dict[tuple[str, str], str] = {}  # names that an installed plugin wanted too: what is said when one is used
_BROKEN: dict[str, str] = {}  # installed plugins that do not load: what is wrong with each
_BROUGHT_BY: dict[str, str] = {}  # classes of installed plugins by their path: which plugin, of which distribution
_loading: str | None = None  # the installed plugin that is being imported
Part = TypeVar("Part", bound=type)


class RegistryError(ValueError):
    """A name that nobody registered, one registered twice, or a plugin that does not load."""


def register(kind: str, name: str) -> Callable[[Part], Part]:
    """Class decorator: make a class available to configs as ``name``.

    Args:
        kind: One of ``layer``, ``norm``, ``init``, ``skip``, ``graph_dropout``, ``data``.
        name: What configs and the command line call it.

    Raises:
        RegistryError: Unknown kind, or the name belongs to another class already. Between installed packages, which
            nobody named, it is raised when the name is used.
    """
    if kind not in KINDS:
        raise RegistryError(unknown("kind", kind, KINDS))

    def add(cls: Part) -> Part:
        if _loading is not None:
            _BROUGHT_BY[import_path(cls)] = _loading
        owner = _TABLE[kind].setdefault(name, cls)
        # A module that is run again (a notebook cell, a reload) brings the same class anew: it may replace itself.
        if owner is cls or import_path(owner) == import_path(cls):
            _TABLE[kind][name] = cls
        elif _loading is None:
            raise RegistryError(f"{kind} {name!r} is already {_told(owner)}; {_told(cls)} needs another name.")
        else:
            _CONTESTED[kind, name] = (
                f"{kind} {name!r} is two classes: {_told(owner)}, and {_told(cls)}. Uninstall one, or give the class "
                f"in place of the name: {import_path(owner)} or {import_path(cls)}."
            )
        return cls

    return add


def _told(cls: type) -> str:
    by = _BROUGHT_BY.get(import_path(cls))
    return f"{import_path(cls)} of {by}" if by else import_path(cls)


def get(kind: str, name: str) -> type:
    """Look a part up by its registered name or its class name (``pair`` or ``PairNorm``).

    Raises:
        RegistryError: No such part; the message has the near miss and the choices, and the plugins that did not load.
            Or two installed packages have parts of this name.
    """
    names = _TABLE[kind]
    by_class = {cls.__name__: cls for cls in names.values()}
    found = names.get(name) or by_class.get(name)
    if found is None:
        raise RegistryError(unknown(kind, name, names, also=by_class) + not_loaded())
    for known, cls in names.items():
        if cls is found and (kind, known) in _CONTESTED:
            raise RegistryError(_CONTESTED[kind, known])
    return found


def registered(kind: str) -> dict[str, type]:
    """All parts of a kind, by name, in alphabetical order."""
    return dict(sorted(_TABLE[kind].items()))


def name_of(cls: type) -> tuple[str, str] | None:
    """The kind and name that lead to a class, or None."""
    known = ((kind, name) for kind, names in _TABLE.items() for name, c in names.items() if c is cls)
    return next((key for key in known if key not in _CONTESTED), None)


def import_path(cls: type) -> str:
    """``package.module.Class``."""
    return f"{cls.__module__}.{cls.__qualname__}"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that a misspelt word probably meant, capital letters aside."""
    by_lower: dict[str, str] = {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)  # of names that differ in capitals alone, the first
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def unknown(what: str, value: str, choices: Iterable[str], also: Iterable[str] = ()) -> str:
    """The sentence that answers a wrong name: what, the value, the near miss, the choices."""
    choices = sorted(choices)
    near = nearest(value, [*choices, *also])
    hint = f" Did you mean {near!r}?" if near else ""
    return f"unknown {what} {value!r}.{hint} Available: {', '.join(choices)}."


def load_entry_points() -> list[str]:
    """Import every module that an installed package advertises under ``gnn_depth.plugins``.

    Returns:
        What is wrong with those that do not load, and have not been tried before: each with its distribution. The rest
        works without them; see :func:`get`.
    """
    return [failure for entry in entry_points(group=ENTRY_POINT_GROUP) if (failure := _load(entry))]


def _load(entry: EntryPoint) -> str | None:
    global _loading
    called = f"plugin {entry.name!r}" + (f" of {entry.dist.name}" if entry.dist else "")
    if called in _BROKEN:
        return None
    before, _loading = _known(), called
    try:
        entry.load()
    except (Exception, SystemExit) as error:
        _restore(before)
        _BROKEN[called] = f"{called} ({entry.value}) does not load: {_reason(error)}"
        return _BROKEN[called]
    finally:
        _loading = None
    return None


def not_loaded() -> str:
    """Further sentences for the answer to a name that is not known: the installed plugins that may have it."""
    return "".join(f" It may be in what is missing: {failure}" for failure in _BROKEN.values())


def load_plugin(source: str) -> None:
    """Import a plugin by file (``my_norm.py``) or module name (``my_package.norms``).

    Raises:
        RegistryError: There is no such file or module, it is something else, or it does not import.
    """
    path = Path(source)
    is_file = path.suffix == ".py"
    if is_file and _is_imported(path):
        return
    before = _known()
    try:
        if is_file:
            _import_file(path)
        else:
            importlib.import_module(source)
    except (Exception, SystemExit) as error:
        _restore(before)
        reason = _no_plugin(path, error) or _reason(error)
        raise RegistryError(f"plugin {source!r} does not load: {reason}") from error


def _no_plugin(path: Path, error: BaseException) -> str:
    """What to say of a file or folder that was taken for a module; empty where it was none, or lacks another one."""
    taken = isinstance(error, ModuleNotFoundError) and error.name == path.name.partition(".")[0]
    return "it is neither a .py file nor a module." if taken and path.exists() else ""


Known: TypeAlias = tuple[dict[str, dict[str, type]], dict[tuple[str, str], str]]


def _known() -> Known:
    return {kind: dict(names) for kind, names in _TABLE.items()}, dict(_CONTESTED)


def _restore(known: Known) -> None:
    """Forget the parts of a plugin that got only so far: its module is gone."""
    for now, before in zip((_TABLE, _CONTESTED), known, strict=True):
        now.clear()  # type: ignore[attr-defined]
        now.update(before)  # type: ignore[attr-defined]


def _reason(error: BaseException) -> str:
    if isinstance(error, RegistryError):  # of its @register
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}."
    return f"{' '.join(repr(error).split())}."


def _is_imported(path: Path) -> bool:
    """Whether a file has been imported already; it is refused if it is missing, or a module has its name."""
    if not path.is_file():
        looked = "" if path.is_absolute() else f" (looked in {Path.cwd()})"
        raise RegistryError(f"plugin file {str(path)!r} does not exist{looked}.")
    if path.stem not in sys.modules:
        return False
    known = getattr(sys.modules[path.stem], "__file__", None)
    if known and Path(known).resolve() == path.resolve():
        return True
    raise RegistryError(f"plugin file {str(path)!r} hides the module {path.stem!r}: rename the file.")


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # The module is importable by its stem afterwards, so class paths of the run's saved config resolve.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def summary(cls: type) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]
