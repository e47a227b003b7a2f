"""Short names for parts: ``norm: {name: pair, scale: 2}`` where the parser wants ``class_path`` and ``init_args``.

Types, help and printing are the parser's, with one exception: to name a part is to start from its own defaults,
so these are written out. The parser alone would hand options on from the part that stood there before: ``scale``
of ``pair`` to ``lipschitz``.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, get_args, get_type_hints

from gnn_depth import registry
from gnn_depth.registry import RegistryError

# Leading arguments that the stack gives, once per layer (channels, heads): they are no options.
GIVEN_BY_STACK = {"layer": 2, "norm": 1, "init": 0, "skip": 2, "graph_dropout": 0, "data": 0}
LISTS = ("norm",)
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
    """What a config may say of a part: its constructor's arguments without those that the stack gives."""
    return parameters(cls, GIVEN_BY_STACK[kind])


def parameters(cls: type, given: int) -> dict[str, inspect.Parameter]:
    """The named arguments of a constructor after the first ones."""
    named = [p for p in inspect.signature(cls).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {parameter.name: parameter for parameter in named[given:]}


def expand(kind: str, value: Any, where: Where = ()) -> Any:
    """``pair`` or ``{name: pair, scale: 2}`` to class path and arguments; one norm becomes a list of one.

    Raises:
        PartError: No such part, or no such option; the message has the near miss and the choices.
    """
    if kind not in LISTS:
        return expand_one(kind, value, where)
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    return [expand_one(kind, item, where if i is None else (*where, i), in_list=True) for i, item in items]


def expand_one(kind: str, value: Any, where: Where = (), in_list: bool = False) -> Any:
    """The same for one part of a kind that comes in lists."""
    if value is None:
        raise PartError(f"{kind} is null: name one of {', '.join(registry.registered(kind))}.", where)
    if isinstance(value, str):
        return _spec(kind, value, {}, where)
    if not isinstance(value, dict):
        raise PartError(f"{kind} is given by name, not as {value!r}.", where)
    if "class_path" in value:
        check_keys(value, where)
        rest = {"dict_kwargs": value["dict_kwargs"]} if "dict_kwargs" in value else {}
        return _spec(kind, value["class_path"], value.get("init_args") or {}, where, "init_args") | rest
    if "name" in value and kind != "data":
        return _spec(kind, value["name"], {k: v for k, v in value.items() if k != "name"}, where)
    if in_list:
        example = "".join(f", {key}: {item}" for key, item in value.items())
        raise PartError(f"a {kind} needs its name: {{name: NAME{example}}}.", where)
    return value  # options of the part that is named elsewhere


def check_keys(spec: dict[str, Any], where: Where) -> None:
    """Refuse options beside ``class_path``, where the parser passes over them.

    Raises:
        PartError: There is one.
    """
    for key in spec:
        if key not in ("class_path", "init_args", "dict_kwargs"):
            raise PartError(f"{key!r} stands beside class_path; options go under init_args.", (*where, key))


def _spec(kind: str, name: Any, arguments: Any, where: Where, *below: str) -> dict[str, Any]:
    """Class path and all arguments, with the parts among them expanded."""
    path = class_path(kind, name, where)
    cls = load_class(path)
    if not isinstance(cls, type) or not isinstance(arguments, dict):
        return {"class_path": path, "init_args": arguments}  # the parser says what is wrong with it
    if inspect.isabstract(cls):
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        raise PartError(f"{kind} {name!r} has no {', '.join(missing)}.", where)
    where, accepted = (*where, *below), options(kind, cls)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(cls).parameters.values())
    for key in arguments:
        if key not in accepted and not takes_any:
            raise PartError(no_option(kind, cls, key), (*where, key))
    parts = {
        key: _each(value, lambda item, inner=inner, key=key: expand_one(inner, item, (*where, key)))
        for key, value in arguments.items()
        if value is not None and (inner := argument_kind(cls, key))
    }
    return {"class_path": path, "init_args": defaults(accepted) | arguments | parts}


def class_path(kind: str, name: Any, where: Where = ()) -> str:
    """The import path of a part; a name with a dot is one already.

    Raises:
        PartError: No such part.
    """
    if not isinstance(name, str):
        raise PartError(f"the name of a {kind} is text, not {name!r}.", where)
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
    """The data set that has a graph of this name; nothing where none does."""
    homes = {graph: cls for cls in registry.registered(kind).values() for graph in getattr(cls, "names", ())}
    graph = registry.nearest(name, homes)
    home = homes[graph].__name__ if graph else ""
    return f" {graph} is a graph of {home}: take {home}, with the option name {graph}." if graph else ""


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change a part, or each of a list of parts."""
    return [change(item) for item in value] if isinstance(value, list) else change(value)


def defaults(accepted: dict[str, inspect.Parameter]) -> dict[str, Any]:
    """The defaults that a config can write; null, which the parser takes for missing, where there is none."""
    found = {key: None if p.default is p.empty else p.default for key, p in accepted.items()}
    found = {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}
    return {key: value for key, value in found.items() if value is None or isinstance(value, PLAIN)}


def no_option(kind: str, cls: type, option: str) -> str:
    """The sentence that answers an option which a part does not have."""
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
    """What an import path leads to, or None where it leads nowhere."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError):
        return None


def argument_kind(cls: type, argument: str) -> str | None:
    """The kind of part that an argument of a part takes, as ``base`` in ``Balanced(base: Init)``; mostly None."""
    try:
        annotation = get_type_hints(cls.__init__).get(argument)
    except (NameError, TypeError):
        return None
    for base in _classes(annotation):
        # A base of the parts of several kinds, like torch's Module, tells nothing.
        kinds = [k for k in registry.KINDS if any(issubclass(c, base) for c in registry.registered(k).values())]
        if len(kinds) == 1:
            return kinds[0]
    return None


def _classes(annotation: Any) -> Iterator[type]:
    """The classes that an annotation is made of: Norm for ``list[Callable[[int], Norm]]``."""
    if isinstance(annotation, list):
        return
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes(argument)


def contract(kind: str, value: Any) -> Any:
    """Class path and arguments to ``{name: pair, scale: 2}``, or ``pair`` alone where there is no option to say.

    A class that is not registered keeps its path. Data sets keep ``class_path`` and ``init_args``, since
    ``name`` is an argument of theirs, and are called by their class name.
    """
    if isinstance(value, list):
        return _each(value, lambda item: contract(kind, item))
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
