"""From files and flags to one config: read, merge, expand short names once, and write down what ran.

A command line is read in one pass::

    arguments = read_arguments(argv)           # config files with their lines, plugins, and the other arguments
    config = merge(arguments, parser)          # defaults, then files, then flags; parts by class path from here on
    parsed = parse(config, arguments, parser)  # types and defaults, by jsonargparse
    resolved(parsed, parser)                   # what ran, by short names again: --print_config and the run's folder
"""

import copy
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from gnn_depth import registry
from gnn_depth.cli import trust
from gnn_depth.cli.config_file import Entry, Source, load_yaml, read_config
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.explain import Reason, explain, missing, suggestion
from gnn_depth.registry import nearest
from gnn_depth.short_names import (
    GROUPS,
    LIBRARIES,
    SECTIONS,
    PartError,
    Where,
    check_keys,
    contract,
    defaults,
    expand,
    expand_one,
    load_class,
    parameters,
)

GIVEN_BY_DATA = ("in_channels", "num_classes", "task")  # options of the model that the data set determines
PATHS = ("path", "nodes", "root")  # options of data sets that name files or folders

# The command line


@dataclass(frozen=True)
class Arguments:
    """The command-line arguments after the command.

    Attributes:
        sources: The configs, in the order in which they are applied.
        plugins: All plugins, those of the configs first; files by their full path.
        argv: All other arguments.
        trusted: The value of ``--trusted-only``; None if it is not given.
        prints_config: Whether to print the resolved config and stop.
    """

    sources: list[Source]
    plugins: list[str]
    argv: list[str]
    trusted: bool | None = None
    prints_config: bool = False

    def asked_help(self) -> tuple[str, str | None] | None:
        """The option that ``--model.KIND.help`` or ``--data.help`` asks about, and the part's name if given."""
        for position, argument in enumerate(self.argv):
            flag, equals, value = argument.partition("=")
            if flag.endswith(".help") and (key := flag[2:].removesuffix(".help")) in SECTIONS:
                following = self.argv[position + 1 : position + 2]
                return key, value if equals else next((w for w in following if not w.startswith("-")), None)
        return None


def read_arguments(argv: list[str]) -> Arguments:
    """Separate configs and plugins from the other command-line arguments, and read the configs.

    Raises:
        UsageError: A config is missing, malformed or not trusted; nothing that it names has been imported then.
    """
    trusted, rest = trust.take(argv)
    configs, rest = _take(("-c", "--config"), rest)
    sections, rest = _take(tuple(f"--{group}" for group in GROUPS), rest)
    named, rest = _take(("--plugins",), rest)
    sources = [part for _, text in configs for part in read_sources(text)]
    sources += [part for flag, text in sections for part in _with_sections(Source(flag, {flag[2:]: _structure(text)}))]
    if trusted:
        trust.refuse_unknown(sources)
    plugins = [plugin for source in sources for plugin in plugins_of(source)]
    plugins += [_full_path(name, Path.cwd()) for _, text in named for name in _names(_structure(text), "--plugins")]
    argv = [argument for argument in rest if argument != "--print_config"]
    return Arguments(sources, list(dict.fromkeys(plugins)), argv, trusted, prints_config=argv != rest)


def read_sources(name: str) -> list[Source]:
    """Read a config file and the files that its sections name.

    Raises:
        UsageError: One of them cannot be read.
    """
    return _with_sections(read_config(name))


def _with_sections(source: Source) -> list[Source]:
    """A config, followed by the sections that are in separate files: ``trainer: trainer.yaml``.

    Raises:
        UsageError: One of them cannot be read.
    """
    found = [source]
    for group in GROUPS:
        name = source.data.get(group)
        if not isinstance(name, str):
            continue
        folders = [Path(source.name).parent, Path()] if source.is_file else [Path()]
        path = next((path for folder in folders if (path := folder / Path(name).expanduser()).is_file()), None)
        if path is None:
            place = f"{source.at((group,))}: " if source.is_file else ""
            raise UsageError(f"{place}{group} must be a mapping, and {name!r} is not a file that contains one.")
        inner = read_config(str(path))
        entries = [Entry((group, *entry.where), entry.line, entry.text) for entry in inner.entries]
        found[0] = Source(source.name, {k: v for k, v in found[0].data.items() if k != group}, source.entries)
        found.append(Source(inner.name, {group: inner.data}, entries))
    return found


def _take(flags: tuple[str, ...], argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The values of repeatable options, each with its flag, and the other arguments."""
    values, rest, remaining = [], [], iter(argv)
    for argument in remaining:
        flag, equals, value = argument.partition("=")
        if flag not in flags:
            rest.append(argument)
            continue
        text = value if equals else next(remaining, None)
        if not text:
            raise UsageError(f"{flag} needs a value.")
        values.append((flag, text))
    return values, rest


def plugins_of(source: Source) -> list[str]:
    """A config's plugins; files are looked up from the config's folder, and given by their full path."""
    folder = Path(source.name).parent if source.is_file else Path.cwd()
    return [_full_path(name, folder) for name in _names(source.data.get("plugins"), source.at(("plugins",)))]


def _names(value: Any, where: str) -> list[str]:
    names = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: plugins must be names of files or modules, not {value!r}.")
    return names


def _full_path(plugin: str, folder: Path) -> str:
    # A full path, so that the resolved config runs from any folder.
    return str((folder / plugin).resolve()) if plugin.endswith(".py") else plugin


def load_plugins(plugins: list[str]) -> None:
    """Import the plugins of installed packages, with a warning for those that fail, and then the named plugins.

    Raises:
        UsageError: A plugin that was named does not load.
    """
    import gnn_depth.data
    import gnn_depth.nn  # noqa: F401  (registers every built-in part, so that a plugin cannot take its name)

    for failure in registry.load_entry_points():
        print(f"warning: {failure}", file=sys.stderr)
    try:
        for plugin in plugins:
            registry.load_plugin(plugin)
    except registry.RegistryError as error:
        raise UsageError(str(error)) from error.__cause__


# Merging


def merge(arguments: Arguments, parser: ArgumentParser, base: dict[str, Any] | None = None) -> dict[str, Any]:
    """One config from all sources: the base, the config files in order, then the flags.

    Args:
        arguments: Files and flags.
        parser: Knows the options.
        base: A checkpoint's model and data, which stand in for the defaults.

    Raises:
        UsageError: An option or a part does not exist; a config's file and line are named.
    """
    config = _Merged(parser)
    try:
        config.add(base or {})
    except PartError as error:  # a class of a plugin that is not here
        raise UsageError(str(error)) from None
    for source in arguments.sources:
        try:
            config.add(source.data)
        except PartError as error:
            raise UsageError(f"{source.at(error.where)}: {error}") from None
    if arguments.plugins:
        config.content["plugins"] = arguments.plugins
    for flag, key, value in flags(arguments.argv, parser):
        try:
            config.set_flag(flag, key, value)
        except PartError as error:
            raise UsageError(str(error)) from None
    return config.said()


def value_of(key: str, arguments: Arguments, parser: ArgumentParser) -> Any:
    """The value of a top-level option before anything is merged; None if it is not given."""
    found = [source.data[key] for source in arguments.sources if key in source.data]
    found += [_structure(value) for _, name, value in flags(arguments.argv, parser) if name == key]
    return found[-1] if found else None


class _Merged:
    """A config that grows by one source after another, with parts by class path and arguments.

    Args:
        parser: Knows the options and their defaults.
    """

    def __init__(self, parser: ArgumentParser) -> None:
        self.keys = [action.dest for action in parser._actions if action.dest not in ("help", "config", "print_config")]
        self.content: dict[str, Any] = {group: {} for group in GROUPS}
        # Options without a name change the default part.
        self._parts = {
            key: _plain(parser.get_default(key)) for key in (*SECTIONS, "model.optimizer", "model.scheduler")
        }

    def add(self, data: dict[str, Any]) -> None:
        """Merge a source.

        Raises:
            PartError: A key or a part does not exist.
        """
        if "config" in data:
            raise PartError("a config file cannot include another; repeat --config instead.", ("config",))
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
        """Merge a flag: an option, or an option of the class that stands at an option.

        Raises:
            PartError: A part or an option of a part does not exist.
        """
        steps = tuple(key.split("."))
        depth = 2 if steps[0] in GROUPS else 1
        top, inner = steps[:depth], [step for step in steps[depth:] if step != "init_args"]
        if not inner:
            if value == "" and _takes_class(".".join(top)):
                raise PartError(f"{flag} needs a value.", ())
            self._set(top if not flag.endswith("+") else (*top[:-1], f"{top[-1]}+"), _structure(value))
            return
        given: Any = _structure(value)
        for step in reversed(inner):
            given = {step: given}
        name = ".".join(top)
        current = self._current(name)
        current = _structure(current) if isinstance(current, str) else current
        last = current[-1] if isinstance(current, list) and current else current
        last = {"class_path": last} if isinstance(last, str) else last
        if not isinstance(last, dict):
            raise PartError(f"{flag} has nothing to act on: choose with --{name} NAME before.", ())
        changed = _changed(name, given, last, ())
        self._put(top, [*current[:-1], changed] if isinstance(current, list) else changed)

    def said(self) -> dict[str, Any]:
        """The config, without empty sections."""
        return {key: value for key, value in self.content.items() if value or key not in GROUPS}

    def _set(self, where: tuple[str, ...], value: Any) -> None:
        *above, last = where
        top = (*above, last.removesuffix("+"))
        name = ".".join(top)
        if name.partition(".")[2] in GIVEN_BY_DATA:
            raise PartError(f"{top[-1]!r} is taken from the data and cannot be set.", where)
        if name not in self.keys:
            raise PartError(_unknown_key(top, self.keys), where)
        current = self._current(name)
        if last.endswith("+"):
            items = value if isinstance(value, list) else [value]
            kind = SECTIONS.get(name)
            items = [expand_one(kind, item, where, in_list=True) if kind else item for item in items]
            current = _structure(current) if isinstance(current, str) else current
            there = current if isinstance(current, list) else [] if current is None else [current]
            self._put(top, [*there, *items])
        else:
            self._put(top, _changed(name, value, current, where))

    def _current(self, name: str) -> Any:
        section, _, option = name.rpartition(".")
        content = self.content[section] if section else self.content
        return content[option] if option in content else self._parts.get(name)

    def _put(self, where: tuple[str, ...], value: Any) -> None:
        content = self.content[where[0]] if len(where) == 2 else self.content
        if where == ("trainer", "callbacks") and isinstance(value, dict | str):
            value = [value]  # of a callback outside a list the parser would only say that it is not a list
        content[where[-1]] = value


def _changed(name: str, value: Any, current: Any, where: Where) -> Any:
    """The value of an option after a source is merged; options of a class change the class already chosen."""
    if kind := SECTIONS.get(name):
        if isinstance(value, dict) and isinstance(current, dict) and not where:
            return expand_one(kind, value, where, current=current)  # a flag that changes one of several norms
        return expand(kind, value, where, current)
    section, _, option = name.partition(".")
    if section == "model" and option in LIBRARIES:
        return _expand_library(option, value, where, current)
    if isinstance(value, dict) and "class_path" not in value and isinstance(current, dict) and "class_path" in current:
        return {**current, "init_args": {**(current.get("init_args") or {}), **value.get("init_args", value)}}
    return value


def _expand_library(key: str, value: Any, where: Where, current: Any) -> Any:
    """An optimizer or a schedule with the defaults of its class, found by class name or import path.

    Raises:
        PartError: Something stands beside class_path and init_args, or it is named as a part of this package is.
    """
    name = value.get("class_path") if isinstance(value, dict) else value
    if isinstance(value, dict) and name is not None:
        check_keys(value, where)
    if isinstance(value, dict) and name is None:
        if "name" in value:
            given = ", ".join(f"{option}: {item}" for option, item in value.items() if option != "name")
            form = f"class_path: {value['name']}" + (f", init_args: {{{given}}}" if given else "")
            raise PartError(f"a class of a library is named by class_path: {key}: {{{form}}}.", (*where, "name"))
        if not isinstance(current, dict):
            return value
        options = value["init_args"] if list(value) == ["init_args"] else value
        return {**current, "init_args": {**(current.get("init_args") or {}), **options}}
    if not isinstance(name, str):
        return value
    paths = [name] if "." in name else [f"{module}.{name}" for module in LIBRARIES[key]]
    found = [(path, cls) for path in paths if isinstance(cls := load_class(path), type)]
    if "." not in name:  # a module also has names in it that others define
        found = [(path, cls) for path, cls in found if cls.__module__.startswith(path.rpartition(".")[0])]
    if not found:
        return value  # the parser explains what is wrong with it
    path, cls = found[0]
    arguments = value.get("init_args") or {} if isinstance(value, dict) else {}
    # The parser alone would hand options on from the class that stood there before. The first argument of a class is
    # the parameters, or the optimizer.
    return {"class_path": path, "init_args": defaults(parameters(cls, 1)) | arguments}


def flags(argv: list[str], parser: ArgumentParser) -> Iterator[tuple[str, str, Any]]:
    """The flags of a command line: as written, the option's key, and the value.

    Raises:
        UsageError: A flag does not exist or lacks its value.
    """
    actions = parser._option_string_actions
    remaining = list(argv)
    while remaining:
        argument = remaining.pop(0)
        flag, equals, text = argument.partition("=")
        if not flag.startswith("--"):
            raise UsageError(f"unexpected argument {argument!r}: options begin with --.")
        key = flag[2:].removesuffix("+")
        action = actions.get(flag.removesuffix("+"))
        if action is None and not _is_below_class(key, actions):
            raise UsageError(_unknown_flag(flag, actions))
        if action is not None and action.nargs == 0:
            yield flag, action.dest, True
        elif action is not None and action.nargs in ("+", "*") and not equals:
            values = []
            while remaining and not remaining[0].startswith("--"):
                values.append(remaining.pop(0))
            if not values and action.nargs == "+":
                raise UsageError(f"{flag} needs a value.")
            yield flag, key, values
        else:
            if not equals and (not remaining or remaining[0].startswith("--")):
                raise UsageError(f"{flag} needs a value.")
            yield flag, key, text if equals else remaining.pop(0)


def _takes_class(name: str) -> bool:
    return name in SECTIONS or name.partition(".")[2] in LIBRARIES


def _is_below_class(key: str, actions: dict[str, Any]) -> bool:
    """True if a key is an option of the class at another key: ``trainer.logger.save_dir``."""
    steps = key.split(".")
    depth = 2 if steps[0] in GROUPS else 1
    return len(steps) > depth and f"--{'.'.join(steps[:depth])}.help" in actions


def _unknown_flag(flag: str, actions: dict[str, Any]) -> str:
    known = [name for name in actions if name.startswith("--") and not name.endswith("+")]
    # If no flag is similar, one that has the word as a piece: --seed_everything for --seed.
    pieces = (name for name in sorted(known, key=len) if flag[2:] in re.split(r"[._]", name[2:]))
    near = nearest(flag, known) or next(pieces, None)
    return f"unknown option {flag!r}." + (f" Did you mean {near!r}?" if near else " See --help for all.")


def _unknown_key(where: tuple[str, ...], keys: list[str]) -> str:
    *above, key = where
    start = "".join(f"{step}." for step in above)
    within = {name.removeprefix(start).split(".")[0] for name in keys if name.startswith(start)}
    within -= {"help", *(GIVEN_BY_DATA if above == ["model"] else ())}
    what = f"unknown key {key!r} in {start[:-1]!r}" if above else f"unknown key {key!r}"
    grid = " A grid of runs is for gnn-depth sweep." if key in ("base", "axes", "rules") else ""
    return f"{what}.{suggestion(key, within)}{grid}"


def _structure(text: Any) -> Any:
    """A list, a mapping or null written as text on the command line; other text stays text, for the parser to type."""
    try:
        value = load_yaml(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return text
    return value if isinstance(value, dict | list) or text == "null" else text


def _plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, Namespace) else copy.deepcopy(value)


# Parsing, and what ran


def parse(config: dict[str, Any], arguments: Arguments, parser: ArgumentParser) -> Namespace:
    """Check the types of a merged config and fill in defaults.

    Raises:
        UsageError: A value has the wrong type, or a class does not exist or lacks an option; its place is named.
    """
    if reason := missing(config):
        raise UsageError(_with_place(reason, arguments, parser))
    try:
        return parser.parse_object(copy.deepcopy(config))
    except ArgumentError as error:
        reason = explain(config, parser)
        raise UsageError(_with_place(reason, arguments, parser) if reason else str(error)) from error


def _with_place(reason: Reason, arguments: Arguments, parser: ArgumentParser) -> str:
    """A reason, with file and line if the value comes from a config file rather than a flag."""
    if any(f"{reason.key}.".startswith(f"{key}.") for _, key, _ in flags(arguments.argv, parser)):
        return reason.text
    places = (source.find(reason.key, reason.value) for source in reversed(arguments.sources))
    place = next(filter(None, places), None)
    return f"{place}: {reason.text}" if place else reason.text


def resolved(parsed: Namespace, parser: ArgumentParser) -> dict[str, Any]:
    """A parsed config as plain values, with short names and every default: what ran."""
    return contract_config(yaml.safe_load(parser.dump(parsed, skip_unset=False, skip_validation=True)))


def to_yaml(config: dict[str, Any]) -> str:
    """A resolved config as the text of its file."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def contract_config(config: dict[str, Any]) -> dict[str, Any]:
    """Write the parts of a config by their short names; paths of data become full, for use from any folder."""
    return _at_parts(config, lambda kind, value, _: contract(kind, full_paths(value) if kind == "data" else value))


def expand_config(config: dict[str, Any]) -> dict[str, Any]:
    """Write the parts of a resolved config by class path and arguments.

    Raises:
        PartError: A part or an option does not exist.
    """
    return _at_parts(config, expand)


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


def _at_parts(config: dict[str, Any], change: Callable[[str, Any, Where], Any]) -> dict[str, Any]:
    config = dict(config)
    if isinstance(model := config.get("model"), dict):
        config["model"] = {
            key: change(key, value, ("model", key)) if f"model.{key}" in SECTIONS else value
            for key, value in model.items()
        }
    if "data" in config:
        config["data"] = change("data", config["data"], ("data",))
    return config
