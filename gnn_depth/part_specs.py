"""Classes as text: every part that a config can name, with its options.

The text is enough to find a misspelt name, so :mod:`gnn_depth.cli.catalogue` keeps it on disk.
"""

import importlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import docstring_parser

from gnn_depth import registry
from gnn_depth.ranges import PathMarker, Range, first_inside, hints_of, inside
from gnn_depth.registry import as_written

# Leading arguments that the stack passes to every layer, norm or skip (channels, heads), and torch
# to optimizers and schedules (parameters, the optimizer): they are not options.
GIVEN = {
    "layer": 2,
    "norm": 1,
    "init": 0,
    "skip": 2,
    "graph_dropout": 0,
    "task": 1,
    "data": 0,
    "optimizer": 1,
    "scheduler": 1,
    "callback": 0,
    "logger": 0,
    "transform": 0,
    "module": 0,  # a LightningModule of the user's
}
NOT_OF_MODEL = ("data", "callback", "logger", "transform", "module")
GROUPS = ("model", "trainer", "run")  # sections of plain keys; `data` is a part itself
SECTIONS = {
    **{f"model.{kind}": kind for kind in GIVEN if kind not in NOT_OF_MODEL},
    "trainer.callbacks": "callback",
    "trainer.logger": "logger",
    "data": "data",
    "data.transforms": "transform",
    "model": "module",
}
SECTION_OF = {kind: section for section, kind in SECTIONS.items()}
# Options of the model that the data set determines, and the attributes of a data set that they are.
GIVEN_BY_DATA = {
    "in_channels": "num_features",
    "num_classes": "num_classes",
    "default_task": "task",
    "edge_channels": "num_edge_features",
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
    "transform": ("torch_geometric.transforms.BaseTransform", ("torch_geometric.transforms",)),
}
#: The rooms that register the built-in parts of other kinds than those of networks.
ROOMS = {"data": "gnn_depth.data", "transform": "gnn_depth.data", "task": "gnn_depth.training"}
OTHERS = ("torch.", "lightning.", "torch_geometric.")  # modules of other libraries
#: Plain values that are not made of others.
SCALAR = bool | int | float | str | None
#: Types whose values a config writes as they are, in words.
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "None": "null",
}
Where: TypeAlias = tuple[str | int, ...]  # keys and positions that lead to a value in a config


@dataclass(frozen=True)
class PartsOf:
    """Mark an argument that takes parts of another library: ``Annotated[Any, PartsOf("...")]``."""

    kind: str


@dataclass(frozen=True)
class Option:
    """An option of a part, or of a command."""

    name: str  # what configs call it
    type: str = ""  # as text; empty if it has none
    range: Range | None = None  # of its numbers
    default: Any = None  # as a config writes it; of other objects the text
    is_required: bool = False
    is_plain: bool = True  # a config can write its default
    # Values that its type names, by their text: paper, released.
    choices: dict[str, Any] = field(default_factory=dict)
    kind: str | None = None  # of the part that it takes
    is_path: bool = False  # it names a file or folder
    about: str = ""
    # The type itself; None in an option from the cache.
    annotation: Any = field(default=None, compare=False, repr=False)

    @property
    def types(self) -> list[str]:
        """The types of a union as text, without its literal values."""
        return [one for one in self.type.split(" | ") if one not in (*self.choices, "Tensor")]

    @property
    def has_plain_type(self) -> bool:
        """True if only numbers, words and null fit."""
        return bool(self.type) and set(self.types) <= set(TYPES)

    def __str__(self) -> str:
        text = self.name
        if self.type:
            text += f": {self.type}"
        if self.range:
            text += f" ({self.range})"
        if not self.is_required:
            text += f" = {self.default}"
        return text


@dataclass(frozen=True)
class PartSpec:
    """A class that a config can name."""

    kind: str  # layer, norm and so on
    name: str  # its registered name; the class name of one that is not registered
    path: str  # its import path
    doc: str = ""
    options: dict[str, Option] = field(default_factory=dict)  # what a config may set, by name
    takes_any: bool = False  # its constructor takes further arguments
    refusal: str = ""  # why it cannot be used
    # What its first option chooses from: the graphs of a data set, the convolutions of a library.
    names: list[str] = field(default_factory=list)
    runs_code: bool = False  # it may run code that its files or options hold
    # The class itself; None in a description from the cache.
    cls: Any = field(default=None, compare=False, repr=False)

    @property
    def class_name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def shown(self) -> str:
        """Its name as users see it: of a data set the class name."""
        if self.kind == "data":
            return self.class_name
        return self.name


#: The parts of a kind, by name.
Parts: TypeAlias = Callable[[str], Mapping[str, PartSpec]]


@cache
def describe(kind: str, cls: type, path: str | None = None) -> PartSpec:
    """Describe a class as text."""
    _, name = registry.name_of(cls) or (kind, cls.__name__)
    options, takes_any = options_of(cls, GIVEN[kind])
    names = list(getattr(cls, "names", ()))
    if "name" in options and names:  # of the graphs of a data set
        own = dict(zip(names, names, strict=True))
        options["name"] = replace(options["name"], type=" | ".join(names), choices=own)
    refusal = ""
    missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
    if missing:
        refusal = f"{registry.described(cls)} has no {missing}."
    # Such an argument would silently get the number of channels.
    for each in [*inspect.signature(cls).parameters.values()][: GIVEN[kind]]:
        if each.default is not each.empty and registry.name_of(cls):
            refusal = (
                f"{registry.described(cls)}: the model gives the first arguments of a constructor, "
                f"but {each.name} has a default."
            )
    # Compose and AddGPSE of PyTorch Geometric call what their options give.
    calls = any(re.search("Callable|Module", option.type) for option in options.values())
    # Some classes of other libraries are described in the docstring of their constructor.
    doc = cls.__doc__ or getattr(vars(cls).get("__init__"), "__doc__", None)
    if not doc and kind != "module":  # Lightning's own docstring says nothing of a user's module
        doc = inspect.getdoc(cls)
    return PartSpec(
        kind,
        name,
        path or registry.import_path(cls),
        doc=inspect.cleandoc(doc or ""),
        options=options,
        takes_any=takes_any,
        refusal=refusal,
        names=names,
        runs_code=getattr(cls, "runs_foreign_code", kind == "transform" and calls),
        cls=cls,
    )


def options_of(cls: type, num_given: int = 0) -> tuple[dict[str, Option], bool]:
    """The options of a class by name, and whether its constructor takes any others.

    A constructor that takes ``**kwargs`` passes them to the next class, whose options are then
    options too. The first ``num_given`` arguments are not options.
    """
    options: dict[str, Option] = {}
    given: set[str] = set()  # names of the leading arguments that are no options
    takes_any = False
    # Only a class that has a constructor decides what its bases still need.
    owners = [owner for owner in cls.__mro__[:-1] if "__init__" in vars(owner)]
    for owner in owners:
        init = vars(owner)["__init__"]
        hints, takes_any = hints_of(init), False
        about = meanings(owner.__doc__, init.__doc__, cls.__doc__)
        # A subclass in the same library gives what its base needs, and one of a user may.
        may_be_filled = owner is not owners[0] and owner.__module__.startswith(OTHERS)
        is_filled = may_be_filled and owners[0].__module__.startswith(OTHERS)
        for name, parameter in list(inspect.signature(init).parameters.items())[1:]:
            is_required = parameter.default is parameter.empty
            if parameter.kind is parameter.VAR_KEYWORD:
                takes_any = True
            elif parameter.kind is parameter.VAR_POSITIONAL or (is_filled and is_required):
                continue
            elif len(given) < num_given and parameter.kind is not parameter.KEYWORD_ONLY:
                given.add(name)
            elif name not in options and name not in given:
                annotation = hints.get(name, parameter.annotation)
                option = option_of(parameter, annotation, about.get(name, ""))
                if may_be_filled:
                    option = replace(option, is_required=False)
                options[name] = option
        # torch's Module accepts no further arguments, whatever its signature says.
        if not takes_any or owner.__qualname__ == "Module":
            return options, False
    return options, takes_any


def option_of(parameter: inspect.Parameter, annotation: Any, about: str = "") -> Option:
    """Describe a parameter as an option."""
    default = parameter.default
    kind = argument_kind(annotation)
    is_required = default is parameter.empty
    if kind is not None:
        cls = default if isinstance(default, type) else type(default)
        _, default = registry.name_of(cls) or (kind, default)
    if isinstance(default, tuple):  # YAML has none
        default = list(default)
    elif isinstance(default, Enum):
        default = default.value
    is_plain = isinstance(default, SCALAR | list | dict)
    if is_required:
        default = None
    elif not is_plain:
        default = getattr(default, "__name__", str(default))
    written = type_name(annotation)
    if annotation is parameter.empty:  # anything fits
        written, annotation = "", Any
    return Option(
        parameter.name,
        type=written,
        range=first_inside(annotation, Range),
        default=default,
        is_required=is_required,
        is_plain=is_plain,
        choices=choices(annotation),
        kind=kind,
        is_path=first_inside(annotation, PathMarker) is not None,
        about=about,
        annotation=annotation,
    )


def meanings(*docs: str | None) -> dict[str, str]:
    """Read the description of each argument from docstrings."""
    found = {}
    for doc in docs:
        for each in docstring_parser.parse(doc or "").params:
            found[each.arg_name] = " ".join((each.description or "").split())
    return found


def type_name(annotation: Any) -> str:
    """A type as text, without modules, and literals by their values: ``float | None``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(as_written, arguments))
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(each) for each in arguments if each is not Any)
    if annotation in (None, type(None)):
        return "None"
    if isinstance(annotation, list):  # the arguments of a Callable
        return f"[{', '.join(map(type_name, annotation))}]"
    if origin is not None:
        return f"{getattr(origin, '__name__', origin)}[{', '.join(map(type_name, arguments))}]"
    if isinstance(annotation, type):
        return annotation.__name__
    return str(annotation).rpartition(".")[2]


def items_of(value: Any) -> list[Any]:
    """The items of a list, or the value alone."""
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def choices(annotation: Any) -> dict[str, Any]:
    """The values that a type names, by their text; of 32 and "32" the first."""
    found: dict[str, Any] = {}
    for each in inside(annotation):
        named: tuple[Any, ...] = ()
        if each is bool:
            named = (True, False)
        elif get_origin(each) is Literal:
            named = get_args(each)
        for value in named:
            found.setdefault(as_written(value), value)
    return found


def argument_kind(annotation: Any) -> str | None:
    """The kind of part that an argument of this type takes: init for ``base: Init``; or None."""
    marker = first_inside(annotation, PartsOf)
    if marker is not None:
        return marker.kind
    for base in inside(annotation):  # Norm for ``list[Callable[[int], Norm]]``
        if not isinstance(base, type) or get_args(base):
            continue
        # A base that parts of several kinds share, like torch's Module, does not decide.
        kinds = []
        for kind in registry.KINDS:
            if any(issubclass(cls, base) for cls in registry.registered(kind).values()):
                kinds.append(kind)
        if len(kinds) == 1:
            return kinds[0]
    return None


def parts_of(kind: str) -> dict[str, PartSpec]:
    """Every class of a kind that has a short name, by name: registered ones, and those of torch and
    Lightning. The rooms that define them are imported here."""
    found: dict[str, PartSpec] = {}
    if kind in registry.KINDS:
        importlib.import_module(ROOMS.get(kind, "gnn_depth.nn"))
        for name, cls in registry.registered(kind).items():
            found[name] = describe(kind, cls)
    if kind not in LIBRARIES:
        return found
    # Of a registered class and one of a library with the same class name, the first counts.
    taken = {part.class_name for part in found.values()}
    base, modules = LIBRARIES[kind]
    for path, cls in _library(load_class(base), modules):
        if cls.__name__ not in taken:
            found.setdefault(cls.__name__, describe(kind, cls, path))
    return found


def _library(base: type, modules: Iterable[str]) -> Iterator[tuple[str, type]]:
    """The public classes below a base class that stand in these modules, and those that plugins
    have defined."""
    for module in modules:
        for name, cls in vars(importlib.import_module(module)).items():
            is_part = isinstance(cls, type) and issubclass(cls, base) and cls is not base
            if not is_part or inspect.isabstract(cls) or name.startswith(("_", "Base")):
                continue
            if cls.__module__.startswith(module):  # defined here
                yield f"{module}.{name}", cls
    below: list[type] = base.__subclasses__()
    for own in below:
        below += own.__subclasses__()  # the loop comes to them too
        # A class that was defined again, as in a notebook, leaves its old one behind.
        current = getattr(sys.modules.get(own.__module__), own.__name__, None)
        if current is own and not own.__module__.startswith((*OTHERS, "gnn_depth.")):
            yield registry.import_path(own), own


def load_class(path: str) -> Any:
    """Import the object at an import path; None if there is none."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError, SystemExit) as error:  # a module may end the process
        # What the module itself lacks is another matter than a module that does not exist.
        if isinstance(error, ImportError) and not module.startswith(str(error.name)):
            raise
        return None
