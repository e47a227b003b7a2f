"""What there is to say of a registered class: its name, place, docstring and options, all as text."""

import inspect
import types
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from gnn_depth import registry
from gnn_depth.short_names import options


class Option(NamedTuple):
    """An option of a part; type and default as text, None where there is none."""

    name: str
    type: str | None
    default: str | None

    def __str__(self) -> str:
        typed = f": {self.type}" if self.type is not None else ""
        return self.name + typed + (f" = {self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class Part:
    """A registered class: what it is called, where it is, its docstring and its options."""

    kind: str
    name: str
    path: str
    doc: str
    options: tuple[Option, ...]

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]


def part_of(kind: str, name: str, cls: type) -> Part:
    """What there is to say of a class."""
    told = (Option(p.name, _typed(p), _defaulted(p)) for p in options(kind, cls).values())
    return Part(kind, name, registry.import_path(cls), inspect.getdoc(cls) or "", tuple(told))


def _typed(parameter: inspect.Parameter) -> str | None:
    return None if parameter.annotation is parameter.empty else type_name(parameter.annotation)


def _defaulted(parameter: inspect.Parameter) -> str | None:
    default = parameter.default
    if default is parameter.empty:
        return None
    return default.__name__ if isinstance(default, type) else str(default)


def type_name(annotation: Any) -> str:
    """``float | None`` of a type: without modules, and literals by their values."""
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
