"""From files and flags to one config: read, merge, expand short names once, and write down what
ran.

::

    arguments = read_arguments(argv)           # config files with their lines, plugins, and the other arguments
    check_early(command, arguments, known)     # refuses wrong names and values by a cached catalogue, without PyTorch
    config = merge(arguments, known)           # defaults, then files, then flags; parts by class path from here on
    parsed = parse(config, arguments, known, parser)  # types and defaults, by jsonargparse
    resolved(parsed, parser)                   # what ran, by short names again: --print_config and the run's folder
"""

import copy
import warnings
from argparse import SUPPRESS
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from gnn_depth import registry
from gnn_depth.cli import trust
from gnn_depth.cli.config_file import Source, read_config, value_in
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.known import Known, meant_by, misfit, unknown_key
from gnn_depth.cli.options import Options
from gnn_depth.cli.outputs import check_output, check_predictions
from gnn_depth.short_names import (
    GROUPS,
    SECTIONS,
    Names,
    Option,
    Part,
    PartError,
    Where,
    contract,
    imported_parts,
)
from gnn_depth.yaml_limits import safe_load

if TYPE_CHECKING:
    from gnn_depth.training import NodeClassifier

# Options of the model that the data set determines, and the attributes of a data set that they are.
GIVEN_BY_DATA = {
    "in_channels": "num_features",
    "num_classes": "num_classes",
    "default_task": "task",
    "edge_channels": "num_edge_features",
}
PATHS = ("path", "nodes", "root")  # options of data sets that name files or folders
# The command line


@dataclass(frozen=True)
class Arguments:
    """The command-line arguments after the command."""

    sources: list[Source] = field(
        default_factory=list
    )  # the configs, in the order in which they are applied
    plugins: list[str] = field(
        default_factory=list
    )  # those of the configs first; files by their full path
    argv: list[str] = field(default_factory=list)  # all other arguments
    trusted: bool | None = None  # the value of --trusted-only; None if it is not given
    prints_config: bool = False  # whether to print the resolved config and stop

    def asked_help(self) -> tuple[str, str | None] | None:
        """The option and the name in a request for help, such as ``--help`` or ``--model.KIND.help
        NAME``."""
        for argument, following in pairwise([*self.argv, "-"]):
            flag, equals, value = argument.partition("=")
            key = "help" if flag == "-h" else flag.removeprefix("--")
            if key == "help" or (key.endswith(".help") and key.removesuffix(".help") in SECTIONS):
                word = value if equals else None if following.startswith("-") else following
                return key.removesuffix(".help"), word
        return None


def read_arguments(argv: list[str]) -> Arguments:
    """Separate configs and plugins from the other command-line arguments, and read the configs."""
    parser = Options("COMMAND", "", "[--config FILE]... [--OPTION VALUE]...", add_help=False)
    add_own_options(parser.add_argument)
    parser.add_argument("--plugins", action="append", default=[])
    own, rest = parser.parse_known_args(argv)
    sources = [read_config(text) for text in own.config]
    trusted = None if own.trusted_only is None else own.trusted_only == "true"
    if trusted:
        trust.refuse_unknown(sources)
    plugins = [plugin for source in sources for plugin in plugins_of(source)]
    plugins += [
        name
        for text in own.plugins
        for name in full_plugin_paths(_structure(text), Path.cwd(), "--plugins")
    ]
    return Arguments(sources, list(dict.fromkeys(plugins)), rest, trusted, own.print_config)


def add_own_options(add: Callable[..., Any]) -> None:
    """Add the options of every run that no config has."""
    add(
        "-c",
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="Config file, or name of a shipped one.",
    )
    add("--print_config", action="store_true", help="Print the resolved config, and stop.")
    choice = {
        "nargs": "?",
        "const": "true",
        "type": str.lower,
        "choices": ("true", "false"),
        "metavar": "BOOL",
    }
    add(trust.FLAG, **choice, help="Refuse configs that import anything but known classes.")
    add("--trusted_only", **choice, help=SUPPRESS)


def plugins_of(source: Source) -> list[str]:
    """A config's plugins; files are looked up from the config's folder, and given by their full
    path."""
    folder = Path(source.name).parent if source.is_file else Path.cwd()
    return full_plugin_paths(source.data.get("plugins"), folder, source.at(("plugins",)))


def full_plugin_paths(plugins: Any, folder: Path, where: str) -> list[str]:
    """Plugins with full paths, so that the resolved config runs from any folder."""
    names = [] if plugins is None else plugins if isinstance(plugins, list) else [plugins]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: plugins must be names of files or modules, not {plugins!r}.")
    return [str((folder / name).resolve()) if name.endswith(".py") else name for name in names]


# Merging


def merge(arguments: Arguments, known: Known, base: dict[str, Any] | None = None) -> dict[str, Any]:
    """The options from all sources, by dotted key: the base (of a checkpoint), config files in
    order, then flags."""
    merged = _Merged(known)
    for source in [Source("", base or {}), *arguments.sources]:
        try:
            merged.add(source.data)
        except PartError as error:  # of a checkpoint: a class of a plugin that is not here
            raise UsageError(
                f"{source.at(error.where)}: {error}" if source.name else str(error)
            ) from None
    if arguments.plugins:
        merged.options["plugins"] = arguments.plugins
    try:
        for flag, key, value in flags(arguments.argv, known):
            merged.set_flag(flag, key, value)
    except PartError as error:
        raise UsageError(str(error)) from None
    for key, part, given in _parts_of(merged.options, known):
        if part.graphs and isinstance(name := given.get("name"), str):
            graph = {graph.lower(): graph for graph in part.graphs}.get(name.lower())
            if graph is None:
                text = registry.unknown(f"{part.class_name} data set", name, part.graphs)
                raise _with_place(text, f"{key}.name", name, arguments, known)
            given["name"] = graph
        for option in part.options.values():
            # The parser accepts null for an option without a type.
            if option.is_required and given.get(option.name, "null" if option.type else None) in (
                None,
                "null",
            ):
                text = f"{part.class_name} needs {option.name}: --{key}.{option.name} VALUE."
                section = next(section for section, kind in SECTIONS.items() if kind == part.kind)
                text += f" --{section}.help {part.shown} explains its options."
                raise _with_place(text, key, None, arguments, known)
    return merged.options


def check_early(command: str, arguments: Arguments, known: Known) -> None:
    """Refuse what can be seen to be wrong before torch is imported."""
    if (
        value_of("ckpt_path", arguments, known) is None
    ):  # otherwise a checkpoint's options are the defaults
        _check_values(merge(arguments, known), arguments, known)
        if command in ("test", "predict"):
            raise UsageError(
                f"{command} needs a trained model: name one with --ckpt_path FILE. "
                "A fit leaves it in its run's folder, as checkpoints/best.ckpt."
            )
    if command == "predict":
        check_predictions(value_of("output", arguments, known))
    if command == "probe" and (page := value_of("html", arguments, known)):
        check_output(page, (".html",), "--html")


def value_of(key: str, arguments: Arguments, known: Known) -> Any:
    """The value of a top-level option before anything is merged; None if it is not given."""
    found = [source.data[key] for source in arguments.sources if key in source.data]
    found += [_structure(value) for _, name, value in flags(arguments.argv, known) if name == key]
    return found[-1] if found else None


class _Merged:
    """Options by dotted key that grow by one source after another, with parts by class path and
    arguments.

    Its methods raise a PartError where an option or a part does not exist.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.options: dict[str, Any] = {}

    def add(self, data: dict[str, Any]) -> None:
        """Merge a config."""
        if "config" in data:
            raise PartError(
                "a config file cannot include another; repeat --config instead.", ("config",)
            )
        for key, value in data.items():
            if value is None and key in (*GROUPS, "data"):
                continue  # all keys of the section are commented out
            if key not in GROUPS:
                self._set((key,), value)
            elif isinstance(value, dict):
                for option, inner in value.items():
                    self._set((key, option), inner)
            else:
                raise PartError(f"{key} consists of keys with values, not of {value!r}.", (key,))

    def set_flag(self, flag: str, key: str, value: Any) -> None:
        """Merge a flag: an option, or an option of the class that stands at an option."""
        top, *inner = _steps(key)
        if not inner:
            if value == "" and top in SECTIONS:
                raise PartError(f"{flag} needs a value.")
            self._set(
                tuple((f"{top}+" if flag.endswith("+") else top).split(".")), _structure(value)
            )
            return
        current = self._current(top)
        last = current[-1] if isinstance(current, list) and current else current
        last = {"class_path": last} if isinstance(last, str) else last
        if not isinstance(last, dict):
            raise PartError(f"{flag} has nothing to act on: choose with --{top} NAME before.")
        given = _nested(inner, _structure(value), last)
        if top in SECTIONS:
            changed = self.known.expand_one(SECTIONS[top], given, current=last)
        else:
            changed = _changed(given, last)
        self.options[top] = [*current[:-1], changed] if isinstance(current, list) else changed

    def _set(self, where: Where, value: Any) -> None:
        """Merge the value at a place of a config; one whose key ends with ``+`` is added to a
        list."""
        name = ".".join(map(str, where)).removesuffix("+")
        if name in [f"model.{given}" for given in GIVEN_BY_DATA]:
            raise PartError(f"{name!r} is taken from the data and cannot be set.", where)
        if name not in self.known.options:
            raise PartError(unknown_key(name, self.known), where)
        current, kind = self._current(name), SECTIONS.get(name)
        if str(where[-1]).endswith("+"):
            items = value if isinstance(value, list) else [value]
            items = [
                self.known.expand_one(kind, item, where, in_list=True) if kind else item
                for item in items
            ]
            value = [
                *(current if isinstance(current, list) else [current] if current else []),
                *items,
            ]
        else:
            value = (
                self.known.expand(kind, value, where, current) if kind else _changed(value, current)
            )
        self.options[name] = value

    def _current(self, name: str) -> Any:
        """The value of an option; options without a name change the default part."""
        return (
            self.options[name]
            if name in self.options
            else copy.deepcopy(self.known.options[name].default)
        )


def _nested(steps: list[str], value: Any, current: Any) -> Any:
    """``{a: {b: value}}`` for the steps a, b; an option that is a plain mapping keeps its other
    keys."""
    if not steps:
        return value
    is_part = isinstance(current, dict) and "class_path" in current
    options = (current.get("init_args") or {}) if is_part else current
    there = options.get(steps[0]) if isinstance(options, dict) else None
    nested = {steps[0]: _nested(steps[1:], value, there)}
    return nested if is_part or not isinstance(options, dict) else {**options, **nested}


def _changed(value: Any, current: Any) -> Any:
    """The value of an option after a source is merged; options without a class path change the
    class that is there."""
    if (
        isinstance(value, dict)
        and "class_path" not in value
        and isinstance(current, dict)
        and "class_path" in current
    ):
        return {
            **current,
            "init_args": {**(current.get("init_args") or {}), **value.get("init_args", value)},
        }
    return value


def flags(argv: list[str], known: Known) -> Iterator[tuple[str, str, Any]]:
    """The flags of a command line: as written, the option's key, and the value."""
    remaining = list(argv)
    while remaining:
        argument = remaining.pop(0)
        flag, equals, text = argument.partition("=")
        if not flag.startswith("--"):
            raise UsageError(f"unexpected argument {argument!r}: options begin with --.")
        key = flag[2:].removesuffix("+")
        top, *inner = _steps(key)
        if key in [f"model.{name}" for name in GIVEN_BY_DATA]:
            raise UsageError(f"{key!r} is taken from the data and cannot be set.")
        if top not in known.options or (inner and known.options[top].kind is None):
            raise UsageError(
                f"unknown option {flag!r}.{meant_by(key, known) or ' See --help for all.'}"
            )
        nargs = None if inner else known.options[top].nargs
        if nargs == 0:
            if equals:
                raise UsageError(f"{flag} takes no value, and got {text!r}.")
            yield flag, key, True
            continue
        values = [text] if equals else []
        takes_many = nargs == "+" and not equals
        while remaining and not remaining[0].startswith("--") and (takes_many or not values):
            values.append(remaining.pop(0))
        if not values:
            raise UsageError(f"{flag} needs a value.")
        yield flag, key, values if takes_many else values[0]


def _steps(key: str) -> list[str]:
    """The option of the command that a dotted key begins with, and the options below it without
    ``init_args``."""
    steps = key.split(".")
    depth = 2 if steps[0] in GROUPS else 1
    return [".".join(steps[:depth]), *(step for step in steps[depth:] if step != "init_args")]


def _structure(text: Any) -> Any:
    """A list, a mapping or null written as text on the command line; other text stays text, for the
    parser to type."""
    value = value_in(text) if isinstance(text, str) else text
    return value if isinstance(value, dict | list) or text == "null" else text


# Parsing, and what ran


def parse(
    options: dict[str, Any], arguments: Arguments, known: Known, parser: ArgumentParser
) -> Namespace:
    """Check the types of merged options and fill in defaults; an error names the place of the
    value."""
    _check_values(options, arguments, known)
    config: dict[str, Any] = {}
    for key, value in copy.deepcopy(options).items():
        section, _, name = key.rpartition(".")
        (config.setdefault(section, {}) if section else config)[name] = value
    try:
        return parser.parse_object(config)
    except (
        ArgumentError
    ) as error:  # of types and import paths: the value that does not fit says it better
        for key, option, value in _values(options, known):
            if text := misfit(key, option, value):
                raise _with_place(text, key, value, arguments, known) from error
        raise UsageError(str(error)) from error


def _check_values(options: dict[str, Any], arguments: Arguments, known: Known) -> None:
    """Refuse endless YAML, numbers out of their range, and null, which the parser takes for any
    option of a part."""
    trust.check_sizes(options)
    for key, option, value in _values(options, known):
        text = option.range.refusal(key, value) if option.range else None
        if value is None and option.default is not None and key not in known.options:
            text = misfit(key, option, None)
        if text:
            raise _with_place(text, key, value, arguments, known)


def _parts_of(options: dict[str, Any], known: Known) -> Iterator[tuple[str, Part, dict[str, Any]]]:
    """Every part of merged options, those inside others too: its key, its description, and its
    arguments."""

    def inside(key: str, kind: str, value: Any) -> Iterator[tuple[str, Part, dict[str, Any]]]:
        for item in value if isinstance(value, list) else [value]:
            if (
                isinstance(item, dict)
                and "class_path" in item
                and isinstance(item.get("init_args") or {}, dict)
            ):
                part, given = known.find(kind, item["class_path"]), item.get("init_args") or {}
                yield key, part, given
                for name, option in part.options.items():
                    if option.kind and name in given:
                        yield from inside(f"{key}.{name}", option.kind, given[name])

    for key, kind in SECTIONS.items():
        yield from inside(key, kind, options.get(key))


def _values(options: dict[str, Any], known: Known) -> Iterator[tuple[str, Option, Any]]:
    """Every merged value, those of parts too, with its dotted key and its option."""
    for key, value in options.items():
        yield key, known.options[key], value
    for key, part, given in _parts_of(options, known):
        for name, value in given.items():
            if name in part.options:
                yield f"{key}.{name}", part.options[name], value


def _with_place(text: str, key: str, value: Any, arguments: Arguments, known: Known) -> UsageError:
    """An error, with file and line if what it is about stands in a config file and not in a
    flag."""
    place = None
    if not any(f"{key}.".startswith(f"{flag}.") for _, flag, _ in flags(arguments.argv, known)):
        written = None if value is None else str(value)
        place = next(
            filter(None, (source.find(key, written) for source in reversed(arguments.sources))),
            None,
        )
    return UsageError(f"{place}: {text}" if place else text)


def resolved(parsed: Namespace, parser: ArgumentParser) -> dict[str, Any]:
    """A parsed config as plain values, with short names and every default: what ran."""
    return contract_config(safe_load(parser.dump(parsed, skip_unset=False, skip_validation=True)))


def to_yaml(config: dict[str, Any]) -> str:
    """A resolved config as the text of its file."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def contract_config(config: dict[str, Any]) -> dict[str, Any]:
    """Write the parts of a config by their short names; paths of data become full, for use from any
    folder."""
    short = dict(config)
    if "model" in config:
        short["model"] = _with_parts(config["model"], contract)
    if "data" in config:
        short["data"] = contract("data", full_paths(config["data"]))
    return short


def _with_parts(model: Mapping[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The section ``model`` with its parts written in another way."""
    return {
        name: change(name, value) if f"model.{name}" in SECTIONS else value
        for name, value in model.items()
    }


def full_paths(value: Any) -> Any:
    """A data set's class path and arguments with full paths."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(Path(item).expanduser().absolute())
        if key in PATHS and item and isinstance(item, str)
        else full_paths(item)
        for key, item in value.items()
    }


def known_to_model(data: Any) -> dict[str, Any]:
    """The options of the model that a data set determines."""
    return {option: getattr(data, attribute) for option, attribute in GIVEN_BY_DATA.items()}


def build_model(
    options: Mapping[str, Any], given: dict[str, Any], is_complete: bool = True
) -> "NodeClassifier":
    """Build the model of a config.

    Args:
        options: The section ``model``.
        given: The options that the data set determines.
        is_complete: Whether no option is missing; adding defaults is slow.

    Raises:
        ValueError: An option does not exist or does not fit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # jsonargparse warns of its own types
        content = {"model": _with_parts(options, Names(imported_parts()).expand) | given}
        try:
            parser = _model_parser()
            return parser.instantiate_classes(
                parser.parse_object(content, defaults=not is_complete)
            ).model
        except ArgumentError as error:
            raise ValueError(str(error)) from error


@cache
def _model_parser() -> ArgumentParser:
    from gnn_depth.training import NodeClassifier

    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(NodeClassifier, "model", sub_configs=True, fail_untyped=False)
    return parser
