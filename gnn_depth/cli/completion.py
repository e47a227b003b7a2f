"""``gnn-depth completion``: TAB completion in bash and zsh, by argcomplete.

argcomplete asks an argparse parser which words may stand at the cursor. The parser of a run takes seconds to import, so
a plain one is built from the catalogue and from a cached list of the run's options.
"""

import argparse
import os
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import argcomplete
from argcomplete.completers import ChoicesCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from gnn_depth import registry
from gnn_depth.cli import COMMANDS, RUNS
from gnn_depth.cli.catalogue import cached, catalogue, choices, type_name
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options
from gnn_depth.short_names import LIBRARIES, SECTIONS


class Flag(NamedTuple):
    """An option of a run: its spellings, its number of values, and the choices; None for file names."""

    names: list[str]
    nargs: Any
    values: list[str] | None


def main(words: list[str]) -> int:
    """Print the script for a shell.

    Args:
        words: Command-line arguments after ``gnn-depth completion``.

    Raises:
        UsageError: There is no such shell.
    """
    shell = parser().parse_args(words).shell
    print(shellcode(["gnn-depth"], shell=shell))
    return 0


def parser() -> Options:
    """The options of the command."""
    options = Options(
        "completion",
        "Print a script for TAB completion in the shell. In ~/.bashrc or ~/.zshrc: "
        'eval "$(gnn-depth completion bash)", or zsh.',
        "bash | zsh",
    )
    options.add_argument("shell", choices=("bash", "zsh"), help="which shell")
    return options


def answer(**how: Any) -> None:
    """Write the possible completions at the cursor of ``$COMP_LINE`` for the shell's script, and end the process.

    Args:
        how: Options of argcomplete, for tests.
    """
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split()[1:]
    command = words[0] if words else ""
    argcomplete.autocomplete(_complete_parser(command, words), always_complete_options=command in RUNS, **how)


def _complete_parser(command: str, words: list[str]) -> argparse.ArgumentParser:
    """A parser of all commands, with the options of one."""
    top = argparse.ArgumentParser()
    top.add_argument("--version", action="store_true")
    commands = top.add_subparsers()
    for name in COMMANDS:
        if name != command:
            commands.add_parser(name)
        elif name in RUNS:
            _add_flags(commands.add_parser(name, add_help=False), _flags_of_run(name, words))
        else:
            options = import_module(f"gnn_depth.cli.{'listing' if name == 'list' else name}").parser()
            for action in options._actions:
                if name in ("list", "reproduce") and not action.option_strings:
                    action.completer = ChoicesCompleter(
                        dict.fromkeys(registry.KINDS if name == "list" else _items(), "")
                    )
            commands.add_parser(name, parents=[options], add_help=False)
    return top


def _items() -> Iterable[str]:
    from gnn_depth.cli.reproduce import names

    return names()


def _add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    for flag in flags:
        if flag.nargs == 0:
            parser.add_argument(*flag.names, action="store_true")
        else:
            action: Any = parser.add_argument(*flag.names, nargs=flag.nargs)
            action.completer = (
                FilesCompleter() if flag.values is None else ChoicesCompleter(dict.fromkeys(flag.values, ""))
            )


def _flags_of_run(command: str, words: list[str]) -> Iterator[Flag]:
    """The options of a run, and those of the parts that a command line names."""
    separate = [piece for word in words for piece in (word.split("=", 1) if word.startswith("--") else [word])]
    given = dict(pairwise(separate))
    plugins = [value for flag, value in pairwise(separate[:-1]) if flag == "--plugins"]
    try:
        parts = catalogue(plugins)
    except UsageError:  # one does not load
        parts = catalogue([])
    for names, nargs, values in cached("options", (), _import_flags, lambda content: content)[command]:
        kind = SECTIONS.get(names[0].removeprefix("--").removesuffix(".help"))
        if kind:
            values = [part.class_name if kind == "data" else part.name for part in parts[kind].values()]
        yield Flag(names, nargs, values)
    for key, kind in SECTIONS.items():
        named = [part for part in parts[kind].values() if given.get(f"--{key}") in (part.name, part.class_name)]
        if named or any(word.startswith(f"--{key}.") for word in words):
            options = {option.name: option for part in named or parts[kind].values() for option in part.options}
            yield from (Flag([f"--{key}.{name}"], None, option.choices) for name, option in options.items())


def _import_flags() -> dict[str, list[Flag]]:
    """The options of every run command, from its parser, for which everything has to be imported."""
    from gnn_depth.cli.assemble import CommandLineInterface
    from gnn_depth.cli.config import Arguments

    class Unparsed(CommandLineInterface):
        def parse_arguments(self, parser: Any, args: Any) -> None:
            self.config = {"seed_everything": False}

    found = {}
    for command in RUNS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning calls jsonargparse in ways that are deprecated
            actions = Unparsed(command, Arguments([], [], []), build=False).parser._actions
        found[command] = [_flag(action) for action in actions if any(n.startswith("--") for n in action.option_strings)]
        found[command].append(Flag(["--trusted-only"], "?", ["true", "false"]))  # read before everything else
    return found


def _flag(action: argparse.Action) -> Flag:
    names = [name for name in action.option_strings if name.startswith("--")]
    typed = getattr(action, "_typehint", None)
    if typed is None:
        return Flag(names, action.nargs, None)
    section, _, option = names[0].removeprefix("--").removesuffix(".help").partition(".")
    if section == "model" and option in LIBRARIES:
        return Flag(names, action.nargs, sorted(_library(option)))
    values = list(choices(typed))
    return Flag(names, action.nargs, None if not values and "str" in type_name(typed) else values)


def _library(option: str) -> Iterator[str]:
    """The names of torch's optimizers or schedules."""
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    base = {"optimizer": Optimizer, "scheduler": LRScheduler}[option]
    for module in LIBRARIES[option]:
        for name, cls in vars(import_module(module)).items():
            if isinstance(cls, type) and issubclass(cls, base) and cls is not base and not name.startswith("_"):
                yield name
