"""``gnn-depth list``, and every help of a run: ``fit --help``, ``fit --model.norm.help pair``."""

import argparse
import functools
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from gnn_depth import registry
from gnn_depth.cli import RUNS
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.config import add_own_options
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.known import CommandIndex
from gnn_depth.cli.options import Options
from gnn_depth.config_file import full_plugin_paths, to_yaml
from gnn_depth.part_specs import GIVEN, LIBRARIES, SECTIONS, Option, meanings

# What `--help` says of options whose description is another library's; the options of the trainer
# that it shows.
ABOUT = {
    "data": "Data set; a generated citation graph by default.",
    "trainer.max_epochs": "Number of epochs.",
    "trainer.max_time": "Time after which training stops: DAYS:HOURS:MINUTES:SECONDS.",
    "trainer.accelerator": "Device: cpu, gpu, mps, or auto for the best available.",
    "trainer.devices": "Number of devices, or a list of their indices.",
    "trainer.precision": "Floating-point precision: 32, 64, bf16-mixed, or 16-mixed on a GPU.",
    "trainer.callbacks": "Callbacks, for measures and early stopping: `gnn-depth list callbacks`.",
    "trainer.logger": "Loggers beside TensorBoard and CSV (`gnn-depth list loggers`); false turns "
    "all off.",
    "trainer.gradient_clip_val": "Clip the gradient to this norm.",
    "trainer.accumulate_grad_batches": "Number of batches per optimizer step.",
    "trainer.enable_progress_bar": "Show the progress.",
}
LIBRARY = ("lightning.", "torch.", "torch_geometric.", "pytorch_lightning.")
#: The usage of commands that cannot do without some options.
NEEDS = {"test": "--ckpt_path FILE ", "predict": "--ckpt_path FILE --output FILE "}
# The order of the help; the other options follow.
FIRST = ("layer", "num_layers", "hidden_channels", "norm", "skip", "init", "activation", "dropout")


def main(argv: list[str]) -> int:
    """Print the parts of some kinds, or of all."""
    options = parser().parse_args(argv)
    known = catalogue(full_plugin_paths(options.plugins, Path.cwd(), "--plugins"))
    if options.kinds:
        print(listing([_kind(word, known) for word in options.kinds], known))
    else:
        print(listing(registry.KINDS, known, only_registered=True))
    return 0


def parser() -> Options:
    options = Options(
        "list",
        "Show the registered parts of these kinds, or of all: name, options with types and "
        "defaults, and a summary. "
        "`gnn-depth fit --model.KIND.help NAME` and `--data.help NAME` tell more about one part.",
        "[KIND]... [--plugins FILE]...",
    )
    options.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(_kinds()))
    plugins = "Python file or module that registers parts; may be repeated"
    options.add_argument("--plugins", action="append", default=[], metavar="FILE", help=plugins)
    return options


def _kinds() -> list[str]:
    """Every kind once."""
    return list(dict.fromkeys((*registry.KINDS, *LIBRARIES)))


def _kind(word: str, known: CommandIndex) -> str:
    """A kind, in the singular or the plural."""
    for kind in _kinds():
        if word in (kind, f"{kind}s"):
            return kind
    message = registry.unknown("kind", word, _kinds())
    for section, kind in SECTIONS.items():
        if any(word in (each.name, each.shown) for each in known.parts[kind].values()):
            what = kind
            if kind == "data":
                what = "data set"
            message += f" {word} is a {what}: gnn-depth fit --{section}.help {word} explains it."
            break
    raise UsageError(message)


def listing(kinds: Iterable[str], known: CommandIndex, only_registered: bool = False) -> str:
    """Every part of these kinds, or the registered ones: name, options with types and defaults, and
    the first sentence of its docstring."""
    blocks = []
    for kind in kinds:
        rows = [kind]
        parts = list(known.parts[kind].values())
        if only_registered:
            parts = [part for part in parts if not part.path.startswith(LIBRARY)]
        for part in sorted(parts, key=lambda part: part.path.startswith(LIBRARY)):  # own first
            rows.append(f"  {part.shown}({', '.join(map(str, part.options.values()))})")
            paragraph = " ".join(part.doc.partition("\n\n")[0].split())
            sentence = re.split(r"(?<=\.) ", paragraph)[0]
            rows.append(f"      {sentence}")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


def help_of(
    command: str,
    key: str,
    word: str | None,
    known: CommandIndex,
    named: Sequence[tuple[str, str]],
) -> str:
    """The help that a command line asks for: of the command, or of a part, as ``--model.norm.help
    pair`` does.

    Args:
        command: The command.
        key: The option before ``.help``, or ``help``.
        word: What follows it.
        known: All parts and options.
        named: Options that name a part beside ``--help``, each with the name: their help is shown.
    """
    if key == "help" and named and word != "all":
        pages = [_help_of_part(section, name, known) for section, name in named]
        more = f"All other options: gnn-depth {command} --help."
        return "\n\n".join([*pages, more])
    if key == "help":
        return help_of_run(command, known, everything=word == "all")
    if word is None:
        return listing([SECTIONS[key]], known)
    return _help_of_part(key, word, known)


def _help_of_part(key: str, word: str, known: CommandIndex) -> str:
    """Describe a part and its options, written as flags below an option."""
    part = known.find(SECTIONS[key], word)
    about = part.doc.partition("\nArgs:")[0].strip()
    lines = [f"{part.kind} {part.name} ({part.path})", "", about, ""]
    meaning = meanings(part.doc)
    for name, option in part.options.items():
        lines += [f"  --{key}.{option}", f"      {meaning.get(name, '')}"]
    return "\n".join(lines).rstrip()


def help_of_run(command: str, known: CommandIndex, everything: bool) -> str:
    """Help on the options of a run; most options of the trainer are shown only on request."""
    parser = argparse.ArgumentParser(
        usage=f"gnn-depth {command} [NODES EDGES] {NEEDS.get(command, '')}[--config FILE]... "
        "[--OPTION VALUE]...",
        description=(
            f"{RUNS[command]} NODES and EDGES are two tables of your own: gnn-depth inspect NODES "
            "EDGES shows their columns (--data.help Tables). Options are merged in this "
            "order: defaults, config files, command line."
        ),
        epilog=f"All options of the trainer: gnn-depth {command} --help all. Options of a part: "
        "--model.norm.help NAME, --data.help NAME and so on.",
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=31),
        add_help=False,
    )
    titles, order = ["data", "model", "run", "trainer"], []
    if command != "fit":
        titles = ["run", "data", "model", "trainer"]
        order = ["ckpt_path", "output"]
    groups = {title: parser.add_argument_group(title) for title in titles}
    add_own_options(groups["run"].add_argument)
    order += [f"model.{name}" for name in (*FIRST, "optimizer", "scheduler")]
    shown: Collection[str] = ABOUT
    if everything:
        shown = known.options
    # The keys of a dict are unique, and stay where they came first.
    for name in dict.fromkeys([*order, *known.options]):
        section = name.partition(".")[0]
        if name not in known.options or (section == "trainer" and name not in shown):
            continue
        option = known.options[name]
        # argparse formats a help text with %.
        about = _about(option, known, everything).replace("%", "%%")
        group = groups.get(section, groups["run"])
        group.add_argument(f"--{name}", metavar=_metavar(option), help=about)
    return parser.format_help().rstrip()


def _metavar(option: Option) -> str:
    if option.kind in GIVEN:
        return "NAME"
    if option.nargs == 0:
        return ""
    types = {"int": "N", "float": "X", "bool": "BOOL"}
    return types.get(option.type.removesuffix(" | None"), "VALUE")


def _about(option: Option, known: CommandIndex, everything: bool) -> str:
    text = option.about
    if not everything:
        text = ABOUT.get(option.name) or re.split(r"(?<=[.;]) ", text)[0].rstrip(";.") + "."
    if option.range:
        text = f"{text.rstrip('.')} ({option.range})."
    if option.kind in registry.KINDS and option.kind not in LIBRARIES:
        text += f" One of: {', '.join(known.listed(option.kind))}."
    values = [choice for choice in option.choices if choice not in ("true", "false")]
    if (everything or option.name not in ABOUT) and not all(value in text for value in values):
        text += f" One of: {', '.join(values)}."
    default = option.default
    if option.kind is not None and default == []:
        return f"{text} [none]"
    if default is None or isinstance(default, list):
        return text
    if isinstance(default, dict):
        name = default.get("name") or default["class_path"]
        return f"{text} [{name.rpartition('.')[2]}]"
    return f"{text} [{to_yaml(default).splitlines()[0]}]"
