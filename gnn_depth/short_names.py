"""Short names of parts in configs: ``norm: {name: pair, scale: 2}`` in place of ``class_path`` and
``init_args``.

Names are looked up in descriptions of classes (:class:`Part`): cached ones are enough to find a
misspelt name.
"""

import importlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from gnn_depth import registry
from gnn_depth.ranges import Range, ranges_of
from gnn_depth.registry import RegistryError, described

# Leading arguments that the stack passes to every layer, norm or skip (channels, heads), and torch
# to optimizers and schedules (parameters, the optimizer): they are not options.
GIVEN = {"layer": 2, "norm": 1, "init": 0, "skip": 2, "graph_dropout": 0, "task": 1, "data": 0}
GIVEN |= {"optimizer": 1, "scheduler": 1, "callback": 0, "logger": 0}
LISTS = ("norm", "callback")  # one of them stands for a list of one
GROUPS = ("model", "trainer", "run")  # sections of plain keys; `data` is a part itself
SECTIONS = {
    **{f"model.{kind}": kind for kind in GIVEN if kind not in ("data", "callback", "logger")},
    "trainer.callbacks": "callback",
    "trainer.logger": "logger",
    "data": "data",
}
# Base classes of the kinds that other libraries define, and the modules whose classes have short
# names.
LIBRARIES = {
    "optimizer": ("torch.optim.Optimizer", ("torch.optim",)),
    # Lightning's ReduceLROnPlateau comes first: it takes the metric to watch, torch's does not.
    "scheduler": (
        "torch.optim.lr_scheduler.LRScheduler",
        ("lightning.pytorch.cli", "torch.optim.lr_scheduler"),
    ),
    "callback": (
        "lightning.pytorch.callbacks.Callback",
        ("lightning.pytorch.callbacks", "gnn_depth.diagnostics"),
    ),
    "logger": ("lightning.pytorch.loggers.Logger", ("lightning.pytorch.loggers",)),
}
PLAIN = (bool, int, float, str, list)
Where: TypeAlias = tuple[str | int, ...]


class PartError(RegistryError):
    """A part that does not exist, or an option that it does not have.

    Attributes:
        where: Keys and positions that lead to it in the config.
    """

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


# Classes as text


@dataclass(frozen=True)
class Option:
    """An option of a part, or of a command."""

    name: str  # what configs call it
    type: str = ""  # as text; empty if it has none
    range: Range | None = None  # of its numbers
    default: Any = None  # as a config writes it; of other objects the text
    is_required: bool = False
    is_plain: bool = True  # a config can write its default
    choices: list[str] = field(default_factory=list)  # values that its type names: paper, released
    kind: str | None = None  # of the part that it takes
    about: str = ""
    nargs: int | str | None = None  # as argparse has it

    def __str__(self) -> str:
        type = f": {self.type}{f' ({self.range})' if self.range else ''}" if self.type else ""
        return f"{self.name}{type}{'' if self.is_required else f' = {self.default}'}"


@dataclass(frozen=True)
class Part:
    """A class that a config can name."""

    kind: str  # layer, norm and so on
    name: str  # its registered name; the class name of one that is not registered
    path: str  # its import path
    doc: str = ""
    options: dict[str, Option] = field(default_factory=dict)  # what a config may set, by name
    takes_any: bool = False  # its constructor takes further arguments
    refusal: str = ""  # why it cannot be used
    graphs: list[str] = field(default_factory=list)  # names of a data set's graphs

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def shown(self) -> str:
        """Its name as users see it: of a data set the class name."""
        return self.class_name if self.kind == "data" else self.name

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults that a config can write."""
        return {name: option.default for name, option in self.options.items() if option.is_plain}


@cache
def describe(kind: str, name: str, cls: type, path: str | None = None) -> Part:
    """A class as text."""
    named = [
        p
        for p in inspect.signature(cls).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    missing, ranges = sorted(getattr(cls, "__abstractmethods__", ())), ranges_of(cls.__init__)
    return Part(
        kind,
        name,
        path or registry.import_path(cls),
        inspect.cleandoc(
            cls.__doc__
            or getattr(vars(cls).get("__init__"), "__doc__", None)
            or inspect.getdoc(cls)
            or ""
        ),
        {
            parameter.name: _option(cls, parameter, ranges.get(parameter.name))
            for parameter in named[GIVEN[kind] :]
        },
        takes_any=any(p.kind is p.VAR_KEYWORD for p in inspect.signature(cls).parameters.values()),
        refusal=f"{described(cls)} has no {', '.join(missing)}." if missing else "",
        graphs=list(getattr(cls, "names", ())),
    )


def _option(cls: type, parameter: inspect.Parameter, range: Range | None) -> Option:
    annotation, default = parameter.annotation, parameter.default
    default = (
        list(default)
        if isinstance(default, tuple)
        else default.value
        if isinstance(default, Enum)
        else default
    )
    is_required = default is parameter.empty
    is_plain = default is None or isinstance(default, PLAIN)
    return Option(
        parameter.name,
        type="" if annotation is parameter.empty else type_name(annotation),
        range=range,
        default=default
        if is_plain
        else None
        if is_required
        else getattr(default, "__name__", str(default)),
        is_required=is_required,
        is_plain=is_plain,
        choices=list(choices(annotation)),
        kind=argument_kind(cls, parameter.name),
    )


def type_name(annotation: Any) -> str:
    """A type as text, without modules, and literals by their values: ``float | None``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if annotation in (None, type(None)):
        return "None"
    if isinstance(annotation, list):  # the arguments of a Callable
        return f"[{', '.join(map(type_name, annotation))}]"
    if origin is None:
        return (
            annotation.__name__
            if isinstance(annotation, type)
            else str(annotation).rpartition(".")[2]
        )
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


def argument_kind(cls: type, argument: str) -> str | None:
    """The kind of part that an argument expects, such as ``base`` in ``Balanced(base: Init)``;
    usually None."""
    try:
        annotation = get_type_hints(cls.__init__).get(argument)
    except (NameError, TypeError):
        return None
    for base in _classes(annotation):
        # A base that parts of several kinds share, like torch's Module, does not decide.
        kinds = [
            k
            for k in registry.KINDS
            if any(issubclass(c, base) for c in registry.registered(k).values())
        ]
        if len(kinds) == 1:
            return kinds[0]
    return None


def _classes(annotation: Any) -> Iterator[type]:
    """The classes in an annotation: Norm for ``list[Callable[[int], Norm]]``."""
    if isinstance(annotation, list):
        return
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes(argument)


def registered_parts() -> dict[str, dict[str, Part]]:
    """Every registered part, by kind and name."""
    return {
        kind: {name: describe(kind, name, cls) for name, cls in registry.registered(kind).items()}
        for kind in registry.KINDS
    }


def imported_parts() -> dict[str, dict[str, Part]]:
    """Every class that has a short name: registered ones, and those of torch and Lightning, which
    are imported here."""
    found = registered_parts()
    for kind, (base, modules) in LIBRARIES.items():
        found[kind] = {}
        for path, cls in _library(load_class(base), modules):
            found[kind].setdefault(cls.__name__, describe(kind, cls.__name__, cls, path))
    return found


def _library(base: type, modules: tuple[str, ...]) -> Iterator[tuple[str, type]]:
    """The public classes below a base class that stand in these modules, and those that plugins
    have defined."""
    for module in modules:
        for name, cls in vars(importlib.import_module(module)).items():
            if (
                not isinstance(cls, type)
                or not issubclass(cls, base)
                or cls is base
                or inspect.isabstract(cls)
            ):
                continue
            if cls.__module__.startswith(module) and not name.startswith(
                ("_", "Base")
            ):  # defined here, and public
                yield f"{module}.{name}", cls
    libraries = {name.partition(".")[0] for _, modules in LIBRARIES.values() for name in modules}
    for own in _below(base):
        if own.__module__.partition(".")[0] not in libraries:
            yield registry.import_path(own), own


def _below(base: type) -> Iterator[type]:
    cls: type
    for cls in base.__subclasses__():
        yield cls
        yield from _below(cls)


def load_class(path: str) -> Any:
    """Import the object at an import path; None if there is none."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError, SystemExit):  # a module may end the process that imports it
        return None


# From short names to class paths


class Names:
    """Expands the short names of parts, given all known parts by kind and name.

    Its methods raise a PartError where a part or an option does not exist, with the near miss and
    the choices.
    """

    def __init__(self, parts: dict[str, dict[str, Part]]) -> None:
        self.parts = parts

    def find(self, kind: str, name: Any, where: Where = ()) -> Part:
        """A part by its name, class name or import path; a class that is not known is imported."""
        if not isinstance(name, str):
            raise PartError(f"the name of a {kind} must be text, not {name!r}.", where)
        known = self.parts[kind].values()
        part = self.parts[kind].get(name) or next((p for p in known if name == p.class_name), None)
        part = part or next((p for p in known if name == p.path and not p.refusal), None)
        if part is None and "." in name:
            part = self._import(kind, name, where)
        if part is None:
            also = [p.class_name for p in known]
            message = registry.unknown(kind, name, self.listed(kind), also) + registry.not_loaded()
            homes = {graph: p.class_name for p in known for graph in p.graphs}
            if graph := registry.nearest(name, homes):
                message += f" {graph} is a graph of {homes[graph]}: --data {homes[graph]} --data.name {graph}."
            elif kind in registry.KINDS and not registry.nearest(name, [*self.listed(kind), *also]):
                message += " A part of your own needs --plugins FILE."
            raise PartError(message, where)
        if part.refusal:
            raise PartError(part.refusal, where)
        return part

    def listed(self, kind: str) -> list[str]:
        """The names of a kind as users see them: class names of data sets."""
        return sorted(part.shown for part in self.parts[kind].values())

    def _import(self, kind: str, path: str, where: Where) -> Part:
        cls = load_class(path)
        if cls is None:
            module, _, name = path.rpartition(".")
            known = (part.path for part in self.parts[kind].values())
            near = [p for p in known if p.startswith(f"{module}.") or p.endswith(f".{name}")]
            hint = registry.hint(path, near) or " If it is in a plugin, add --plugins FILE."
            raise PartError(
                f"{kind} {path!r} cannot be imported.{hint}{registry.not_loaded()}", where
            )
        found = registry.name_of(cls)
        if not isinstance(cls, type) or (found and found[0] != kind):
            raise PartError(
                f"{path} is {f'a {found[0]}' if found else 'no class'}, not a {kind}.", where
            )
        return describe(kind, found[1] if found else cls.__name__, cls, path)

    def expand(self, kind: str, value: Any, where: Where = (), current: Any = None) -> Any:
        """Turn ``pair`` or ``{name: pair, scale: 2}`` into class path and arguments; one norm
        becomes a list of one.

        Options without a name change the expanded part that stands there already; ``where`` leads
        to it in the config.
        """
        if kind in ("scheduler", "task", "callback", "logger") and value in (
            None,
            True,
            False,
            "true",
            "false",
        ):
            return value
        if kind not in LISTS and not (kind == "logger" and isinstance(value, list)):
            return self.expand_one(kind, value, where, current=current)
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        return [
            self.expand_one(kind, x, where if i is None else (*where, i), in_list=True)
            for i, x in items
        ]

    def expand_one(
        self, kind: str, value: Any, where: Where = (), in_list: bool = False, current: Any = None
    ) -> Any:
        """Expand a single part, also of a kind that comes in lists; see :meth:`expand`."""
        if value is None:
            raise PartError(f"{kind} is null: name one of {', '.join(self.listed(kind))}.", where)
        if isinstance(value, str):
            return self._spec(kind, value, {}, where)
        if not isinstance(value, dict):
            raise PartError(f"{kind} must be given by name, not as {value!r}.", where)
        if "class_path" in value:
            for key in value:
                if key not in ("class_path", "init_args", "dict_kwargs"):
                    raise PartError(
                        f"{key!r} stands beside class_path; options go under init_args.",
                        (*where, key),
                    )
            rest = {"dict_kwargs": value["dict_kwargs"]} if "dict_kwargs" in value else {}
            return (
                self._spec(
                    kind, value["class_path"], value.get("init_args") or {}, (*where, "init_args")
                )
                | rest
            )
        if "name" in value and kind != "data":
            return self._spec(
                kind, value["name"], {k: v for k, v in value.items() if k != "name"}, where
            )
        if in_list:
            example = "".join(f", {key}: {item}" for key, item in value.items())
            raise PartError(f"a {kind} needs its name: {{name: NAME{example}}}.", where)
        if not isinstance(current, dict) or "class_path" not in current:
            return value
        given = value["init_args"] if list(value) == ["init_args"] else value
        return {
            **current,
            **self._spec(kind, current["class_path"], given, where, current.get("init_args") or {}),
        }

    def _spec(
        self, kind: str, name: Any, given: Any, where: Where, current: dict | None = None
    ) -> dict[str, Any]:
        """Class path and arguments, with the parts among the arguments expanded."""
        part = self.find(
            kind, name, (*where[:-1], "class_path") if where[-1:] == ("init_args",) else where
        )
        if not isinstance(given, dict):
            return {
                "class_path": part.path,
                "init_args": given,
            }  # the parser explains what is wrong with it
        # Naming a part starts from its own defaults: the parser alone would pass on options of the
        # part before it.
        arguments = part.defaults | (current or {})
        if "monitor" in part.options and "mode" not in (current or {}):
            # The mode follows from what is watched, where none is written.
            arguments.pop("mode", None)
        for key, value in given.items():
            if key not in part.options and not part.takes_any:
                choices = (
                    f"Accepted: {', '.join(part.options)}." if part.options else "It has none."
                )
                near = registry.hint(key, part.options)
                raise PartError(
                    f"{kind} {part.name!r} has no option {key!r}.{near} {choices}", (*where, key)
                )

            inner = part.options[key].kind if key in part.options else None
            if isinstance(value, list) and inner:
                value = [self.expand_one(inner, item, (*where, key)) for item in value]
            elif value is not None and inner:
                value = self.expand_one(inner, value, (*where, key), current=arguments.get(key))
            arguments[key] = _listed(part.options[key], value) if key in part.options else value
        return {"class_path": part.path, "init_args": arguments}


def _listed(option: Option, value: Any) -> Any:
    """A value; a word or number becomes a list of one where only a list fits."""
    types = option.type.split(" | ")
    only_lists = any(one.startswith("list[") for one in types) and not {"str", "int", "float"} & {
        *types
    }
    return (
        [value]
        if only_lists and not option.kind and isinstance(value, str | int | float)
        else value
    )


# From class paths to short names


def contract(kind: str, value: Any) -> Any:
    """Turn class path and arguments into ``{name: pair, scale: 2}``, or ``pair`` alone without
    arguments.

    A class that is not registered keeps its path. Data sets keep ``class_path`` and ``init_args``,
    since ``name`` is an argument of theirs, and are called by their class name.
    """
    if isinstance(value, list):
        return [contract(kind, item) for item in value]
    if not isinstance(value, dict) or "class_path" not in value:
        return value
    cls = load_class(value["class_path"])
    if not isinstance(cls, type):
        return value
    arguments = {
        key: contract(inner, item) if (inner := argument_kind(cls, key)) else item
        for key, item in value.get("init_args", {}).items()
    }
    rest = {key: item for key, item in value.items() if key not in ("class_path", "init_args")}
    found = registry.name_of(cls)
    if found is None or found[0] != kind or kind == "data" or rest or "name" in arguments:
        path = cls.__name__ if found and kind == "data" else value["class_path"]
        return {"class_path": path, **({"init_args": arguments} if arguments else {}), **rest}
    return {"name": found[1], **arguments} if arguments else found[1]
