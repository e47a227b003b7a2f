"""From files and flags to one config, and the config that ran.

::

    arguments = read_arguments(argv)        # config files with their lines, plugins, and flags
    check_early(command, arguments, known)  # wrong names and values, by the cache, without PyTorch
    options = merge(arguments, known)       # defaults, then files, then flags: checked values
    resolved_config(options, known)         # what ran: --print_config and the run's folder
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gnn_depth.builder import (
    PartChoice,
    PartError,
    check_complete,
    needs_name,
    option_value,
    options_to_config,
    select,
    unknown_option,
    with_length,
    with_options,
)
from gnn_depth.cli import trust
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.known import CommandIndex
from gnn_depth.cli.options import Options
from gnn_depth.cli.outputs import check_predictions
from gnn_depth.config_file import Source, full_plugin_paths, read_config
from gnn_depth.part_specs import GROUPS, SECTIONS, Where, items_of
from gnn_depth.yaml_limits import value_in

# The command line


@dataclass(frozen=True)
class Arguments:
    """The command-line arguments after the command."""

    # The configs, in the order in which they are applied.
    sources: list[Source] = field(default_factory=list)
    # Those of the configs first; files by their full path.
    plugins: list[str] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)  # all other arguments
    trusted: bool | None = None  # the value of --trusted-only; None if it is not given
    prints_config: bool = False  # whether to print the resolved config and stop

    def asked_help(self) -> tuple[str, str | None] | None:
        """The option and the name in a request for help, such as ``--help`` or ``--model.KIND.help
        NAME``."""
        for flag, following in self._pairs():
            key = flag.removeprefix("--")
            if flag == "-h":
                key = "help"
            of_part = key.endswith(".help") and key.removesuffix(".help") in SECTIONS
            if key != "help" and not of_part:
                continue
            word: str | None = following
            if following.startswith("-"):  # the next flag
                word = None
            return key.removesuffix(".help"), word
        return None

    def named_parts(self) -> list[tuple[str, str]]:
        """The options that name a part on the command line, each with the name."""
        found = []
        for flag, name in self._pairs():
            key = flag.removeprefix("--")
            if key in SECTIONS and not name.startswith(("-", "[", "{")):
                found.append((key, name))
        return found

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each argument without ``=VALUE``, and its value, or else the next argument."""
        for argument, following in pairwise([*self.argv, "-"]):
            flag, equals, value = argument.partition("=")
            if not equals:
                value = following
            yield flag, value


def read_arguments(argv: list[str]) -> Arguments:
    """Separate configs and plugins from the other command-line arguments, and read the configs."""
    parser = Options("COMMAND", "", "[--config FILE]... [--OPTION VALUE]...", add_help=False)
    add_own_options(parser.add_argument)
    parser.add_argument("--plugins", action="append", default=[])
    # Plugins register the names that all other options may use, so these are read first.
    own, rest = parser.parse_known_args(argv)
    sources = [read_config(text) for text in own.config]
    trusted = {None: None, "true": True, "false": False}[own.trusted_only]
    if trusted:  # before their plugins are looked up, and long before any is imported
        trust.refuse_unknown(sources)
    plugins = []
    for source in sources:
        plugins += source.plugins
    for text in own.plugins:
        plugins += full_plugin_paths(_structure(text), Path.cwd(), "--plugins")
    return Arguments(sources, list(dict.fromkeys(plugins)), rest, trusted, own.print_config)


def files_as_flags(argv: list[str]) -> list[str]:
    """A command line that begins with one or two files, with the flags that they stand for.

    ``nodes.csv edges.csv``: a table of nodes and one of edges; ``graph.npz``: both.
    """
    files = []
    for word in argv[:2]:
        if word.startswith("-"):
            break
        files.append(word)
    if not files:
        return argv
    rest = argv[len(files) :]
    if len(files) == 1 and files[0].endswith(".csv"):
        raise UsageError(
            f"{files[0]} is one table, and a graph has two: gnn-depth fit nodes.csv edges.csv "
            "--data.label COLUMN."
        )
    if len(files) == 1:
        return ["--data", "UserGraph", "--data.path", files[0], *rest]
    nodes, edges = files
    return ["--data", "Tables", "--data.nodes", nodes, "--data.edges", edges, *rest]


def add_own_options(add: Callable[..., object]) -> None:
    """Add the options of every run that no config has."""
    about = "Config file, or name of a shipped one."
    add("-c", "--config", action="append", default=[], metavar="FILE", help=about)
    add("--print_config", action="store_true", help="Print the resolved config, and stop.")
    add(
        trust.FLAG,
        nargs="?",
        const="true",
        type=str.lower,
        choices=("true", "false"),
        metavar="BOOL",
        help="Refuse configs that import anything but known classes.",
    )


# Merging


def merge(
    arguments: Arguments, known: CommandIndex, base: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The checked options from all sources, by dotted key: the base (of a checkpoint), config files
    in order, then flags.

    Raises a UsageError that names file and line of what does not exist or does not fit.
    """
    merged = _Merged(known)
    source = None
    try:
        for source in [Source("", base or {}), *arguments.sources]:
            merged.add(source)
        source = None
        if arguments.plugins:
            merged.options["plugins"] = arguments.plugins
        for flag, key, value in flags(arguments.argv, known):
            merged.set_flag(flag, key, value)
        if "model.scheduler" in merged.options:
            # After the flags, which may set either of the two.
            default = known.options["trainer.max_epochs"].default
            epochs = merged.options.get("trainer.max_epochs", default)
            schedule = merged.options["model.scheduler"]
            merged.options["model.scheduler"] = with_length(schedule, epochs)
        for key, value in merged.options.items():
            source = merged.origins.get(key)
            for part in items_of(value):
                check_complete(part, tuple(key.split(".")))
    except PartError as error:
        # The base has no lines: a checkpoint may name a class of a plugin that is not here.
        if source is None or not source.name:
            raise UsageError(str(error)) from error
        raise UsageError(f"{source.at(error.where)}: {error}") from error
    return merged.options


def check_early(command: str, arguments: Arguments, known: CommandIndex) -> None:
    """Refuse what can be seen to be wrong before torch is imported."""
    # With a checkpoint, its options are the defaults.
    if value_of("ckpt_path", arguments, known) is None:
        merge(arguments, known)
        if command in ("test", "predict"):
            raise UsageError(
                f"{command} needs a trained model: name one with --ckpt_path FILE. "
                "A fit leaves it in its run's folder, as checkpoints/best.ckpt."
            )
    if command == "predict":
        check_predictions(value_of("output", arguments, known))


def value_of(key: str, arguments: Arguments, known: CommandIndex) -> Any:
    """The value of a top-level option before anything is merged; None if it is not given."""
    found = None
    for source in arguments.sources:
        found = source.data.get(key, found)
    for _, name, value in flags(arguments.argv, known):
        if name == key:
            found = _structure(value)
    return found


class _Merged:
    """Checked options by dotted key, which grow by one source after another.

    Its methods raise a PartError where an option or a part does not exist or does not fit.
    """

    def __init__(self, known: CommandIndex) -> None:
        self.known = known
        self.options: dict[str, Any] = {}
        self.origins: dict[str, Source | None] = {}  # the file that chose an option's value
        self.flags_of_part: dict[str, str] = {}  # by option: a flag that sets an option of its part

    def add(self, source: Source) -> None:
        """Merge a config."""
        # Its place among the others would be unclear: which overrides which?
        if "config" in source.data:
            message = "a config file cannot include another; repeat --config instead."
            raise PartError(message, ("config",))
        for key, value in source.data.items():
            if value is None and key in (*GROUPS, "data"):
                continue  # all keys of the section are commented out
            if key not in GROUPS:
                self._set((key,), value, source)
            elif isinstance(value, dict):
                for option, inner in value.items():
                    self._set((key, option), inner, source)
            else:
                raise PartError(f"{key} consists of keys with values, not of {value!r}.", (key,))

    def set_flag(self, flag: str, key: str, value: Any) -> None:
        """Merge a flag: an option, or an option of the part that stands at an option."""
        top, *inner = _steps(key)
        where = tuple(top.split("."))
        if inner == ["class_path"]:  # as LightningCLI's users name a part
            inner = []
        if not inner:
            before = self.flags_of_part.get(top)
            if flag.endswith("+"):
                where = (*where[:-1], f"{where[-1]}+")
            elif before is not None:
                # --model.norm.scale 2 --model.norm pair: this flag would take that one's part.
                raise PartError(
                    f"{flag} {value} would drop {before}, given before it: name it first."
                )
            if value == "" and top in SECTIONS:
                raise PartError(f"{flag} needs a value.")
            self._set(where, _structure(value))
            return
        self.flags_of_part[top] = flag
        current = self._current(top)
        part = current
        if isinstance(current, list) and current:  # of several norms or callbacks the last one
            part = current[-1]
        if isinstance(part, str):
            part = {"class_path": part}  # a strategy or profiler that was named by a word
        if not isinstance(part, PartChoice | dict):
            kind = SECTIONS.get(top)
            if kind is not None:
                raise PartError(needs_name(kind, {inner[-1]: _structure(value)}), where)
            raise PartError(f"{flag} has nothing to act on: choose with --{top} NAME before.")
        given = _nested(inner, _structure(value), part)
        if isinstance(part, PartChoice):
            changed: Any = with_options(part, given, self.known, where)
        else:
            option = self.known.options[top]
            changed = option_value(option, _changed(given, part), self.known, where)
        if isinstance(current, list):
            changed = [*current[:-1], changed]
        self.options[top] = changed

    def _set(self, where: Where, value: Any, source: Source | None = None) -> None:
        """Merge the value at a place of a config; one whose key ends with ``+`` is added to a
        list."""
        name = ".".join(map(str, where)).removesuffix("+")
        if name not in self.known.options:
            message = unknown_option(name, self.known.options, self.known.parts)
            raise PartError(message, where)
        option, current = self.known.options[name], self._current(name)
        if str(where[-1]).endswith("+"):
            items = items_of(value)
            if option.kind is not None:
                items = select(option.kind, items, self.known, where)
            if current is not None:
                items = [*items_of(current), *items]
            value = items
        else:
            value = option_value(option, _changed(value, current), self.known, where, current)
        self.options[name] = value
        self.origins[name] = source

    def _current(self, name: str) -> Any:
        """The value of an option; options without a name change the default part."""
        if name in self.options:
            return self.options[name]
        option = self.known.options[name]
        if option.kind is not None and option.default is not None:
            return select(option.kind, option.default, self.known)
        return option.default


def _nested(steps: list[str], value: Any, current: Any) -> Any:
    """``{a: {b: value}}`` for the steps a, b; an option that is a plain mapping keeps its other
    keys."""
    if not steps:
        return value
    is_mapping = isinstance(current, dict) and "class_path" not in current
    if isinstance(current, PartChoice):
        options: Any = current.options
    elif isinstance(current, dict) and not is_mapping:
        options = current.get("init_args") or {}
    else:
        options = current
    there = None
    if isinstance(options, dict):
        there = options.get(steps[0])
    nested = {steps[0]: _nested(steps[1:], value, there)}
    if is_mapping:
        nested = {**current, **nested}
    return nested


def _changed(value: Any, current: Any) -> Any:
    """The value of an option of another library; options without a class path change the class
    that is there."""
    if not isinstance(value, dict) or "class_path" in value:
        return value
    if not isinstance(current, dict) or "class_path" not in current:
        return value
    given = value.get("init_args", value)
    return {**current, "init_args": {**(current.get("init_args") or {}), **given}}


def flags(
    argv: list[str], known: CommandIndex
) -> Iterator[tuple[str, str, bool | str | list[str]]]:
    """The flags of a command line: as written, the option's key, and the value."""
    remaining = list(argv)
    while remaining:
        argument = remaining.pop(0)
        flag, equals, text = argument.partition("=")
        if not flag.startswith("--"):
            raise UsageError(f"unexpected argument {argument!r}: options begin with --.")
        key = flag[2:].removesuffix("+")
        top, *inner = _steps(key)
        option = known.options.get(top)
        if option is None or (inner and option.kind is None and option.has_plain_type):
            if key in GROUPS:
                raise UsageError(f"{key} consists of keys with values: --{key}.OPTION VALUE.")
            wrong = key.partition(".")[0]  # of an unknown section the section alone is wrong
            if wrong in (*GROUPS, "data"):
                wrong = key
            raise UsageError(unknown_option(wrong, known.options, known.parts))
        nargs = option.nargs
        if inner:  # an option of the part that stands there takes one value
            nargs = None
        if nargs == 0:
            if equals:
                raise UsageError(f"{flag} takes no value, and got {text!r}.")
            yield flag, key, True
            continue
        takes_many = nargs == "+" and not equals
        values = []
        if equals:
            values.append(text)
        while remaining and not remaining[0].startswith("--") and (takes_many or not values):
            values.append(remaining.pop(0))
        if not values:
            raise UsageError(f"{flag} needs a value.")
        if takes_many:
            yield flag, key, values
        else:
            yield flag, key, values[0]


def _steps(key: str) -> list[str]:
    """The option of the command that a dotted key begins with, and the options below it without
    ``init_args``."""
    steps = key.split(".")
    depth = 1
    if steps[0] in GROUPS:  # model.norm is one option
        depth = 2
    found = [".".join(steps[:depth])]
    for step in steps[depth:]:
        if step != "init_args":
            found.append(step)
    return found


def _structure(text: Any) -> Any:
    """A list, a mapping or null written as text on the command line; other text stays text, to be
    read as the option's type says."""
    if text == "null":
        return None
    if not isinstance(text, str):
        return text
    value = value_in(text)
    if isinstance(value, dict | list):
        return value
    return text


# What ran


def resolved_config(options: dict[str, Any], known: CommandIndex) -> dict[str, Any]:
    """Checked options as a config with short names and every default: what ran."""
    found: dict[str, Any] = {}
    for key, value in options_to_config(known.options, options).items():
        if key == "init_from" and value is None:  # most runs have none
            continue
        section, _, name = key.rpartition(".")
        inner = found
        if section:
            inner = found.setdefault(section, {})
        inner[name] = value
    return found


def section(options: dict[str, Any], name: str) -> dict[str, Any]:
    """The options of a section, such as ``model``, without its name."""
    start = f"{name}."
    found = {}
    for key, value in options.items():
        if key.startswith(start):
            found[key.removeprefix(start)] = value
    return found
