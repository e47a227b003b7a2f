"""Explain why the parser refuses a config: find the first value that does not fit its type.

jsonargparse decides what fits. Its messages speak of types and import paths, so this looks for the value that it
refuses, by asking it about one option after another, and says what is accepted there.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from jsonargparse import ArgumentError, ArgumentParser

from gnn_depth.registry import name_of, nearest
from gnn_depth.short_names import (
    GIVEN_BY_STACK,
    GROUPS,
    LIBRARIES,
    SECTIONS,
    argument_kind,
    load_class,
    no_option,
    options,
    parameters,
)

TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}
PLAIN = {list: "a list", dict: "keys with values"}


@dataclass(frozen=True)
class Reason:
    """A message, with the dotted key and the text of the value concerned, to find its line."""

    text: str
    key: str
    value: str | None = None


def explain(config: dict[str, Any], parser: ArgumentParser) -> Reason | None:
    """The first value of a config that does not fit its option; None if each value fits."""
    hints = {action.dest: action._typehint for action in parser._actions if hasattr(action, "_typehint")}
    for key, value in _options(config):
        if key in hints and not _fits(hints[key], value):
            return _explain_value(key, value, hints[key])
    return None


def missing(config: dict[str, Any]) -> Reason | None:
    """The first required option of a part that is not given; the parser accepts null for one without a type."""
    reasons = (_missing(key, SECTIONS[key], value) for key, value in _options(config) if key in SECTIONS)
    return next(filter(None, reasons), None)


def _missing(key: str, kind: str, value: Any) -> Reason | None:
    for part in value if isinstance(value, list) else [value]:
        cls = load_class(part["class_path"]) if isinstance(part, dict) and "class_path" in part else None
        if not isinstance(cls, type):
            continue
        arguments = part.get("init_args") or {}
        for name, parameter in options(kind, cls).items():
            untyped = parameter.annotation is parameter.empty
            if parameter.default is parameter.empty and (
                name not in arguments or (untyped and arguments[name] in (None, "null"))
            ):
                return Reason(f"{cls.__name__} needs {name}: --{key}.{name} VALUE.", key)
            inner = argument_kind(cls, name)
            if inner and (reason := _missing(f"{key}.{name}", inner, arguments.get(name))):
                return reason
    return None


def _options(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        yield from ((f"{key}.{name}", inner) for name, inner in value.items()) if key in GROUPS else [(key, value)]


def _fits(hint: Any, value: Any) -> bool:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=hint)
    try:
        parser.parse_object({"value": value})
    except ArgumentError:
        return False
    return True


def _explain_value(key: str, value: Any, hint: Any) -> Reason | None:
    bases = list(_classes(hint))
    is_number = any(inner in (int, float) for inner in get_args(hint))  # of a number or a tensor
    if not bases or is_number:
        return _wrong_type(key, value, hint)
    for item in value if isinstance(value, list) else [value]:
        if (isinstance(item, dict) and "class_path" in item) or isinstance(item, str):
            spec = {"class_path": item} if isinstance(item, str) else item
            if reason := _explain_class(key, spec, bases):
                return reason
    return None


def _explain_class(key: str, spec: dict[str, Any], bases: list[type]) -> Reason | None:
    name, arguments = str(spec["class_path"]), spec.get("init_args") or {}
    known = {cls.__name__: _shortest_path(cls) for base in bases for cls in _subclasses(base)}
    cls = load_class(known.get(name, name))
    if cls is None:
        if "." not in name:
            return Reason(f"unknown {key} {name!r}.{suggestion(name, known)}", key, name)
        near = _nearest_path(name, list(known.values()))
        fix = f"Did you mean {near!r}?" if near else "Is it in a plugin? Name that with --plugins FILE."
        return Reason(f"{key}: {name!r} cannot be imported. {fix}", key, name)
    if not isinstance(cls, type) or not issubclass(cls, tuple(bases)):
        return Reason(f"{key}: {name} is not a {' or '.join(base.__name__ for base in bases)}.", key)
    kind = SECTIONS.get(key)
    given = GIVEN_BY_STACK[kind] if kind else 1 if key.partition(".")[2] in LIBRARIES else 0
    accepted = _accepted(cls, given)
    for option, value in arguments.items():
        if option not in accepted:
            registered = name_of(cls)
            if kind := kind or (registered and registered[0]):
                return Reason(no_option(kind, cls, option), f"{key}.{option}")
            text = f"{cls.__name__} has no option {option!r}.{suggestion(option, accepted)}"
            return Reason(text, f"{key}.{option}")
        if not _fits(accepted[option], value):
            return _explain_value(f"{key}.{option}", value, accepted[option])
    required = (option for option, parameter in parameters(cls, given).items() if parameter.default is parameter.empty)
    missing = [option for option in required if option not in arguments]
    if missing:
        options = " ".join(f"--{key}.{option} VALUE" for option in missing)
        return Reason(f"{cls.__name__} needs {', '.join(missing)}: {options}.", key)
    return None


def _accepted(cls: type, given: int) -> dict[str, Any]:
    """The options of a class with their types, as the parser finds them: also those passed on to a base class."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls, "of", skip={given} if given else None, fail_untyped=False)
    actions = [action for action in parser._actions if hasattr(action, "_typehint") and action.dest != "help"]
    return {action.dest.removeprefix("of."): action._typehint for action in actions if action.dest[-5:] != ".help"}


def _wrong_type(key: str, value: Any, hint: Any) -> Reason | None:
    shown = {None: "null", True: "true", False: "false"}.get(value, value) if _is_scalar(value) else value
    choices, types = list(map(str, _choices(hint))), list(_types(hint))
    types = [name for name in types if name in TYPES.values()] or types
    if not choices and not types:
        return None
    if choices:
        choices += [] if types != ["null"] else types
        numbers = "".join(f" Or {one}." for one in types if one in (TYPES[int], TYPES[float]))
        text = f"{key} cannot be {str(shown)!r}.{suggestion(shown, set(choices))}{numbers}"
    else:
        text = f"{key} must be {' or '.join(dict.fromkeys(types))}, not {str(shown)!r}."
    return Reason(text, key, str(shown))


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | str)


def _choices(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, UnionType):
        for inner in get_args(hint):
            yield from _choices(inner)


def _types(hint: Any) -> Iterator[str]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for inner in get_args(hint):
            yield from _types(inner)
    elif hint in TYPES:
        yield TYPES[hint]
    elif origin is not Literal:
        yield PLAIN.get(origin or hint) or getattr(hint, "__name__", str(hint))


def _classes(hint: Any) -> Iterator[type]:
    """The classes of which an option takes an instance: ``Norm`` for ``list[Callable[[int], Norm]]``."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is not None and inspect.isclass(origin) and issubclass(origin, Callable):  # type: ignore[arg-type]
        yield from _classes(inner[-1])
    elif inner and origin is not Literal:
        for one in inner:
            yield from _classes(one)
    elif inspect.isclass(hint) and hint.__module__ not in ("builtins", "datetime", "pathlib"):
        yield hint


def _subclasses(base: type) -> Iterator[type]:
    """A class and all known classes under it, except abstract and private ones."""
    if not inspect.isabstract(base) and not base.__name__.startswith("_"):
        yield base
    inner: type
    for inner in base.__subclasses__():
        yield from _subclasses(inner)


def _shortest_path(cls: type) -> str:
    """The import path of a class from the outermost package that exports it."""
    steps = cls.__module__.split(".")
    modules = (".".join(steps[:count]) for count in range(1, len(steps) + 1))
    homes = (module for module in modules if getattr(sys.modules.get(module), cls.__name__, None) is cls)
    return f"{next(homes, cls.__module__)}.{cls.__name__}"


def _nearest_path(path: str, known: list[str]) -> str | None:
    """The known class most similar to a path: in the same module, or of the same name in another one."""
    module, _, name = path.rpartition(".")
    alike = [other for other in known if other.startswith(f"{module}.") or other.endswith(f".{name}")]
    return nearest(path, [other for other in alike if other != path])  # itself, if its plugin has gone


def suggestion(word: Any, choices: Any, most: int = 20) -> str:
    """The nearest choice, and the list of choices unless it is long."""
    choices = sorted(choices)
    near = nearest(str(word), choices)
    hint = f" Did you mean {near!r}?" if near else ""
    if (near and len(choices) > most) or not choices:
        return hint
    return f"{hint} Available: {', '.join(choices)}." if len(choices) <= most else f"{hint} See --help for all."
