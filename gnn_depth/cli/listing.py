"""``gnn-depth list``, and the help of a single part: ``--model.norm.help pair``."""

from collections.abc import Iterable

import docstring_parser

from gnn_depth import registry
from gnn_depth.cli.catalogue import Part, catalogue, describe
from gnn_depth.cli.config import load_plugins, read_arguments
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options
from gnn_depth.cli.plain import plain
from gnn_depth.short_names import SECTIONS, class_path, load_class, short_name


def main(words: list[str]) -> int:
    """Print the parts of some kinds, or of all.

    Args:
        words: Command-line arguments after ``gnn-depth list``.

    Raises:
        UsageError: There is no such kind, or a plugin does not load.
    """
    arguments = read_arguments(words)
    kinds = [_kind(word) for word in parser().parse_args(arguments.argv).kinds]
    print(listing(kinds or registry.KINDS, arguments.plugins))
    return 0


def parser() -> Options:
    """The options of the command."""
    options = Options(
        "list",
        "Show the registered parts of these kinds, or of all: name, options with types and defaults, and a summary. "
        "`gnn-depth fit --model.KIND.help NAME` and `--data.help NAME` tell more about one part.",
        "[KIND]... [--plugins FILE]...",
    )
    options.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(registry.KINDS))
    # `read_arguments` takes it out of the arguments; it stands here for the help and for completion.
    options.add_argument("--plugins", metavar="FILE", help="Python file or module that registers parts")
    return options


def _kind(word: str) -> str:
    """A kind, in the singular or the plural."""
    for kind in registry.KINDS:
        if word in (kind, f"{kind}s"):
            return kind
    raise UsageError(registry.unknown("kind", word, registry.KINDS))


def listing(kinds: Iterable[str], plugins: list[str]) -> str:
    """Every part of these kinds: name, options with types and defaults, and the first line of its docstring."""
    known = catalogue(plugins)
    return "\n\n".join("\n".join([kind, *map(_row, known[kind].values())]) for kind in kinds)


def _row(part: Part) -> str:
    name = part.class_name if part.kind == "data" else part.name
    return f"  {name}({', '.join(map(str, part.options))})\n      {plain(part.summary)}"


def help_of(key: str, name: str | None, plugins: list[str]) -> str:
    """The help that ``--model.norm.help pair`` prints: docstring, and options with type, default and meaning.

    Raises:
        UsageError: There is no such part, or a plugin does not load.
    """
    kind = SECTIONS[key]
    if name is None:
        return listing([kind], plugins)
    part = _find(kind, name, plugins)
    about, _, _ = plain(part.doc).partition("\nArgs:")
    meaning = {
        parameter.arg_name: plain(parameter.description or "") for parameter in docstring_parser.parse(part.doc).params
    }
    rows = [f"  --{key}.{option}\n      {' '.join(meaning.get(option.name, '').split())}" for option in part.options]
    return "\n".join([f"{kind} {part.name} ({part.path})", "", about.strip(), "", *rows]).rstrip()


def _find(kind: str, name: str, plugins: list[str]) -> Part:
    """A part by its name, class name or import path."""
    known = catalogue(plugins)[kind]
    for part in known.values():
        if name in (part.name, part.class_name, part.path):
            return part
    if "." not in name:
        raise UsageError(registry.unknown(kind, name, known, also=[part.class_name for part in known.values()]))
    load_plugins(plugins)  # a class that is not registered
    try:
        cls = load_class(class_path(kind, name))
    except registry.RegistryError as error:
        raise UsageError(str(error)) from None
    return describe(kind, short_name(cls), cls)
