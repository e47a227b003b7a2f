"""Modules read, not imported: which classes a file has, and what the names in it stand for.

Importing torch takes seconds, and an import runs what it reads. The commands that only tell what there is, and the
check of configs from elsewhere, look at the source instead.
"""

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TypeAlias

# A class, or the expression that a name is given at the top of a module, with the module.
Meaning: TypeAlias = tuple["Source", "ast.ClassDef | ast.expr"]


class Unreadable(Exception):
    """A source that does not say in plain words what importing it would."""


@dataclass(frozen=True, eq=False)
class Source:
    """A module's source.

    Attributes:
        name: Of the module.
        path: Its file.
        tree: Its syntax tree.
        classes: Its classes, by name.
        assigned: What its names are set to.
        imported: Its imported names: the module and the name there, which is None for a module itself.
    """

    name: str
    path: Path
    tree: ast.Module
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def dotted(self, node: ast.expr) -> str | None:
        """The import path of ``Name`` or ``module.Name``; None where that is no such expression."""
        if isinstance(node, ast.Name):
            module, name = self.imported.get(node.id, (self.name, node.id))
            return f"{module}.{name}" if name else module
        start = self.dotted(node.value) if isinstance(node, ast.Attribute) else None
        return f"{start}.{node.attr}" if start and isinstance(node, ast.Attribute) else None

    def meaning(self, node: ast.expr) -> Meaning | None:
        """What ``Name`` or ``module.Name`` stands for, through imports; None where that is not to be read."""
        path = self.dotted(node)
        return find(path, self) if path else None


def find(path: str, start: Source | None = None) -> Meaning | None:
    """The class or the expression that an import path leads to, through re-exports.

    Args:
        path: ``package.module.Name``.
        start: A module that is known already: a plugin file's name leads nowhere.
    """
    for _ in range(10):  # re-exports of re-exports; a circle ends here
        module, _, name = path.rpartition(".")
        source = start if start and start.name == module else read_module(module)
        if source is None:
            return None
        if name in source.classes:
            return source, source.classes[name]
        if name in source.assigned:
            return source, source.assigned[name]
        if name not in source.imported:
            return None
        home, there = source.imported[name]
        path = f"{home}.{there}" if there else home
    return None


def locate(module: str) -> ModuleSpec | None:
    """Where a module would be imported from; unlike ``importlib.util.find_spec``, it imports no package above it."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for depth in range(len(inner)):
            places = spec.submodule_search_locations if spec else None
            spec = PathFinder.find_spec(f"{top}.{'.'.join(inner[: depth + 1])}", places) if places else None
    except (ImportError, ValueError, AttributeError):  # also of a module that is no package, or has no spec
        return None
    return spec


def read_module(module: str) -> Source | None:
    """The source of a module; None where there is none, or none that can be read."""
    spec = locate(module)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return None
    try:
        return read_file(Path(str(spec.origin)), module)
    except (OSError, SyntaxError, ValueError):
        return None


def read_file(path: Path, name: str) -> Source:
    """The source in a file.

    Raises:
        OSError, SyntaxError, ValueError: It cannot be read, or is no Python.
    """
    return _parsed(path, name, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _parsed(path: Path, name: str, changed: int) -> Source:
    source = Source(name, path, ast.parse(path.read_bytes(), str(path)))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(source.tree.body):
        _note(source, node, package)
    return source


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in the branches of ``if`` and ``try`` too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from statements([*node.body, *node.orelse])
            for handler in getattr(node, "handlers", []):
                yield from statements(handler.body)


def _note(source: Source, node: ast.stmt, package: str) -> None:
    if isinstance(node, ast.ClassDef):
        source.classes[node.name] = node
    elif isinstance(node, ast.Assign):
        source.assigned.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        source.assigned[node.target.id] = node.value
    elif isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            source.imported[name] = (alias.name if alias.asname else name, None)
    elif isinstance(node, ast.ImportFrom):
        home = _home(node, package)
        source.imported.update({alias.asname or alias.name: (home, alias.name) for alias in node.names})


def _home(node: ast.ImportFrom, package: str) -> str:
    """The module that ``from ... import`` names; dots count from the package."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)
