"""``gnn-depth completion``: TAB completion in bash and zsh, by argcomplete.

argcomplete asks an argparse parser which words may stand at the cursor. The parser of a run takes
seconds to import, so a plain one is built from the catalogue.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import argcomplete
from argcomplete.completers import ChoicesCompleter
from argcomplete.shell_integration import shellcode

from gnn_depth import registry
from gnn_depth.cli import COMMANDS, RUNS
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.config import add_own_options
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options
from gnn_depth.config_file import shipped
from gnn_depth.part_specs import SECTIONS, Option


def main(argv: list[str]) -> int:
    """Print the script for a shell."""
    shell = parser().parse_args(argv).shell
    print(shellcode(["gnn-depth"], shell=shell))
    return 0


def parser() -> Options:
    options = Options(
        "completion",
        "Print a script for TAB completion in the shell. In ~/.bashrc or ~/.zshrc: "
        'eval "$(gnn-depth completion bash)", or zsh.',
        "bash | zsh",
    )
    options.add_argument("shell", choices=("bash", "zsh"), help="which shell")
    return options


def answer(**how: Any) -> None:
    """Write the possible completions at the cursor of ``$COMP_LINE`` for the shell's script, and
    end the process."""
    # Only what stands before the cursor decides what may stand at it.
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split()[1:]
    command = words[0] if words else ""
    argcomplete.autocomplete(
        _complete_parser(command, words), always_complete_options=command in RUNS, **how
    )


def _complete_parser(command: str, words: list[str]) -> argparse.ArgumentParser:
    """A parser of all commands, with the options of one."""
    top = argparse.ArgumentParser()
    top.add_argument("--version", action="store_true")
    commands = top.add_subparsers()
    for name in COMMANDS:
        if name != command:
            # Of the other commands the name is enough.
            commands.add_parser(name)
        elif name in RUNS:
            run = commands.add_parser(name)
            add_own_options(run.add_argument)
            for option in _options_of_run(name, words):
                if option.nargs == 0:
                    run.add_argument(f"--{option.name}", action="store_true")
                    continue
                action: Any = run.add_argument(f"--{option.name}", nargs=option.nargs)
                if option.choices or "str" not in option.type:  # of others, files are offered
                    action.completer = ChoicesCompleter(dict.fromkeys(option.choices, ""))
        else:
            options = import_module(
                f"gnn_depth.cli.{'listing' if name == 'list' else name}"
            ).parser()
            items = {"list": registry.KINDS, "reproduce": shipped("reproduce")}.get(name)
            for action in options._actions:
                if items and not action.option_strings:
                    action.completer = ChoicesCompleter(dict.fromkeys(items, ""))
            commands.add_parser(name, parents=[options], add_help=False)
    return top


def _options_of_run(command: str, words: list[str]) -> Iterator[Option]:
    """The options of a run, and those of the parts that a command line names."""
    pieces = []
    for word in words:
        pieces += word.split("=", 1) if word.startswith("--") else [word]
    given = dict(pairwise(pieces))
    plugins = [value for flag, value in pairwise(pieces[:-1]) if flag == "--plugins"]
    try:
        known = catalogue(plugins, command)
    except UsageError:  # one does not load
        known = catalogue([], command)
    for name, option in known.options.items():
        yield replace(option, choices=known.listed(SECTIONS[name])) if name in SECTIONS else option
    for key, kind in SECTIONS.items():
        yield Option(f"{key}.help", choices=known.listed(kind), nargs="?")
        parts = list(known.parts[kind].values())
        named = [part for part in parts if given.get(f"--{key}") in (part.name, part.class_name)]
        if not named and not any(word.startswith(f"--{key}.") for word in words):
            continue
        options: dict[str, Option] = {}
        # Without a name any part's options may follow.
        for part in named or parts:
            options.update(part.options)
        options.pop("help", None)
        for name, option in options.items():
            yield replace(option, name=f"{key}.{name}")
