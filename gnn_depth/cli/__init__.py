"""The command ``gnn-depth``. Nothing heavy is imported before it is known what was asked for."""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from gnn_depth import registry
from gnn_depth._version import __version__
from gnn_depth.cli.errors import RunError, UsageError

if TYPE_CHECKING:
    from gnn_depth.cli.words import CommandLine

RUNS = {
    "fit": "Train a model; its run gets a folder with config, curves, metrics and checkpoints.",
    "validate": "Measure a model on the validation nodes.",
    "test": "Measure a trained model on the test nodes.",
    "predict": "Write the class probabilities of every node to a file.",
    "probe": "Show features, gradients and Lipschitz constants of every layer before training; writes nothing.",
}
REPORTS = {
    "sweep": "Run a grid of runs, each once, on all cores or a cluster: gnn-depth sweep FILE.",
    "table": "Show runs as a table, beside published numbers if there are any: gnn-depth table FOLDER.",
    "plot": "Draw runs: gnn-depth plot KIND FOLDER --output FILE.",
    "reproduce": "Run what is missing of a paper's table or figure, and compare: gnn-depth reproduce ITEM.",
}
COMMANDS = {
    **RUNS,
    **REPORTS,
    "list": "Show the registered layers, norms, inits, skips and data sets: gnn-depth list [KIND]...",
}

INTERRUPTED = 130  # 128 + SIGINT, as shells count
TERMINATED = 143  # 128 + SIGTERM


def main(args: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        args: The words after ``gnn-depth``; those of this process by default.

    Returns:
        The exit code: 0 done, 1 diverged, 2 wrong usage, 130 interrupted, 143 terminated. Errors that are not the
        user's are raised.
    """
    words = list(sys.argv[1:] if args is None else args)
    try:
        return _dispatch(words)
    except UsageError as error:
        if os.environ.get("GNN_DEPTH_TRACEBACK"):
            raise
        return _say(f"error: {error}", 2)
    except RunError as error:
        return _say(str(error), 1)
    except KeyboardInterrupt as stop:
        if type(stop).__name__ == "Terminated":  # of a sweep
            return _say("terminated.", TERMINATED)
        return _say("interrupted.", INTERRUPTED)
    except SystemExit as stop:
        if type(stop).__name__ == "SIGTERMException":  # Lightning's, once its callbacks have saved what they save
            return _say("terminated.", TERMINATED)
        # Lightning answers Ctrl-C by exiting with 1 once its callbacks have saved what they save.
        if isinstance(stop.__context__, KeyboardInterrupt):
            return _say("interrupted.", INTERRUPTED)
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _say(str(stop.code), 1)


def _dispatch(words: list[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in ("--version", "-V"):
        print(f"gnn-depth {__version__}")
        return 0
    if command in ("--help", "-h", "help"):
        print(usage())
        return 0
    if command not in COMMANDS:
        raise UsageError(
            registry.unknown("command", command, COMMANDS) if command else f"a command is missing.\n\n{usage()}"
        )

    if command in REPORTS:
        return import_module(f"gnn_depth.cli.{command}").main(rest)
    from gnn_depth.cli import words as command_line

    line = command_line.split(rest)
    return _list(line) if command == "list" else _run(command, line)


def _run(command: str, line: "CommandLine") -> int:
    import gnn_depth.data
    import gnn_depth.nn  # noqa: F401  (registers every built-in part, so that a plugin cannot take its name)
    from gnn_depth.cli.words import check, load_plugins

    load_plugins(line.plugins)
    if (asked := line.asked_help()) is not None:
        from gnn_depth.cli.listing import help_of

        print(help_of(*asked))
        return 0
    check(line.configs)
    from gnn_depth.cli.run import run

    return run(command, line)


def _list(line: "CommandLine") -> int:
    from gnn_depth.cli.listing import listing
    from gnn_depth.cli.words import load_plugins

    load_plugins(line.plugins)
    print(listing(line.words))
    return 0


def usage() -> str:
    """The help of ``gnn-depth`` alone."""
    rows = [f"  {name:<10}{text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: gnn-depth COMMAND [--config FILE]... [--OPTION VALUE]...",
            "",
            "Train and diagnose deep graph neural networks.",
            "",
            *rows,
            "",
            "gnn-depth COMMAND --help explains the options of a command.",
            "GNN_DEPTH_TRACEBACK=1 shows where in the code an error of usage was found.",
        ]
    )


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
