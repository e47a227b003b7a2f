"""``gnn-depth list`` and the help of single parts, told from the catalogue."""

import sys

import docstring_parser

from gnn_depth import registry
from gnn_depth.cli.catalogue import Catalogue, catalogue, imported
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.parts import Part, part_of
from gnn_depth.cli.plain import plain
from gnn_depth.cli.sections import SECTIONS
from gnn_depth.short_names import class_path, load_class, short_name

USAGE = f"""usage: gnn-depth list [KIND]... [--plugins FILE]...

Show the registered parts of these kinds, or of all: name, options with types and defaults, what each is.
Kinds are {", ".join(registry.KINDS)}.
gnn-depth fit --model.KIND.help NAME, or --data.help NAME, tells more of one part."""


def listing(kinds: list[str], plugins: list[str]) -> str:
    """Every part of these kinds, or of all kinds: name, options with types and defaults, what it is.

    Raises:
        UsageError: There is no such kind, or a plugin does not load.
    """
    if {"-h", "--help"} & set(kinds):
        return USAGE
    for kind in kinds:
        if kind not in registry.KINDS:
            raise UsageError(registry.unknown("kind", kind, registry.KINDS))
    known = catalogue(plugins)
    for note in known.notes:
        print(note, file=sys.stderr)
    return "\n\n".join(_section(known, kind) for kind in kinds or registry.KINDS)


def _section(known: Catalogue, kind: str) -> str:
    rows = [kind]
    for name, part in known.of(kind).items():
        shown = part.class_name if kind == "data" else name
        rows += [f"  {shown}({', '.join(map(str, part.options))})", f"      {plain(part.summary)}"]
    return "\n".join(rows)


def help_of(key: str, name: str | None, plugins: list[str]) -> str:
    """What ``--model.norm.help pair`` shows: the part, and its options with type, default and meaning.

    Raises:
        UsageError: There is no such part, or a plugin does not load.
    """
    kind = SECTIONS[key]
    if name is None:
        return listing([kind], plugins)
    part = _part(kind, name, plugins)
    about, _, _ = plain(part.doc).partition("\nArgs:")
    meaning = {
        parameter.arg_name: plain(parameter.description or "") for parameter in docstring_parser.parse(part.doc).params
    }
    rows = [f"  --{key}.{option}\n      {' '.join(meaning.get(option.name, '').split())}" for option in part.options]
    return "\n".join([f"{kind} {part.name} ({part.path})", "", about.strip(), "", *rows]).rstrip()


def _part(kind: str, name: str, plugins: list[str]) -> Part:
    known = catalogue(plugins).of(kind)
    by_class = {part.class_name: part for part in known.values()}
    by_path = {part.path: part for part in known.values()}
    if part := known.get(name) or by_class.get(name) or by_path.get(name):
        return part
    if "." not in name:
        raise UsageError(registry.unknown(kind, name, known, also=by_class))
    imported(plugins)  # it may be a class of theirs that is not registered
    try:
        cls = load_class(class_path(kind, name))
    except registry.RegistryError as error:
        raise UsageError(str(error)) from None
    return part_of(kind, short_name(cls), cls)
