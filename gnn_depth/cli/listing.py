"""``gnn-depth list``: the registered parts."""

import inspect
from typing import Any, Literal, get_args, get_origin

import docstring_parser

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (importing the two registers every built-in part)
from gnn_depth import registry
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.sections import SECTIONS
from gnn_depth.short_names import class_path, load_class, options, short_name


def listing(kinds: list[str]) -> str:
    """Every part of these kinds, or of all kinds: name, options with types and defaults, what it is.

    Raises:
        UsageError: There is no such kind.
    """
    for kind in kinds:
        if kind not in registry.KINDS:
            raise UsageError(registry.unknown("kind", kind, registry.KINDS))
    return "\n\n".join(_section(kind) for kind in kinds or registry.KINDS)


def _section(kind: str) -> str:
    rows = [kind]
    for name, cls in registry.registered(kind).items():
        shown = cls.__name__ if kind == "data" else name
        rows.append(f"  {shown}({', '.join(map(_option, options(kind, cls).values()))})")
        rows.append(f"      {registry.summary(cls)}")
    return "\n".join(rows)


def help_of(key: str, name: str | None) -> str:
    """What ``--model.norm.help pair`` shows: the part, and its options with type, default and meaning.

    Raises:
        UsageError: There is no such part.
    """
    kind = SECTIONS[key]
    if name is None:
        return listing([kind])
    try:
        cls = load_class(class_path(kind, name))
    except registry.RegistryError as error:
        raise UsageError(str(error)) from None
    text = inspect.getdoc(cls) or ""
    about, _, _ = text.partition("\nArgs:")
    meaning = {parameter.arg_name: parameter.description or "" for parameter in docstring_parser.parse(text).params}
    rows = [
        f"  --{key}.{_option(option)}\n      {' '.join(meaning.get(option.name, '').split())}"
        for option in options(kind, cls).values()
    ]
    return "\n".join([f"{kind} {short_name(cls)} ({registry.import_path(cls)})", "", about.strip(), "", *rows]).rstrip()


def _option(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = parameter.default
        text += f" = {default.__name__ if isinstance(default, type) else default}"
    return text


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").rpartition(".")[2] if "." in str(annotation) else str(annotation)
