"""From files and flags to one config, and the config that ran.

::

    arguments = read_arguments(argv)        # config files with their lines, plugins, and flags
    check_early(command, arguments, known)  # wrong names and values, by the cache, without PyTorch
    options = merge(arguments, known)       # defaults, then files, then flags: checked values
    resolved_config(options, known)         # what ran: --print_config and the run's folder
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from gnn_depth.builder import (
    Changes,
    PartError,
    PartIndex,
    completed,
    convert,
    options_to_config,
    set_option,
)
from gnn_depth.cli import trust
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import check_output
from gnn_depth.config_file import Source, read_config
from gnn_depth.part_specs import GIVEN_BY_DATA, GROUPS, Option, Where, choices, items_of
from gnn_depth.yaml_limits import value_in

SHORT = {"-c": "--config", "-h": "--help"}
#: Sections of LightningCLI, and ours.
SYNONYMS = {"optimizer": "model.optimizer", "lr_scheduler": "model.scheduler"}
#: What a config of LightningCLI lacks where its program names the class.
NO_CLASS = (
    "LightningCLI printed this file, and leaves out the classes of its program: add its data, as "
    "in --data Planetoid, and --model my_module.MyModule for a class of your own.\n"
)
#: Flags that need no value.
SWITCHES = ("help", "print_config", "trusted-only", "force")
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
    # All other flags, as flags_of reads them.
    flags: list[tuple[str, Any]] = field(default_factory=list)
    trusted: bool | None = None  # the value of --trusted-only; None if it is not given
    prints_config: bool = False  # whether to print the resolved config and stop
    words: Sequence[str] = ()  # of a sweep, as they were given

    @cached_property
    def layers(self) -> list[Source]:
        """All that is given, in the order in which it is applied."""
        return [*self.sources, *(Source("", nested(*flag)) for flag in self.flags)]

    @property
    def plugins(self) -> list[str]:
        """All plugins, which register the names that options may use; files by their full path."""
        return list(dict.fromkeys(plugin for source in self.layers for plugin in source.plugins))

    def value_of(self, key: str) -> Any:
        """The value of a top-level option before anything is merged; None if it is not given."""
        found = None
        for source in self.layers:
            found = source.data.get(key, found)
        return found


def index_of(command: str, arguments: Arguments) -> PartIndex:
    """The parts and options of a command."""
    return for_model(catalogue(arguments.plugins, command), command, arguments)


def for_model(known: PartIndex, command: str, arguments: Arguments) -> PartIndex:
    """These parts and options, in which ``model`` is a single option if it names a class of the
    user's."""
    if not any(_names_own_class(source.data.get("model")) for source in arguments.layers):
        return known
    if command not in ("fit", "validate", "test"):
        raise UsageError(
            f"{command} takes no class as --model. In Python, gnn_depth.probe takes any module; "
            "to predict, use load_from_checkpoint of the class."
        )
    if "" not in sys.path:
        sys.path.append("")  # the class may be in a file of this folder, as for LightningCLI
    others = {key: each for key, each in known.options.items() if not key.startswith("model.")}
    # Both are none by default: the class may have a configure_optimizers.
    schedule = known.options["model.scheduler"]
    optimizer = "Optimizer of all parameters, in place of configure_optimizers."
    own = {
        "model": Option(
            "model", kind="module", about="Your class, whose options --model.help shows."
        ),
        "optimizer": replace(schedule, name="optimizer", kind="optimizer", about=optimizer),
        "lr_scheduler": replace(schedule, name="lr_scheduler"),
    }
    return replace(known, options={**own, **others})


def _names_own_class(model: Any) -> bool:
    if isinstance(model, dict):
        model = model.get("class_path")
    return isinstance(model, str) and "." in model and model not in trust.OURS


def read_arguments(argv: list[str]) -> Arguments:
    """Separate configs from the other command-line arguments, and read them."""
    sources, rest = [], []
    switches: dict[str, bool] = {}
    for key, value in flags_of(argv):
        if key == "model.class_path":  # as LightningCLI's users name it
            key = "model"
        if key == "config":
            sources += [read_config(str(text)) for text in items_of(value)]
        elif key in ("print_config", "trusted-only"):
            switch = Option(f"--{key}", type="bool", choices=choices(bool))
            switches[key] = convert(switch, value)
        else:
            rest.append((key, value))
    trusted = switches.get("trusted-only")
    if trusted:  # long before a plugin is imported
        trust.refuse_unknown(sources)
    return Arguments(sources, rest, trusted, switches.get("print_config", False))


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
        if len(values) > 1 and values[0].startswith("["):
            raise UsageError(f"--{key} has a list in several words: put it in quotes, '[...]'.")
        if not values and key.rpartition(".")[2] not in SWITCHES:
            raise UsageError(f"--{key} needs a value.")
        value: Any = values or True
        if len(values) == 1:
            value = values[0]
        flags.append((key, value))
    return flags


def files_as_flags(argv: list[str]) -> list[str]:
    """A command line that begins with one or two files, with the flags that they stand for.

    ``nodes.csv edges.csv``: a table of nodes and one of edges; ``graph.npz``: both.
    """
    files = list(takewhile(lambda word: not word.startswith("-"), argv[:2]))
    rest = argv[len(files) :]
    if len(files) == 1 and Path(files[0]).suffix in ("", ".yaml", ".yml"):
        raise UsageError(
            f"{files[0]!r} is no graph: options begin with --, a run needs --ckpt_path, a config "
            f"--config {files[0]}."
        )
    if len(files) == 2:
        return ["--data", "Tables", "--data.nodes", files[0], "--data.edges", files[1], *rest]
    if files:
        return ["--data", "UserGraph", "--data.path", *files, *rest]
    return argv


# Merging


def merge(
    arguments: Arguments, known: PartIndex, base: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The checked options from all sources, by dotted key: the base (of a checkpoint), config files
    in order, then flags.

    Raises a UsageError that names file and line of what does not exist or does not fit.
    """
    options: dict[str, Any] = {}
    # Names of classes come first: a config of LightningCLI may hold their options alone.
    named = [Source("", nested(*flag)) for flag in arguments.flags if flag[0] in ("model", "data")]
    # The base has no lines: a checkpoint may name a class of a plugin that is not here.
    for source in [Source("", base or {}), *named, *arguments.layers]:
        try:
            for key, where, value in _entries(source.data, known):
                set_option(options, key, value, known, where)
        except PartError as error:
            place = f"{source.at(error.where)}: " if source.name else ""
            data = source.data.get("data") or {}
            if "weights_only" in source.data and "class_path" not in data and len(named) < 2:
                place = NO_CLASS + place
            raise UsageError(f"{place}{error}") from error
    plugins = arguments.plugins
    if plugins:
        options["plugins"] = plugins
    data = options.get("data")
    # The loaders of a user's DataModule do not share their batches among processes, as ours do.
    if data and data.part.cls and not hasattr(data.part.cls, "checksum"):
        options.setdefault("trainer.use_distributed_sampler", True)
    return completed(
        options, options.get("trainer.max_epochs", known.options["trainer.max_epochs"].default)
    )


def nested(key: str, value: Any) -> dict[str, Any]:
    """A flag as a config: ``{model: {norm: Changes(scale: 2)}}`` for ``model.norm.scale``."""
    steps = [step for step in key.split(".") if step != "init_args"]
    if len(steps) > 1 and steps[-1] == "class_path":  # as LightningCLI's users name a part
        del steps[-1]
    # Other text than a list, a mapping or null is read as the option's type says.
    if value == "null":
        value = None
    elif isinstance(value, str) and isinstance(value_in(value), dict | list):
        value = value_in(value)
    while len(steps) > 1:
        value = Changes({steps.pop(): value})
    return {steps[0]: value}


def _entries(config: dict[str, Any], known: PartIndex) -> Iterator[tuple[str, Where, Any]]:
    """The options in a config, each with its dotted name and its place."""
    for key, value in config.items():
        if value is None and key in (*GROUPS, "data", *SYNONYMS, "weights_only"):
            continue  # all its keys are commented out, or it is a default of LightningCLI
        if key == "seed_everything" and value is True:
            continue  # in LightningCLI's files it is the default seed
        where: Where = (key,)
        if key not in known.options:
            key = SYNONYMS.get(key, key)
        if key not in GROUPS or key in known.options:
            yield key, where, value
            continue
        if isinstance(value, dict) and value.get("class_path") in trust.OURS:  # as of LightningCLI
            where, value = (key, "init_args"), value.get("init_args") or {}
        if not isinstance(value, dict):
            raise PartError(f"{key} has options, such as --model.layer gat: not {value!r}.", where)
        for option, inner in value.items():
            if key == "model" and option in GIVEN_BY_DATA:  # a config of LightningCLI has it
                if known.dropped is not None:
                    known.dropped.append(f"model.{option} is left out: the data determines it.")
                continue
            name = f"{key}.{option}"
            if key == "trainer" and inner is None and name in known.options:
                inner = known.options[name].default  # as null is in LightningCLI
            yield name, (*where, option), inner


def check_early(command: str, arguments: Arguments, known: PartIndex) -> None:
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


def resolved_config(options: dict[str, Any], known: PartIndex) -> dict[str, Any]:
    """Checked options as a config with short names and every default: what ran."""
    config = by_section(options_to_config(known.options, options))
    if config.get("init_from") is None:  # as for most runs
        config.pop("init_from", None)
    return config


def by_section(options: dict[str, Any]) -> dict[str, Any]:
    """Dotted options as a nested mapping, as in a config."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        section, _, name = key.rpartition(".")
        inner = found
        if section:
            inner = found.setdefault(section, {})
        inner[name] = value
    return found
