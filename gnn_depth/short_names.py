"""Short names of parts in configs: ``norm: {name: pair, scale: 2}`` in place of ``class_path`` and ``init_args``."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, TypeAlias, get_args, get_type_hints

from gnn_depth import registry
from gnn_depth.registry import RegistryError, described

# Leading arguments that the stack passes to every layer, norm or skip (channels, heads): they are not options.
GIVEN_BY_STACK = {"layer": 2, "norm": 1, "init": 0, "skip": 2, "graph_dropout": 0, "data": 0}
LISTS = ("norm",)
GROUPS = ("model", "trainer", "run")  # sections of plain keys; `data` is a part itself
SECTIONS = {f"model.{kind}": kind for kind in GIVEN_BY_STACK if kind != "data"} | {"data": "data"}
# Where classes of other libraries are looked up by name alone.
LIBRARIES = {
    # Lightning's ReduceLROnPlateau comes first: it takes the metric to watch, torch's does not.
    "scheduler": ("lightning.pytorch.cli", "torch.optim.lr_scheduler"),
    "optimizer": ("torch.optim",),
}
PLAIN = (bool, int, float, str, list)
Where: TypeAlias = tuple[str | int, ...]


class PartError(RegistryError):
    """A part that does not exist, or an option that it does not have.

    Attributes:
        where: Keys and positions that lead to it in the config.
    """

    def __init__(self, message: str, where: Where) -> None:
        super().__init__(message)
        self.where = where


def options(kind: str, cls: type) -> dict[str, inspect.Parameter]:
    """The options of a part: its constructor's arguments without those that the stack passes."""
    return parameters(cls, GIVEN_BY_STACK[kind])


def parameters(cls: type, given: int) -> dict[str, inspect.Parameter]:
    """The named arguments of a constructor after the first ``given`` ones."""
    named = [p for p in inspect.signature(cls).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {parameter.name: parameter for parameter in named[given:]}


def expand(kind: str, value: Any, where: Where = (), current: Any = None) -> Any:
    """Turn ``pair`` or ``{name: pair, scale: 2}`` into class path and arguments; one norm becomes a list of one.

    Args:
        kind: Kind of part.
        value: The part as a config writes it.
        where: Keys that lead to it in the config, for errors.
        current: The expanded part that stands there already: options without a name change it.

    Raises:
        PartError: The part or an option does not exist; the message has the near miss and the choices.
    """
    if kind not in LISTS:
        return expand_one(kind, value, where, current=current)
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    return [expand_one(kind, item, where if i is None else (*where, i), in_list=True) for i, item in items]


def expand_one(kind: str, value: Any, where: Where = (), in_list: bool = False, current: Any = None) -> Any:
    """Expand a single part, also of a kind that comes in lists; see :func:`expand`."""
    if value is None:
        raise PartError(f"{kind} is null: name one of {', '.join(registry.registered(kind))}.", where)
    if isinstance(value, str):
        return _spec(kind, value, {}, where)
    if not isinstance(value, dict):
        raise PartError(f"{kind} must be given by name, not as {value!r}.", where)
    if "class_path" in value:
        check_keys(value, where)
        rest = {"dict_kwargs": value["dict_kwargs"]} if "dict_kwargs" in value else {}
        return _spec(kind, value["class_path"], value.get("init_args") or {}, (*where, "init_args")) | rest
    if "name" in value and kind != "data":
        return _spec(kind, value["name"], {k: v for k, v in value.items() if k != "name"}, where)
    if in_list:
        example = "".join(f", {key}: {item}" for key, item in value.items())
        raise PartError(f"a {kind} needs its name: {{name: NAME{example}}}.", where)
    if not isinstance(current, dict) or "class_path" not in current:
        return value
    given = value["init_args"] if list(value) == ["init_args"] else value
    return {**current, **_spec(kind, current["class_path"], given, where, current.get("init_args") or {})}


def check_keys(spec: dict[str, Any], where: Where) -> None:
    """Refuse options next to ``class_path``, because the parser would ignore them.

    Raises:
        PartError: There is one.
    """
    for key in spec:
        if key not in ("class_path", "init_args", "dict_kwargs"):
            raise PartError(f"{key!r} stands beside class_path; options go under init_args.", (*where, key))


def _spec(kind: str, name: Any, given: Any, where: Where, current: dict[str, Any] | None = None) -> dict[str, Any]:
    """Class path and arguments, with the parts among the arguments expanded."""
    place = where[:-1] if where[-1:] == ("init_args",) else where
    path = class_path(kind, name, place)
    cls = load_class(path)
    if not isinstance(cls, type) or not isinstance(given, dict):
        return {"class_path": path, "init_args": given}  # the parser explains what is wrong with it
    if inspect.isabstract(cls):
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        raise PartError(f"{described(cls)} has no {', '.join(missing)}.", place)
    accepted = options(kind, cls)
    # Naming a part starts from its own defaults: the parser alone would pass on options of the part that stood there.
    arguments = defaults(accepted) | (current or {})
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(cls).parameters.values())
    for key, value in given.items():
        if key not in accepted and not takes_any:
            raise PartError(no_option(kind, cls, key), (*where, key))
        if value is not None and (inner := argument_kind(cls, key)):
            there = arguments.get(key)
            if isinstance(value, list):
                value = [expand_one(inner, item, (*where, key)) for item in value]
            else:
                value = expand_one(inner, value, (*where, key), current=there)
        arguments[key] = value
    return {"class_path": path, "init_args": arguments}


def class_path(kind: str, name: Any, where: Where = ()) -> str:
    """The import path of a part; a name with a dot is one already.

    Raises:
        PartError: The part does not exist.
    """
    if not isinstance(name, str):
        raise PartError(f"the name of a {kind} must be text, not {name!r}.", where)
    if "." in name:
        if load_class(name) is None:
            raise PartError(
                f"{kind} {name!r} cannot be imported; if it is in a plugin, add --plugins FILE.{registry.not_loaded()}",
                where,
            )
        return name
    try:
        return registry.import_path(registry.get(kind, name))
    except RegistryError as error:
        raise PartError(f"{error}{_name_of_a_graph(kind, name)}", where) from None


def _name_of_a_graph(kind: str, name: str) -> str:
    """A hint naming the data set that has a graph of this name, or an empty string."""
    homes = {graph: cls for cls in registry.registered(kind).values() for graph in getattr(cls, "names", ())}
    graph = registry.nearest(name, homes)
    home = homes[graph].__name__ if graph else ""
    return f" {graph} is a graph of {home}: use {home}, with the option name {graph}." if graph else ""


def defaults(accepted: dict[str, inspect.Parameter]) -> dict[str, Any]:
    """The default values that can be written in a config."""
    found = {key: p.default for key, p in accepted.items() if p.default is not p.empty}
    found = {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}
    return {key: value for key, value in found.items() if value is None or isinstance(value, PLAIN)}


def no_option(kind: str, cls: type, option: str) -> str:
    """The error message for an option that a part does not have."""
    accepted = list(options(kind, cls))
    near = registry.nearest(option, accepted)
    hint = f" Did you mean {near!r}?" if near else ""
    choices = f"Accepted: {', '.join(accepted)}." if accepted else "It has none."
    return f"{kind} {short_name(cls)!r} has no option {option!r}.{hint} {choices}"


def short_name(cls: type) -> str:
    """The name that a class is registered under, or its class name."""
    found = registry.name_of(cls)
    return found[1] if found else cls.__name__


def load_class(path: str) -> Any:
    """Import the object at an import path; None if there is none."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError):
        return None


def argument_kind(cls: type, argument: str) -> str | None:
    """The kind of part that an argument expects, such as ``base`` in ``Balanced(base: Init)``; usually None."""
    try:
        annotation = get_type_hints(cls.__init__).get(argument)
    except (NameError, TypeError):
        return None
    for base in _classes(annotation):
        # A base that parts of several kinds share, like torch's Module, does not decide.
        kinds = [k for k in registry.KINDS if any(issubclass(c, base) for c in registry.registered(k).values())]
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


def contract(kind: str, value: Any) -> Any:
    """Turn class path and arguments into ``{name: pair, scale: 2}``, or ``pair`` alone without arguments.

    A class that is not registered keeps its path. Data sets keep ``class_path`` and ``init_args``, since
    ``name`` is an argument of theirs, and are called by their class name.
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
