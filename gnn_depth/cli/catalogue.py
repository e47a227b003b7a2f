"""Every registered part with its options, read from the sources; imported only where those do not say it plainly."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gnn_depth import registry
from gnn_depth.cli.parts import Option, Part, part_of
from gnn_depth.cli.sources import Source, Unreadable, find, locate, read_file, read_module, statements
from gnn_depth.short_names import GIVEN_BY_STACK

HOMES = ("gnn_depth.nn", "gnn_depth.data")  # of the built-in parts
# Bases without options, whose sources need not be read, and decorators that change no signature.
ROOTS = ("torch.nn.Module", "abc.ABC", "typing.Protocol", "typing.Generic", "object")
PLAIN_DECORATORS = ("register", "final", "runtime_checkable")


@dataclass(frozen=True)
class Catalogue:
    """All parts by kind and name, and what there is to say of plugins that cannot be read."""

    parts: list[Part]
    notes: list[str]

    def of(self, kind: str) -> dict[str, Part]:
        return {part.name: part for part in self.parts if part.kind == kind}


def catalogue(plugins: list[str]) -> Catalogue:
    """All parts: built in, of installed packages and of these plugins.

    Raises:
        UsageError: A plugin that had to be imported does not load; it is named.
    """
    try:
        return read(plugins)
    except Unreadable:
        return imported(plugins)


def imported(plugins: list[str]) -> Catalogue:
    """The same from the registry, after importing everything.

    Raises:
        UsageError: A plugin does not load; it is named.
    """
    import gnn_depth.data
    import gnn_depth.nn  # noqa: F401  (importing the two registers every built-in part)
    from gnn_depth.cli.words import load_plugins

    load_plugins(plugins)
    parts = [part_of(kind, name, cls) for kind in registry.KINDS for name, cls in registry.registered(kind).items()]
    return Catalogue(parts, [])


def read(plugins: list[str]) -> Catalogue:
    """The same from the sources alone.

    Raises:
        Unreadable: They do not say all of it.
    """
    parts, notes = list(built_in()), []
    for entry in registry.entry_points(group=registry.ENTRY_POINT_GROUP):  # type: ignore[attr-defined]
        source = read_module(entry.module)
        if source is None:
            owner = f" of {entry.dist.name}" if entry.dist else ""
            why = "cannot be read" if locate(entry.module) else "does not exist"
            notes.append(f"plugin {entry.name!r}{owner} ({entry.value}) is left out: its source {why}.")
        else:
            parts += _parts_of_plugin(source)
    for plugin in plugins:
        parts += _parts_of_plugin(_plugin(plugin))
    known: dict[tuple[str, str], Part] = {}
    for part in parts:
        if known.setdefault((part.kind, part.name), part).path != part.path:
            raise Unreadable(part.name)  # importing says what is wrong with two of one name
    order = sorted(known.values(), key=lambda part: (registry.KINDS.index(part.kind), part.name))
    return Catalogue(order, notes)


@lru_cache(maxsize=1)
def built_in() -> tuple[Part, ...]:
    """The parts of this package."""
    return tuple(
        part
        for home in HOMES
        for path in sorted(_folder(home).rglob("*.py"))
        if "\n@register(" in path.read_text(encoding="utf-8")
        for part in _parts(read_file(path, _module(home, path)))
    )


def _folder(package: str) -> Path:
    spec = locate(package)
    assert spec is not None
    return Path(str(spec.origin)).parent


def _module(home: str, path: Path) -> str:
    return ".".join([home, *path.relative_to(_folder(home)).with_suffix("").parts])


def _plugin(name: str) -> Source:
    try:
        source = read_file(Path(name), Path(name).stem) if name.endswith(".py") else read_module(name)
    except (OSError, SyntaxError, ValueError):
        source = None
    if source is None:
        raise Unreadable(name)
    return source


def _parts_of_plugin(source: Source) -> list[Part]:
    """The parts of a plugin's module and of the modules of its package that it imports."""
    seen, waiting = {source.name: source}, [source]
    while waiting:
        homes = {path for module, name in waiting.pop().imported.values() for path in (module, f"{module}.{name}")}
        for home in sorted(homes - set(seen)):
            if home.partition(".")[0] == source.name.partition(".")[0] and (found := read_module(home)):
                seen[home] = found
                waiting.append(found)
    parts = [part for found in seen.values() for part in _parts(found)]
    if not parts:
        raise Unreadable(source.name)  # it may register by other means
    return parts


def _parts(source: Source) -> Iterator[Part]:
    decorators = {id(node) for cls in source.classes.values() for node in cls.decorator_list}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _called(node) == "register" and id(node) not in decorators:
            raise Unreadable(source.name)  # in a loop, say
    for cls in (node for node in statements(source.tree.body) if isinstance(node, ast.ClassDef)):
        for call in cls.decorator_list:
            if isinstance(call, ast.Call) and _called(call) == "register":
                yield _part(source, cls, call)


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


def _part(source: Source, cls: ast.ClassDef, call: ast.Call) -> Part:
    try:
        kind, name = (ast.literal_eval(argument) for argument in call.args)
    except (ValueError, TypeError):
        raise Unreadable(cls.name) from None
    if kind not in registry.KINDS:
        raise Unreadable(kind)  # importing says so
    told = tuple(_options(source, cls))[GIVEN_BY_STACK[kind] :]
    return Part(kind, name, f"{source.name}.{cls.name}", _doc(source, cls), told)


def _lineage(source: Source, cls: ast.ClassDef) -> Iterator[tuple[Source, ast.ClassDef]]:
    """A class and its bases, depth first, but for those that have no options."""
    if {_called(node) for node in cls.decorator_list} - set(PLAIN_DECORATORS):
        raise Unreadable(cls.name)  # a dataclass has a constructor that nobody wrote
    yield source, cls
    for base in cls.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        if source.dotted(base) in ROOTS or (isinstance(base, ast.Name) and base.id in ROOTS):
            continue
        found = source.meaning(base)
        if found is None or not isinstance(found[1], ast.ClassDef):
            raise Unreadable(cls.name)
        yield from _lineage(found[0], found[1])


def _doc(source: Source, cls: ast.ClassDef) -> str:
    docs = (ast.get_docstring(base) for _, base in _lineage(source, cls))
    return next(filter(None, docs), "")


def _options(source: Source, cls: ast.ClassDef) -> Iterator[Option]:
    for home, argument, default in _arguments(source, cls):
        yield Option(argument.arg, _typed(home, argument), None if default is None else _default_text(home, default))


def types_of(path: str) -> dict[str, str | None]:
    """The arguments of any class's constructor and their types as text.

    Raises:
        Unreadable: Its source does not say.
    """
    found = find(path)
    if found is None or not isinstance(found[1], ast.ClassDef):
        raise Unreadable(path)
    return {argument.arg: _typed(home, argument) for home, argument, _ in _arguments(found[0], found[1])}


def _arguments(source: Source, cls: ast.ClassDef) -> Iterator[tuple[Source, ast.arg, ast.expr | None]]:
    """The arguments of a class's constructor, or of its next base that has one: where it stands, name, default."""
    for home, base in _lineage(source, cls):
        for node in base.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                said = node.args
                named = [*said.posonlyargs, *said.args]
                defaults = [*[None] * (len(named) - len(said.defaults)), *said.defaults, *said.kw_defaults]
                for argument, default in list(zip([*named, *said.kwonlyargs], defaults, strict=True))[1:]:
                    yield home, argument, default
                return


def _typed(home: Source, argument: ast.arg) -> str | None:
    return None if argument.annotation is None else _type_text(home, argument.annotation)


def _default_text(home: Source, node: ast.expr) -> str:
    found = home.meaning(node)
    if found and isinstance(found[1], ast.ClassDef):
        return found[1].name
    try:
        return str(ast.literal_eval(found[1] if found else node))
    except ValueError:
        raise Unreadable(ast.unparse(node)) from None


def _type_text(home: Source, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _type_text(home, ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp):
        return f"{_type_text(home, node.left)} | {_type_text(home, node.right)}"
    if isinstance(node, ast.Subscript):
        head = _called(node.value)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if head == "Literal":
            return " | ".join(str(ast.literal_eval(value)) for value in inner)
        texts = [_type_text(home, value) for value in inner]
        if head in ("Union", "Optional"):
            return " | ".join([*texts, *(["None"] if head == "Optional" else [])])
        return f"{head}[{', '.join(texts)}]"
    if isinstance(node, ast.List):
        return f"[{', '.join(_type_text(home, value) for value in node.elts)}]"
    found = home.meaning(node)
    if found and not isinstance(found[1], ast.ClassDef):
        return _type_text(found[0], found[1])
    return ast.unparse(node).rpartition(".")[2]
