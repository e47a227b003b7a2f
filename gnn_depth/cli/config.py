"""From files and flags to one config, and the config that ran.

::

    arguments = read_arguments(argv)        # config files with their lines, plugins, and flags
    check_early(command, arguments, known)  # wrong names and values, by the cache, without PyTorch
    options = merge(arguments, known)       # defaults, then files, then flags: checked values
    resolved_config(options, known)         # what ran: --print_config and the run's folder
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from gnn_depth.builder import (
    Changes,
    PartError,
    check_complete,
    option_value,
    options_to_config,
    select,
    unknown_option,
    with_length,
)
from gnn_depth.cli import trust
from gnn_depth.cli.catalogue import CommandIndex, catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import check_output
from gnn_depth.config_file import Source, full_plugin_paths, read_config
from gnn_depth.part_specs import GROUPS, Option, Where, items_of
from gnn_depth.yaml_limits import value_in

SHORT = {"-c": "--config", "-h": "--help"}
#: The class that the section ``model`` is for.
OURS = ("gnn_depth.NodeClassifier", "gnn_depth.training.NodeClassifier")
#: Sections of LightningCLI, and ours.
SYNONYMS = {"optimizer": "model.optimizer", "lr_scheduler": "model.scheduler"}
#: Flags that need no value.
SWITCHES = ("help", "print_config", "trusted-only", "force")
SWITCH = {"true": True, "false": False}
OWN_HELP = """\
  --config FILE, -c FILE
      Config file, or name of a shipped one; may be repeated.
  --model my_module.MyModule
      With fit: train your own LightningModule; its options are --model.NAME.
  --print_config
      Print the resolved config, and stop.
  --trusted-only
      Refuse configs that import anything but known classes."""


@dataclass(frozen=True)
class Arguments:
    """The command-line arguments after the command."""

    # The configs, in the order in which they are applied.
    sources: list[Source] = field(default_factory=list)
    # Those of the configs first; files by their full path.
    plugins: list[str] = field(default_factory=list)
    # All other flags, as flags_of reads them.
    flags: list[tuple[str, Any]] = field(default_factory=list)
    trusted: bool | None = None  # the value of --trusted-only; None if it is not given
    prints_config: bool = False  # whether to print the resolved config and stop

    def value_of(self, key: str) -> Any:
        """The value of a top-level option before anything is merged; None if it is not given."""
        found = None
        for source in self.sources:
            found = source.data.get(key, found)
        for flag, value in self.flags:
            if flag == key:
                found = _structure(value)
        return found


def index_of(command: str, arguments: Arguments) -> CommandIndex:
    """The parts and options of a command; if ``model`` names a class of the user's, it is a single
    option."""
    known = catalogue(arguments.plugins, command)
    flags = [Source("", nested(key, value)) for key, value in arguments.flags if key == "model"]
    if not any(_names_class(source.data.get("model")) for source in [*arguments.sources, *flags]):
        return known
    if command != "fit":
        raise UsageError(
            f"{command} takes no class as --model: fit trains it, and its load_from_checkpoint "
            "reads the checkpoint."
        )
    if "" not in sys.path:
        sys.path.append("")  # the class may be in a file of this folder, as for LightningCLI
    options = {"model": Option("model", kind="module")}
    for name, option in known.options.items():
        if not name.startswith("model."):
            options[name] = option
    return replace(known, options=options)


def _names_class(model: Any) -> bool:
    if isinstance(model, dict):
        model = model.get("class_path")
    return isinstance(model, str) and "." in model


def _of_our_model(source: Source) -> Source:
    """A config whose model is our class with ``init_args``, as LightningCLI's users write it, as
    one with these options."""
    model = source.data.get("model")
    if not isinstance(model, dict) or model.get("class_path") not in OURS:
        return source
    lines = {}
    for where, line in source.lines.items():
        if where[:2] == ("model", "init_args"):
            where = ("model", *where[2:])
        lines[where] = line
    data = {**source.data, "model": model.get("init_args") or {}}
    return replace(source, data=data, lines=lines)


def read_arguments(argv: list[str]) -> Arguments:
    """Separate configs and plugins from the other command-line arguments, and read the configs."""
    sources, of_flags, rest = [], [], []
    switches: dict[str, bool] = {}
    for key, value in flags_of(argv):
        if key == "model.class_path":  # as LightningCLI's users name it
            key = "model"
        if key == "config":
            sources += [_of_our_model(read_config(str(text))) for text in items_of(value)]
        elif key == "plugins":
            of_flags += full_plugin_paths(_structure(value), Path.cwd(), "--plugins")
        elif key in ("print_config", "trusted-only"):
            if str(value).lower() not in SWITCH:
                raise UsageError(f"--{key} must be true or false, not {value!r}.")
            switches[key] = SWITCH[str(value).lower()]
        else:
            rest.append((key, value))
    trusted = switches.get("trusted-only")
    if trusted:  # before their plugins are looked up, and long before any is imported
        trust.refuse_unknown(sources)
    # Plugins register the names that all other options may use.
    plugins = [plugin for source in sources for plugin in source.plugins] + of_flags
    prints_config = switches.get("print_config", False)
    return Arguments(sources, list(dict.fromkeys(plugins)), rest, trusted, prints_config)


def flags_of(argv: list[str]) -> list[tuple[str, Any]]:
    """The flags of a command line, each with the text after it: a list of several, True of none."""
    found: list[tuple[str, list[str]]] = []
    for word in argv:
        word = SHORT.get(word, word)
        if word.startswith("--"):
            key, *values = word.removeprefix("--").split("=", 1)
            found.append((key, values))
        elif not found:
            raise UsageError(f"unexpected argument {word!r}: options begin with --.")
        else:
            found[-1][1].append(word)
    flags: list[tuple[str, Any]] = []
    for key, values in found:
        value: Any = values
        if len(values) == 1:
            value = values[0]
        elif not values:
            value = True
            if key.rpartition(".")[2] not in SWITCHES:
                raise UsageError(f"--{key} needs a value.")
        flags.append((key, value))
    return flags


def files_as_flags(argv: list[str]) -> list[str]:
    """A command line that begins with one or two files, with the flags that they stand for.

    ``nodes.csv edges.csv``: a table of nodes and one of edges; ``graph.npz``: both.
    """
    files = list(takewhile(lambda word: not word.startswith("-"), argv[:2]))
    rest = argv[len(files) :]
    match files:
        case [nodes, edges]:
            return ["--data", "Tables", "--data.nodes", nodes, "--data.edges", edges, *rest]
        case [file] if file.endswith(".csv"):
            raise UsageError(
                f"{file} is one table, and a graph has two: gnn-depth fit nodes.csv edges.csv "
                "--data.label COLUMN."
            )
        case [file]:
            return ["--data", "UserGraph", "--data.path", file, *rest]
    return argv


# Merging


def merge(
    arguments: Arguments, known: CommandIndex, base: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The checked options from all sources, by dotted key: the base (of a checkpoint), config files
    in order, then flags.

    Raises a UsageError that names file and line of what does not exist or does not fit.
    """
    options: dict[str, Any] = {}
    of_flags = [Source("", nested(key, value)) for key, value in arguments.flags]
    # The base has no lines: a checkpoint may name a class of a plugin that is not here.
    for source in [Source("", base or {}), *arguments.sources, *of_flags]:
        try:
            for where, value in _entries(source.data, known):
                _set(options, where, value, known)
        except PartError as error:
            place = f"{source.at(error.where)}: " if source.name else ""
            raise UsageError(f"{place}{error}") from error
    if arguments.plugins:
        options["plugins"] = arguments.plugins
    if "model.scheduler" in options:
        epochs = options.get("trainer.max_epochs", known.options["trainer.max_epochs"].default)
        options["model.scheduler"] = with_length(options["model.scheduler"], epochs)
    for key, value in options.items():
        for part in items_of(value):
            check_complete(part, tuple(key.split(".")))
    return options


def nested(key: str, value: Any) -> dict[str, Any]:
    """A flag as a config: ``{model: {norm: Changes(scale: 2)}}`` for ``model.norm.scale``."""
    steps = [step for step in key.split(".") if step != "init_args"]
    if len(steps) > 1 and steps[-1] == "class_path":  # as LightningCLI's users name a part
        del steps[-1]
    value = _structure(value)
    while len(steps) > 1:
        value = Changes({steps.pop(): value})
    return {steps[0]: value}


def _entries(config: dict[str, Any], known: CommandIndex) -> Iterator[tuple[Where, Any]]:
    """The options in a config, each with its keys."""
    for key, value in config.items():
        if value is None and key in (*GROUPS, "data", *SYNONYMS, "weights_only"):
            continue  # all its keys are commented out, or it is a default of LightningCLI
        if key == "seed_everything" and value is True:
            continue  # in LightningCLI's files it is the default seed
        if key not in GROUPS or key in known.options:
            yield (key,), value
        elif isinstance(value, dict):
            for option, inner in value.items():
                yield (key, option), inner
        else:
            raise PartError(f"{key} consists of keys with values, not of {value!r}.", (key,))


def _set(options: dict[str, Any], where: Where, value: Any, known: CommandIndex) -> None:
    """Merge the value at a place of a config; one whose key ends with ``+`` is added to a list."""
    top, *rest = map(str, where)
    full = ".".join([SYNONYMS.get(top, top), *rest])
    name = full.removesuffix("+")
    if top in SYNONYMS and "model" in known.options:
        hint = "in configure_optimizers: delete the section."
        raise PartError(f"a class of your own makes its {top} itself, {hint}", where)
    if name not in known.options:
        raise PartError(unknown_option(name, known.options, known.parts), where)
    option = known.options[name]
    current = options.get(name, option.default)
    if name not in options:
        known = replace(known, dropped=None)  # only what was asked for is kept
        if option.kind is not None and current is not None:
            current = select(option.kind, current, known)  # options without a name change it
    if name == full:
        options[name] = option_value(option, value, known, where, current)
        return
    items = items_of(value)
    if option.kind is not None:
        items = select(option.kind, items, known, where)
    options[name] = [*items_of(current or []), *items]


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


def check_early(command: str, arguments: Arguments, known: CommandIndex) -> None:
    """Refuse what can be seen to be wrong before torch is imported."""
    # With a checkpoint, its options are the defaults.
    if arguments.value_of("ckpt_path") is None:
        merge(arguments, known)
        for note in dict.fromkeys(known.dropped or []):
            print(f"note: {note}", file=sys.stderr)
        if command in ("test", "predict"):
            raise UsageError(
                f"{command} needs a trained model: name one with --ckpt_path FILE. "
                "A fit leaves it in its run's folder, as checkpoints/best.ckpt."
            )
    if command == "predict":
        check_output(arguments.value_of("output") or "", [".csv"])


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
