"""Check the values that configs and Python calls give, and build objects from them.

A value is one of

- a name: ``pair``,
- a name with options: ``{name: pair, scale: 2}``,
- a class path with options, as in LightningCLI: ``{class_path: ..., init_args: ...}``,
- a class, or an object.

In a dict, a data set is named by ``class_path``, because it may have an option called ``name``. A
*part* is a class that a config can name. A value is read once, by :func:`select`, into a
:class:`PartChoice`; from that :func:`instantiate` makes the object, and :func:`to_config` the value
that a config would write.

::

    build("norm", {"name": "pair", "scale": 2})     # partial(PairNorm, scale=2.0)
    resolved("norm", {"name": "pair"})              # {"name": "pair", "scale": 1.0}
    check("norm", {"name": "pair", "scal": 2})      # PartError: ... Did you mean 'scale'?
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from jsonargparse import ArgumentError, ArgumentParser

from gnn_depth import registry
from gnn_depth.part_specs import (
    GIVEN,
    GIVEN_BY_DATA,
    SCALAR,
    SECTION_OF,
    SECTIONS,
    TYPES,
    Option,
    Parts,
    PartSpec,
    Where,
    describe,
    items_of,
    load_class,
    parts_of,
)
from gnn_depth.registry import RegistryError, as_written
from gnn_depth.yaml_limits import contents, safe_load, value_in

T = TypeVar("T")
#: The type of an argument that may be a part, or a value that stands for it.
Named: TypeAlias = str | T | Any
# Kinds that come in lists: a single one is read as a list of one.
LISTS = ("norm", "callback", "transform")
# Types of numbers, with what they are below: PyTorch's whole numbers have 64 bits.
NUMBERS: dict[str, tuple[type[Any], float]] = {"int": (int, 2**63), "float": (float, inf)}


class PartError(RegistryError):
    """A part that does not exist, or an option that does not exist or does not fit.

    Attributes:
        where: Keys and positions that lead to the faulty value in the config.
    """

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


class Changes(dict[str, Any]):
    """Options to change in what stands at a place already, as a flag gives them."""


@dataclass(frozen=True)
class PartChoice:
    """A part and its given options; an option that takes a part holds a PartChoice itself."""

    part: PartSpec
    options: dict[str, Any]


@dataclass(frozen=True)
class PartIndex:
    """The parts that can be named: the imported ones, or those of the command line's cache on disk.

    Attributes:
        parts: Gives those of a kind, by name.
        load_plugins: Called before a class that is not among the parts is imported.
        dropped: If it is a list, a part that takes the place of another keeps the options that both
            have, and the others are noted here. If None, it starts from its own defaults.
        options: The options of a command by dotted key.
    """

    parts: Parts
    load_plugins: Callable[[], object] = lambda: None
    dropped: list[str] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)

    def find(self, kind: str, name: Any, where: Where = ()) -> PartSpec:
        """Find a part by its name, class name or import path; import its class if it is not known.

        Raises:
            PartError: There is no such part, or it cannot be used.
        """
        if not isinstance(name, str):
            raise PartError(f"the name of a {kind} must be text, not {name!r}.", where)
        part = self._named(kind, name)
        if part is None and self.parts is parts_of:
            registry.load_entry_points()  # it may be the part of an installed plugin
            part = self._named(kind, name)
        if part is None and "." in name:
            part = self._import(kind, name, where)
        if part is None:
            raise PartError(self._unknown(kind, name), where)
        if part.refusal:
            raise PartError(part.refusal, where)
        return part

    def _named(self, kind: str, name: str) -> PartSpec | None:
        known = self.parts(kind)
        if name in known:
            return known[name]
        for part in known.values():
            if name in (part.class_name, part.path):
                return part
        return None

    def listed(self, kind: str) -> list[str]:
        """The names of a kind as users see them; for data sets these are class names."""
        return sorted(part.shown for part in self.parts(kind).values())

    def _unknown(self, kind: str, name: str) -> str:
        """The message for a name that no part has."""
        listed = self.listed(kind)
        also = [part.class_name for part in self.parts(kind).values()]
        message = registry.unknown(kind, name, listed, also) + registry.not_loaded()
        # People name a graph where its data set is asked for: --data Cora.
        homes = {}
        for part in self.parts(kind).values():
            homes.update(dict.fromkeys(part.names, part))
        near = registry.nearest(name, homes)
        if near is None:
            return f"{message} A part of your own needs --plugins FILE, or its installed package."
        home, section = homes[near].shown, SECTION_OF[kind]
        option = next(iter(homes[near].options))
        return f"{message} {near} is in {home}: --{section} {home} --{section}.{option} {near}."

    def _import(self, kind: str, path: str, where: Where) -> PartSpec:
        self.load_plugins()
        cls = load_class(path)
        if not isinstance(cls, type):
            module = path.rpartition(".")[0]
            names = [part.path for part in self.parts(kind).values()]
            if module in sys.modules:
                defined = vars(sys.modules[module]).items()
                names += [f"{module}.{name}" for name, each in defined if isinstance(each, type)]
            near = registry.hint(path, names)
            near = near or " A file in another folder needs --plugins FILE."
            message = f"{kind} {path!r} cannot be imported as a class.{near}"
            raise PartError(message + registry.not_loaded(), where)
        found = registry.name_of(cls)
        if found is not None and found[0] != kind:
            raise PartError(f"{path} is a {found[0]}, not a {kind}.", where)
        return describe(kind, cls, path)


#: The built-in and imported parts, looked up at every access, as more may be imported.
LIVE = PartIndex(parts_of)


# Entry points


def build(kind: str, value: Any) -> Any:
    """Build the object, or the factory, that a value stands for.

    Args:
        kind: layer, norm, init, skip, graph_dropout, task, data, optimizer, scheduler, callback,
            logger or transform.
        value: A name, a dict, a class or an object. Norms and callbacks may be a list of these; a
            single one is read as a list of one.

    Returns:
        The object; or a factory, for a part that gets further arguments from the stack or from
        torch, such as widths. A value that is an object or factory is returned as it is.

    Raises:
        PartError: There is no such part or option, or an option does not fit. The message has the
            nearest name that exists.
    """
    return instantiate(check(kind, value))


def resolved(kind: str, value: Any) -> Any:
    """Add the defaults of its part to a value, in the short form that people write.

    Raises:
        PartError: See :func:`build`.
    """
    return to_config(check(kind, value))


def check(kind: str, value: Any) -> Any:
    """Check a value, and return the chosen part or parts; an object is returned as it is.

    Raises:
        PartError: See :func:`build`.
    """
    chosen = select(kind, value, where=(kind,))
    check_complete(chosen, (kind,))  # not before: more options may come for a part, as flags do
    return chosen


# Reading values


def select(
    kind: str,
    value: Any,
    known: PartIndex = LIVE,
    where: Where = (),
    current: Any = None,
    is_list: bool = False,
) -> Any:
    """Read a value: find its part, and check its options.

    Options without a name change the ``current`` part, or the last one of several. Options that
    the part needs may still be missing; see :func:`check_complete`.
    """
    if kind == "logger":  # one, or several
        changes = isinstance(value, Changes) and isinstance(current, list)
        is_list = changes or isinstance(value, list)
    if not is_list and kind not in LISTS:
        return _select_one(kind, value, known, where, current)
    if isinstance(value, list | tuple):
        found = []
        for position, item in enumerate(value):
            found.append(_select_one(kind, item, known, (*where, position)))
        return found
    *others, last = items_of(current) or [None]
    if isinstance(value, Mapping) and _key_of_name(kind, value) is None:
        return [*others, _select_one(kind, value, known, where, last)]
    return [_select_one(kind, value, known, where)]  # it replaces the whole list


def _key_of_name(kind: str, value: Any) -> str | None:
    """The key under which a mapping names its part; None if it changes the one that is there."""
    if "class_path" in value:
        return "class_path"
    if "name" in value and kind != "data" and not isinstance(value, Changes):
        return "name"
    return None


def _select_one(kind: str, value: Any, known: PartIndex, where: Where, current: Any = None) -> Any:
    """Read the value of a single part, which may change or replace the current one."""
    if isinstance(value, str):
        chosen = PartChoice(known.find(kind, value, where), {})
        return _in_place_of(current, chosen, known, where)
    if isinstance(value, list | tuple | SCALAR):
        listed = ", ".join(known.listed(kind))
        message = f"{kind} must be given by name, not as {as_written(value)}."
        raise PartError(f"{message} Available: {listed}.", where)
    if not isinstance(value, Mapping):
        # GIVEN counts the arguments that the stack or torch passes. A class that gets some is a
        # factory already; one that gets none is made into an object, as if it were named.
        if isinstance(value, type) and not GIVEN[kind]:
            return PartChoice(describe(kind, value), {})
        return value
    key = _key_of_name(kind, value)
    given = {name: item for name, item in value.items() if name != key}
    if key is not None:
        chosen = PartChoice(known.find(kind, value[key], (*where, key)), {})
    elif isinstance(current, PartChoice):
        chosen = current
    else:
        raise PartError(
            f"name the {kind} before its options {', '.join(value)}, as in {{name: NAME}}.", where
        )
    if key != "class_path" and list(given) != ["init_args"]:
        chosen = with_options(chosen, given, known, where)
        given = {}
    for name, options in given.items():  # as LightningCLI's users write them
        if name not in ("init_args", "dict_kwargs"):  # the second for a constructor that takes any
            message = f"{name!r} stands beside class_path; options go under init_args."
            raise PartError(message, (*where, name))
        chosen = with_options(chosen, options or {}, known, (*where, name))
    if key is None:
        return chosen
    return _in_place_of(current, chosen, known, where)


def _in_place_of(current: Any, chosen: PartChoice, known: PartIndex, where: Where) -> PartChoice:
    """A part that takes the place of the current one, with the options that both have."""
    if known.dropped is None or not isinstance(current, PartChoice):
        return chosen
    kept = {}
    # The options of a data set, such as the name of its graph, mean nothing to another one.
    if chosen.part.kind != "data" or chosen.part.path == current.part.path:
        for name, item in current.options.items():
            # An option of this name may be missing, or have another type or range.
            with suppress(PartError, KeyError):
                option = chosen.part.options[name]
                kept[name] = option_value(option, item, known, (*where, name))
    options = {**kept, **chosen.options}
    lost = [name for name in current.options if name not in options]
    if lost:
        known.dropped.append(
            f"{dotted(where)} {chosen.part.shown} takes no {', '.join(lost)} from "
            f"{current.part.shown}"
        )
    return PartChoice(chosen.part, options)


def with_options(chosen: PartChoice, given: Any, known: PartIndex, where: Where) -> PartChoice:
    """Add options to a chosen part; they replace earlier values."""
    part, options = chosen.part, dict(chosen.options)
    if not isinstance(given, Mapping):
        raise PartError(
            f"the options of {part.shown} must be a mapping of names to values, not {given!r}.",
            where,
        )
    for key, value in given.items():
        place = (*where, key)
        if key in part.options:
            current = options.get(key)
            options[key] = option_value(part.options[key], value, known, place, current)
        elif part.takes_any:  # its constructor takes any keyword
            options[key] = value
        else:
            accepted = "It has none."
            if part.options:
                accepted = f"Accepted: {', '.join(part.options)}."
            near = registry.hint(key, part.options)
            message = f"{part.kind} {part.shown!r} has no option {key!r}.{near} {accepted}"
            raise PartError(message, place)
    return PartChoice(part, options)


def option_value(
    option: Option, value: Any, known: PartIndex, where: Where, current: Any = None
) -> Any:
    """Read the value of an option: choose a part, or convert the value to the option's type.

    Raises:
        PartError: The value does not fit.
    """
    if value is None and option.default is None and not option.is_required:
        return None
    if option.kind is None:
        value = _changed(value, current)
    list(contents(value))  # refuses text that stands for too much if it is read as YAML
    # Some options take a part or a switch: trainer.logger false.
    is_switch = as_written(value) in ("true", "false") and "bool" in option.types
    if option.kind is not None and not is_switch:
        is_list = isinstance(value, list | tuple) and option.type.startswith("list[")
        return select(option.kind, value, known, where, current, is_list)
    return convert(option, value, where)


def _changed(value: Any, current: Any) -> Any:
    """A value; of changes the current mapping with these keys changed, and of another library's
    class its arguments."""
    if not isinstance(value, Changes):
        return value
    if isinstance(current, str):  # a strategy or profiler that is named by a word
        current = {"class_path": current}
    found = {}
    if isinstance(current, Mapping):
        found = dict(current)
    if "class_path" in found:
        found["init_args"] = _changed(value, found.get("init_args"))
        return found
    for key, item in value.items():
        found[key] = _changed(item, found.get(key))
    return found


def set_option(
    options: dict[str, Any], key: str, value: Any, known: PartIndex, where: Where
) -> None:
    """Read the value of one of the known options, and put it among the others, which have dotted
    names.

    Options of a part change the one that is there, or the default one. What has a key that ends
    with ``+`` is added to a list.
    """
    name = key.removesuffix("+")
    if name not in known.options:
        raise PartError(_unknown_option(name, known), where)
    option = known.options[name]
    current = options.get(name, option.default)
    if name not in options:
        known = replace(known, dropped=None)  # only what was asked for is kept
        if option.kind is not None and current is not None:
            current = select(option.kind, current, known)
    if name == key:
        options[name] = option_value(option, value, known, where, current)
    else:
        items = option_value(option, items_of(value), known, where)
        options[name] = [*items_of(current or []), *items]


#: The option of a schedule of torch that is its length.
LENGTHS = {
    "CosineAnnealingLR": "T_max",
    "PolynomialLR": "total_iters",
    "OneCycleLR": "total_steps",
}


def completed(options: dict[str, Any], epochs: Any) -> dict[str, Any]:
    """Dotted options to which no others will be added: a schedule without a length gets the number
    of epochs, and a part that lacks an option is refused."""
    found = {}
    for key, value in options.items():
        if isinstance(value, PartChoice) and f"{epochs}".isdigit():  # text, as a flag
            length = LENGTHS.get(value.part.class_name, "")
            is_given = "epochs" in value.options or value.options.get(length) is not None
            if length and not is_given:
                value = replace(value, options={**value.options, length: int(epochs)})
        found[key] = value
        check_complete(value, tuple(key.split(".")))
    return found


def dotted(where: Where) -> str:
    """The place of a value as a flag names it: ``model.norm.scale``.

    Positions in lists, ``class_path`` and ``init_args`` are left out.
    """
    steps = []
    for each in where:
        if isinstance(each, str) and each not in ("class_path", "init_args", "dict_kwargs"):
            steps.append(each.removesuffix("+"))  # of a key that appends to a list
    return ".".join(steps)


def check_complete(chosen: Any, where: Where) -> None:
    """Refuse a part that lacks an option it needs, also one in a list or in an option of a part."""
    for choice in items_of(chosen):
        if not isinstance(choice, PartChoice):
            continue
        part = choice.part
        for name, option in part.options.items():
            value = choice.options.get(name)
            is_given = part.kind == "module" and name in GIVEN_BY_DATA
            if option.is_required and value is None and not is_given:
                needs = f"{part.class_name} needs {name}: --{dotted(where)}.{name} VALUE."
                about = (
                    f"In a file: {{class_path: {part.shown}, init_args: {{{name}: VALUE}}}}. "
                    f"--{SECTION_OF[part.kind]}.help {part.shown} explains its options."
                )
                raise PartError(f"{needs} {about}", where)
            check_complete(value, (*where, "init_args", name))


# Types of options


def convert(option: Option, value: Any, where: Where = ()) -> Any:
    """Convert a value to the type of its option, as a config writes it: 4.0 for 4 or ``"4"``.

    jsonargparse does it, because it knows the types of other libraries. An option from the cache
    has no type, and its value stays as it is, as do objects that Python gives.

    Raises:
        PartError: The value does not fit.
    """
    key = dotted(where) or option.name
    if option.range is not None:
        try:
            option.range.check(key, value)
        except ValueError as error:
            raise PartError(str(error), where) from None
    if value is None:
        if option.type and "None" not in option.types and option.default is not None:
            raise PartError(f"{key} cannot be null.", where)
        return None
    if option.has_plain_type:
        text = as_written(value)
        named = {word.lower(): choice for word, choice in option.choices.items()}
        if text.lower() in named:
            return named[text.lower()]
        if text == "null" and "None" in option.types:
            return None
        for accepted in option.types:
            if accepted == "str" and isinstance(value, str):
                return value
            if accepted in NUMBERS:
                number, limit = NUMBERS[accepted]
                with suppress(ValueError):
                    found = number(text)
                    if abs(found) < limit or isinstance(value, float):
                        return found
        words = [TYPES[accepted] for accepted in option.types if accepted != "bool"]
        wanted = " or ".join(dict.fromkeys([*words, *option.choices]))
        near = registry.hint(text, option.choices)
        raise PartError(f"{key} must be {wanted}, not {text!r}.{near}", where)
    if option.type.startswith("list[") and not {*option.types} & {*TYPES} - {"None"}:
        value = items_of(value)
    if not is_plain_value(value):
        return value
    parser = _parser(option.annotation)
    if parser is None:
        return value_in(value) if isinstance(value, str) else value
    try:
        parsed = parser.parse_object({"value": value})
    except ArgumentError as error:
        message = f"{key} cannot be {value!r}: its type is {option.type}."
        raise PartError(message, where) from error
    if isinstance(parsed.value, SCALAR):
        return parsed.value
    # Other values, such as a timedelta or a class with its arguments, as a config writes them.
    return safe_load(parser.dump(parsed, skip_unset=False, skip_validation=True))["value"]


def is_plain_value(value: Any) -> bool:
    """True if a config can write the value; False for objects that Python gives."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return all(is_plain_value(item) for item in value)
    return isinstance(value, SCALAR)


@cache  # one parser for all options of a type
def _parser(annotation: Any) -> ArgumentParser | None:
    """A parser of one value; None for a type that jsonargparse cannot check, or that is not
    known."""
    if annotation is None:
        return None
    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_argument("--value", type=annotation)
    except (ValueError, TypeError):
        return None
    return parser


# Names of options that do not exist


# Other names that people use for options.
WORDS = {
    "depth": "num_layers",
    "layers": "num_layers",
    "width": "hidden_channels",
    "hidden": "hidden_channels",
    "learning_rate": "lr",
    "epochs": "max_epochs",
    "device": "accelerator",
    "gpus": "devices",
    "wd": "weight_decay",
    "seed": "seed_everything",
}


def _unknown_option(key: str, known: PartIndex) -> str:
    """The message for an option that does not exist, such as ``model.num_layer``."""
    section, dot, last = key.rpartition(".")
    if section == "model" and last in GIVEN_BY_DATA:
        return f"{key!r} is taken from the data and cannot be set."
    start, word = section + dot, WORDS.get(last, last)
    neighbours = set()  # keys of the same section
    # Full names by their last words; of parts, the optimizer's first: it has lr and momentum.
    homes: dict[str, str] = {}
    for option in known.options:
        homes.setdefault(option.rpartition(".")[2], option)
        if option.startswith(start):
            neighbours.add(option.removeprefix(start).partition(".")[0])
    for place in ("data", "model.optimizer", *SECTIONS):
        for part in known.parts(SECTIONS[place]).values():
            for option in part.options:
                homes.setdefault(option, f"{place}.{option}")
    near = registry.nearest(word, neighbours)
    home = start + near if near else homes.get(word)
    hint = f"Available: {', '.join(sorted(neighbours))}."
    if home is not None:
        hint = f"Did you mean {home!r}?"
    message = f"unknown option {key!r}. {hint}"
    if key in ("base", "axes", "rules"):  # sections of a sweep's file
        message += " A grid of runs is for gnn-depth sweep."
    return message


# From chosen parts to objects and to text


def instantiate(chosen: Any) -> Any:
    """Make the object or factory of a chosen part, or of each part in a list."""
    if isinstance(chosen, list):
        return [instantiate(each) for each in chosen]
    if not isinstance(chosen, PartChoice):
        return chosen
    part = chosen.part
    options = instantiate_options(part.options, chosen.options)
    cls = part.cls or load_class(part.path)  # a description from the cache has no class
    if GIVEN[part.kind]:  # the stack or torch passes the other arguments
        return partial(cls, **options)
    return cls(**options)


def instantiate_options(known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Make the objects that given options stand for: parts, and other libraries' classes. Other
    values stay."""
    found = dict(given)
    for name, value in given.items():
        option = known.get(name, Option(name))
        if option.kind == "transform":
            found[name] = to_config(value)  # a data set keeps how they are written, and builds them
        elif any(isinstance(item, PartChoice) for item in items_of(value)):
            found[name] = instantiate(value)
        elif not option.has_plain_type and is_plain_value(value):
            parser = _parser(option.annotation)
            if parser is not None:
                found[name] = parser.instantiate(parser.parse_object({"value": value})).value
    return found


def to_config(chosen: Any) -> Any:
    """Write a chosen part, or each in a list, as a config does, with every default.

    In short: ``{name: pair, scale: 2}``, or ``pair`` if it has no options. Data sets, which may
    have an option ``name``, and classes that are not registered are written with ``class_path``
    and ``init_args``.
    """
    if isinstance(chosen, list):
        return [to_config(each) for each in chosen]
    if not isinstance(chosen, PartChoice):
        return chosen
    part = chosen.part
    options = options_to_config(part.options, chosen.options)
    is_registered = registry.name_of(part.cls) == (part.kind, part.name)
    # A key called name would be taken for the part's own name when it is read again.
    if is_registered and part.kind != "data" and "name" not in options:
        if not options:
            return part.name
        return {"name": part.name, **options}
    short: dict[str, Any] = {"class_path": part.path}
    if is_registered and part.kind == "data":
        short["class_path"] = part.class_name
    if options:
        short["init_args"] = options
    return short


def options_to_config(known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Write given options, and the defaults of the others, as a config does.

    Parts are written by name, and paths in full.
    """
    found = {}
    # In the order of the signature, not of the command line: equal configs are equal texts.
    for name, option in known.items():
        if name in given:
            value = given[name]
        elif not option.is_plain:  # a config cannot write its default
            continue
        elif option.kind is not None and option.default is not None:
            value = select(option.kind, option.default)
        else:
            value = convert(option, option.default)
        if option.is_path and value and isinstance(value, str):
            value = str(Path(value).expanduser().absolute())
        found[name] = to_config(value)
    for name in given:  # those of a constructor that takes any
        if name not in known:
            found[name] = given[name]
    return found


def without_paths(kind: str, value: Any) -> Any:
    """Leave out options that name files or folders, so that their places make no difference."""
    if not isinstance(value, Mapping) or "class_path" not in value:
        return value
    try:
        known: Mapping[str, Option] = LIVE.find(kind, value["class_path"]).options
    except PartError:  # a class of a user's program, which cannot be imported here
        return value
    options = {}
    for name, item in (value.get("init_args") or {}).items():
        if name not in known or not known[name].is_path:
            options[name] = without_paths(kind, item)
    return {**value, "init_args": options}
