"""Values become objects here, and nowhere else.

A value is what a config or a Python call writes: a name (``pair``), a name with options
(``{name: pair, scale: 2}``), ``{class_path: ..., init_args: ...}`` as LightningCLI's users write
it, a class, or an object. A data set may have an option called ``name``, so its own key is
``class_path``.

::

    build("norm", {"name": "pair", "scale": 2})     # partial(PairNorm, scale=2.0)
    resolved("norm", {"name": "pair"})              # {"name": "pair", "scale": 1.0}
    check("norm", {"name": "pair", "scal": 2})      # PartError: ... Did you mean 'scale'?
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from jsonargparse import ArgumentError, ArgumentParser

from gnn_depth import registry
from gnn_depth.registry import RegistryError
from gnn_depth.short_names import (
    GIVEN,
    SECTIONS,
    TYPES,
    Option,
    Parts,
    PartSpec,
    Where,
    as_written,
    describe,
    load_class,
    parts_of,
)
from gnn_depth.yaml_limits import check_texts, safe_load, value_in

T = TypeVar("T")
#: The type of an argument that may be a part, or a value that stands for it.
Named: TypeAlias = T | Any
LISTS = ("norm", "callback")  # one of them stands for a list of one
#: Values that are no part and need none, by kind.
ABSENT: dict[str, tuple[Any, ...]] = {
    "scheduler": (None,),
    "task": (None,),
    "callback": (None,),
    "logger": (None, True, False),
}


class PartError(RegistryError):
    """A part that does not exist, or an option that does not exist or does not fit.

    Attributes:
        where: Keys and positions that lead to it in the config.
    """

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class Chosen:
    """A part and the options that were given for it, of which parts are chosen too."""

    part: PartSpec
    options: dict[str, Any]


@dataclass(frozen=True)
class Known:
    """The parts that can be named: those that are imported, or those of the cache.

    Attributes:
        parts: By kind and name.
        load_plugins: Called before a class is imported that is not among the parts.
    """

    parts: Parts
    load_plugins: Callable[[], None] = lambda: None

    def find(self, kind: str, name: Any, where: Where = ()) -> PartSpec:
        """A part by its name, class name or import path; a class that is not known is imported."""
        if not isinstance(name, str):
            raise PartError(f"the name of a {kind} must be text, not {name!r}.", where)
        known = self.parts[kind]
        part = known.get(name)
        for each in known.values():
            if part is None and name == each.class_name:
                part = each
        for each in known.values():
            if part is None and name == each.path and not each.refusal:
                part = each
        if part is None and "." in name:
            part = self._import(kind, name, where)
        if part is None:
            raise PartError(self._unknown(kind, name), where)
        if part.refusal:
            raise PartError(part.refusal, where)
        return part

    def listed(self, kind: str) -> list[str]:
        """The names of a kind as users see them: class names of data sets."""
        return sorted(part.shown for part in self.parts[kind].values())

    def _unknown(self, kind: str, name: str) -> str:
        """The message for a name that no part has."""
        listed = self.listed(kind)
        also = [part.class_name for part in self.parts[kind].values()]
        message = registry.unknown(kind, name, listed, also) + registry.not_loaded()
        homes = {}
        for part in self.parts[kind].values():
            homes.update(dict.fromkeys(part.graphs, part.class_name))
        graph = registry.nearest(name, homes)
        if graph is not None:
            home = homes[graph]
            return f"{message} {graph} is a graph of {home}: --data {home} --data.name {graph}."
        if kind in registry.KINDS and registry.nearest(name, [*listed, *also]) is None:
            return f"{message} A part of your own needs --plugins FILE."
        return message

    def _import(self, kind: str, path: str, where: Where) -> PartSpec:
        self.load_plugins()
        cls = load_class(path)
        if cls is None:
            module, _, name = path.rpartition(".")
            near = []
            for part in self.parts[kind].values():
                if part.path.startswith(f"{module}.") or part.path.endswith(f".{name}"):
                    near.append(part.path)
            hint = registry.hint(path, near) or " If it is in a plugin, add --plugins FILE."
            message = f"{kind} {path!r} cannot be imported.{hint}{registry.not_loaded()}"
            raise PartError(message, where)
        if not isinstance(cls, type):
            raise PartError(f"{path} is no class, not a {kind}.", where)
        found = registry.name_of(cls)
        if found is None:
            return describe(kind, cls.__name__, cls, path)
        if found[0] != kind:
            raise PartError(f"{path} is a {found[0]}, not a {kind}.", where)
        return describe(kind, found[1], cls, path)


class _Live(dict[str, Any]):
    """The imported parts of each kind, described when they are asked for."""

    def __missing__(self, kind: str) -> Mapping[str, PartSpec]:
        return parts_of(kind)


LIVE = Known(_Live())


# The door


def build(kind: str, value: Any, where: Where = ()) -> Any:
    """Build what a value stands for.

    Args:
        kind: layer, norm, init, skip, graph_dropout, task, data, optimizer, scheduler, callback or
            logger.
        value: A name, a dict, a class or an object. Norms and callbacks may be lists of them, and
            one stands for a list of one.
        where: Keys that lead to the value in a config, for messages; by default the kind.

    Returns:
        The object. A part that the stack or torch calls with arguments, such as widths, is a
        factory. An object or factory is returned as it is.

    Raises:
        PartError: There is no such part or option, or an option does not fit; with the near miss.
    """
    return made(check(kind, value, where=where or (kind,)))


def resolved(kind: str, value: Any, where: Where = ()) -> Any:
    """The value with the defaults of its part, in the short form that people write.

    Raises:
        PartError: See :func:`build`.
    """
    return written(check(kind, value, where=where or (kind,)))


def check(kind: str, value: Any, known: Known = LIVE, where: Where = ()) -> Any:
    """Check a value, and return the chosen part, or a list of them; an object as it is.

    Raises:
        PartError: See :func:`build`.
    """
    chosen = choose(kind, value, known, where)
    for each in chosen if isinstance(chosen, list) else [chosen]:
        check_complete(each, where)
    return chosen


# Reading values


def choose(
    kind: str, value: Any, known: Known = LIVE, where: Where = (), current: Any = None
) -> Any:
    """Read a value of a kind; options without a name change the part that is there already.

    Options that the part needs may still be missing; see :func:`check_complete`.
    """
    as_yaml = {"true": True, "false": False, "null": None}
    plain = as_yaml.get(value, value) if isinstance(value, str) else value
    if (plain is None or isinstance(plain, bool)) and plain in ABSENT.get(kind, ()):
        return plain
    if kind not in LISTS and not (kind == "logger" and isinstance(value, list)):
        return choose_one(kind, value, known, where, current=current)
    if not isinstance(value, list | tuple):
        return [choose_one(kind, value, known, where, in_list=True)]
    found = []
    for position, item in enumerate(value):
        found.append(choose_one(kind, item, known, (*where, position), in_list=True))
    return found


def choose_one(
    kind: str,
    value: Any,
    known: Known = LIVE,
    where: Where = (),
    in_list: bool = False,
    current: Any = None,
) -> Any:
    """Read a single part, also of a kind that comes in lists; see :func:`choose`."""
    if value is None:
        raise PartError(f"{kind} is null: name one of {', '.join(known.listed(kind))}.", where)
    if isinstance(value, str):
        return Chosen(_find(known, kind, value, where), {})
    if isinstance(value, list | tuple | bool | int | float):
        raise PartError(f"{kind} must be given by name, not as {value!r}.", where)
    if not isinstance(value, Mapping):
        return _given(kind, value)
    if "class_path" in value:
        return _from_class_path(kind, value, known, where)
    if "name" in value and kind != "data":
        part = _find(known, kind, value["name"], where)
        given = {key: item for key, item in value.items() if key != "name"}
        return with_options(Chosen(part, {}), given, known, where)
    if in_list or not isinstance(current, Chosen):
        example = "".join(f", {key}: {item}" for key, item in value.items())
        key = "class_path" if kind == "data" else "name"
        raise PartError(f"a {kind} needs its name: {{{key}: NAME{example}}}.", where)
    if list(value) == ["init_args"]:
        return with_options(current, value["init_args"], known, (*where, "init_args"))
    return with_options(current, value, known, where)


def _from_class_path(kind: str, value: Mapping[str, Any], known: Known, where: Where) -> Chosen:
    for key in value:
        if key not in ("class_path", "init_args", "dict_kwargs"):
            message = f"{key!r} stands beside class_path; options go under init_args."
            raise PartError(message, (*where, key))
    part = _find(known, kind, value["class_path"], (*where, "class_path"))
    chosen = with_options(
        Chosen(part, {}), value.get("init_args") or {}, known, (*where, "init_args")
    )
    more = value.get("dict_kwargs") or {}  # LightningCLI's place for arguments of **kwargs
    return with_options(chosen, more, known, (*where, "dict_kwargs"))


def _find(known: Known, kind: str, name: Any, where: Where) -> PartSpec:
    """A part; in Python, a name that is not known may be that of an installed plugin's part."""
    if known is not LIVE:
        return known.find(kind, name, where)
    try:
        return known.find(kind, name, where)
    except PartError:
        if kind not in registry.KINDS:
            raise
        registry.load_entry_points()
        return known.find(kind, name, where)


def _given(kind: str, value: Any) -> Any:
    """A part that Python gives: an object or factory stays; a class that needs nothing is called
    later, as if it were named."""
    if not isinstance(value, type) or GIVEN[kind]:
        return value
    found = registry.name_of(value)
    name = found[1] if found else value.__name__
    return Chosen(describe(kind, name, value), {})


def with_options(chosen: Chosen, given: Any, known: Known, where: Where) -> Chosen:
    """A chosen part with further options."""
    part = chosen.part
    if not isinstance(given, Mapping):
        raise PartError(f"the options of {part.shown} are keys with values, not {given!r}.", where)
    options = dict(chosen.options)
    for key, value in given.items():
        place = (*where, key)
        if key in part.options:
            option = part.options[key]
            current = options.get(key)
            options[key] = option_value(option, value, known, place, current, part.graphs)
        elif part.takes_any:
            options[key] = value
        else:
            accepted = "It has none."
            if part.options:
                accepted = f"Accepted: {', '.join(part.options)}."
            near = registry.hint(key, part.options)
            message = f"{part.kind} {part.shown!r} has no option {key!r}.{near} {accepted}"
            raise PartError(message, place)
    return Chosen(part, options)


def option_value(
    option: Option,
    value: Any,
    known: Known,
    where: Where,
    current: Any = None,
    graphs: list[str] | None = None,
) -> Any:
    """The value of an option: parts are chosen, other values have their type, or are refused."""
    if option.kind is not None and value is not None:
        if isinstance(value, list | tuple):
            return [choose_one(option.kind, each, known, where) for each in value]
        return choose_one(option.kind, value, known, where, current=current)
    check_texts(value)
    key = dotted(where)
    if value is None and option.default is None and not option.is_required:
        return None
    refusal = option.range.refusal(key, value) if option.range is not None else None
    refusal = refusal or misfit(key, option, value)
    if refusal:
        raise PartError(refusal, where)
    if graphs and option.name == "name" and isinstance(value, str):
        value = _graph(value, graphs, where)
    return typed(option, _listed(option, value), where)


def _graph(name: str, graphs: list[str], where: Where) -> str:
    """The name of a data set's graph as it is spelt there: Cora for cora."""
    for graph in graphs:
        if name.lower() == graph.lower():
            return graph
    raise PartError(registry.unknown("graph", name, graphs), where)


def dotted(where: Where) -> str:
    """The place of a value as a flag names it: without positions, ``class_path`` and
    ``init_args``."""
    steps = [each for each in where if isinstance(each, str)]
    hidden = ("class_path", "init_args", "dict_kwargs")
    return ".".join(step.removesuffix("+") for step in steps if step not in hidden)


def check_complete(chosen: Any, where: Where) -> None:
    """Refuse a chosen part without an option that it needs, or one that holds such a part."""
    if not isinstance(chosen, Chosen):
        return
    part, key = chosen.part, dotted(where)
    for name, option in part.options.items():
        value = chosen.options.get(name)
        if option.is_required and value is None:
            sections = {kind: section for section, kind in SECTIONS.items()}
            needs = f"{part.class_name} needs {name}: --{key}.{name} VALUE."
            about = f"--{sections[part.kind]}.help {part.shown} explains its options."
            raise PartError(f"{needs} {about}", where)
        for inner in value if isinstance(value, list) else [value]:
            check_complete(inner, (*where, "init_args", name))


# Types of options


def misfit(key: str, option: Option, value: Any) -> str:
    """Why a value does not fit its option; empty if it does, or if its type is not plain."""
    text = as_written(value)
    if value is None and option.default is not None:
        if "None" in option.types:
            return ""
        if option.has_plain_type:
            return _wrong(key, option, text)
        return f"{key} cannot be null."
    if not option.has_plain_type or text in option.choices:
        return ""
    for one in option.types:
        if _accepts(one, value, text):
            return ""
    return _wrong(key, option, text)


def _wrong(key: str, option: Option, text: str) -> str:
    words = [TYPES[one] for one in option.types]
    if option.type == "bool" or not option.choices:
        return f"{key} must be {' or '.join(words)}, not {text!r}."
    wanted = set(option.choices)
    if "None" in option.types:
        wanted.add("null")
    numbers = ""
    for one in option.types:
        if one in ("int", "float"):
            numbers += f" Or {TYPES[one]}."
    return f"{key} cannot be {text!r}.{suggestion(text, wanted)}{numbers}"


def _accepts(type: str, value: Any, text: str) -> bool:
    if type == "None":
        return text == "null"
    if type == "str":
        return isinstance(value, str)
    if type == "bool":
        return False  # true and false are among its choices
    try:
        int(text) if type == "int" else float(text)
    except ValueError:
        return False
    return True


def suggestion(word: Any, choices: Any, most: int = 20) -> str:
    """The nearest choice, and the list of choices unless it is long."""
    listed = sorted(choices)
    hint = registry.hint(str(word), listed)
    if not listed:
        return hint
    if len(listed) <= most:
        return f"{hint} Available: {', '.join(listed)}."
    return hint or " See --help for all."


def _listed(option: Option, value: Any) -> Any:
    """A value; a word or number becomes a list of one where only a list fits."""
    has_list = any(one.startswith("list[") for one in option.types)
    if not has_list or {"str", "int", "float"} & {*option.types}:
        return value
    return [value] if isinstance(value, str | int | float) else value


def typed(option: Option, value: Any, where: Where = ()) -> Any:
    """A value with the type of its option, as a config writes it: 4.0 for 4 or the text ``4``.

    jsonargparse knows the types of other libraries. An option from the cache has no type: its value
    stays as it is.
    """
    if option.annotation is None or _has_type(option, value) or not _is_written(value):
        return value
    parser = _parser(option)
    if parser is None:
        return value_in(value) if isinstance(value, str) else value
    try:
        found = parser.parse_object({"value": value})
    except ArgumentError as error:
        key = dotted(where) or option.name
        message = f"{key} cannot be {value!r}: its type is {option.type}."
        raise PartError(message, where) from error
    if found.value is None or isinstance(found.value, bool | int | float | str):
        return found.value
    return safe_load(parser.dump(found, skip_unset=False, skip_validation=True)).get("value")


def _has_type(option: Option, value: Any) -> bool:
    """True for a plain value that needs no conversion; jsonargparse takes milliseconds for one."""
    if not option.has_plain_type:
        return False
    types = {*option.types}
    if not isinstance(value, str):
        return value is not None and type(value).__name__ in types
    if value in option.choices:
        return value.isidentifier() and "bool" not in types
    return "str" in types and not types & {"int", "float", "bool"}


def _is_written(value: Any) -> bool:
    """True for what a config can write; False for objects that Python gives."""
    if isinstance(value, Mapping):
        return all(_is_written(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_written(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def _instance(option: Option | None, value: Any) -> Any:
    """The object that the value of an option stands for: a Path, a class of another library."""
    if isinstance(value, Chosen):
        return made(value)
    if isinstance(value, list) and any(isinstance(item, Chosen) for item in value):
        return [_instance(option, item) for item in value]
    if option is None or option.has_plain_type or option.annotation is None:
        return value
    parser = _parser(option) if _is_written(value) else None
    if parser is None:
        return value
    return parser.instantiate(parser.parse_object({"value": value})).value


def _parser(option: Option) -> ArgumentParser | None:
    """A parser of one value; None for a type that jsonargparse cannot check."""
    try:
        return _parser_of(option.annotation)
    except (ValueError, TypeError):
        return None


@cache
def _parser_of(annotation: Any) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=annotation)
    return parser


# From chosen parts to objects and to text


def made(chosen: Any) -> Any:
    """The object or factory of a chosen part, or of each in a list."""
    if isinstance(chosen, list):
        return [made(each) for each in chosen]
    if not isinstance(chosen, Chosen):
        return chosen
    part = chosen.part
    options = {}
    for name, value in chosen.options.items():
        options[name] = _instance(part.options.get(name), value)
    cls = part.cls or load_class(part.path)
    return partial(cls, **options) if GIVEN[part.kind] else cls(**options)


def written(chosen: Any) -> Any:
    """A chosen part with every default as a config writes it, or each of a list."""
    if isinstance(chosen, list):
        return [written(each) for each in chosen]
    if not isinstance(chosen, Chosen):
        return chosen
    part = chosen.part
    options = {}
    for name, option in part.options.items():
        if name in chosen.options:
            options[name] = written_option(option, chosen.options[name])
        elif option.is_plain:
            options[name] = written_option(option, default_of(option))
    for name, value in chosen.options.items():
        options.setdefault(name, value)
    return short(part, options)


def default_of(option: Option) -> Any:
    """The default of an option with the option's type: 0.0 for 0 where numbers are expected."""
    if option.default is None or option.kind is not None:
        return option.default
    return typed(option, option.default)


def written_option(option: Option, value: Any) -> Any:
    """The value of an option as a config writes it: parts by name, paths in full."""
    if isinstance(value, Chosen | list):
        return written(value)
    if option.kind is not None and isinstance(value, str | Mapping):
        return written(choose(option.kind, value))
    if option.is_path and value and isinstance(value, str):
        return full_path(value)
    return value


def without_paths(kind: str, value: Any) -> Any:
    """A resolved value without options that name files or folders: equal wherever they lie."""
    return _without_paths(choose(kind, value))


def _without_paths(chosen: Any) -> Any:
    if not isinstance(chosen, Chosen):
        return chosen
    options = {}
    for name, value in chosen.options.items():
        option = chosen.part.options.get(name)
        if option is None or not option.is_path:
            options[name] = _without_paths(value)
    return short(chosen.part, options)


def full_path(path: str) -> str:
    """A path that means the same from every folder."""
    return str(Path(path).expanduser().absolute())


def short(part: PartSpec, options: Mapping[str, Any]) -> Any:
    """``{name: pair, scale: 2}``, or ``pair`` alone without options.

    Data sets, which have an option ``name`` of their own, and classes that are not registered have
    ``class_path`` and ``init_args``.
    """
    is_registered = part.cls is not None and registry.name_of(part.cls) == (part.kind, part.name)
    if is_registered and part.kind != "data" and "name" not in options:
        return {"name": part.name, **options} if options else part.name
    path = part.class_name if is_registered and part.kind == "data" else part.path
    return {"class_path": path, "init_args": dict(options)} if options else {"class_path": path}


# Sections: a model, a run, a trainer


def check_section(
    section: str, options: Mapping[str, Option], given: Any, known: Known = LIVE
) -> dict[str, Any]:
    """The given options of a section, such as ``model``, checked; see :func:`check`."""
    found = {}
    for key, value in given.items():
        if key not in options:
            near = suggestion(key, options)
            raise PartError(f"unknown key {key!r} in {section!r}.{near}", (section, key))
        found[key] = section_value(options[key], value, known, (section, key))
        for each in found[key] if isinstance(found[key], list) else [found[key]]:
            check_complete(each, (section, key))
    return found


def section_value(
    option: Option, value: Any, known: Known, where: Where, current: Any = None
) -> Any:
    """The value of an option of a section, in which a part may be left out or come in a list."""
    if option.kind is None:
        return option_value(option, value, known, where)
    return choose(option.kind, value, known, where, current)


def written_section(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """A section's options with every default, as a config writes them."""
    found = {}
    for name, option in options.items():
        value = given.get(name, option.default)
        if name not in given and option.kind is not None:
            value = choose(option.kind, value)
        found[name] = written_option(option, value)
    return found


def made_section(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The objects that the given options of a section stand for."""
    return {name: _instance(options[name], value) for name, value in given.items()}
