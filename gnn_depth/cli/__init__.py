"""The command ``gnn-depth``. Heavy imports wait until the requested command is known.

In all files here ``UsageError`` is raised for what was asked for wrongly, ``RunError`` where a run
cannot go on. Each command's ``main`` takes the arguments after its name and returns the exit code.
"""

import os
import sys
from importlib import import_module
from typing import Any

from gnn_depth import registry, signals
from gnn_depth._version import __version__
from gnn_depth.cli.errors import TRACEBACK, UsageError, explanation, on_screen

RUNS = {
    "fit": "Train a model, and write config, curves, metrics and checkpoints to a new run folder.",
    "validate": "Measure a model on the validation nodes.",
    "test": "Measure a trained model on the test nodes.",
    "predict": "Write the predictions for every node or graph to a file.",
    "inspect": "Show how your files would be read: gnn-depth inspect NODES EDGES.",
    "probe": "Show features, gradients and Lipschitz constants of every layer before training; "
    "writes no run folder.",
}
REPORTS = {
    "sweep": "Run a grid of runs, each once, on all cores or a cluster: gnn-depth sweep FILE.",
    "table": "Show runs as a table, beside published numbers if there are any: gnn-depth table "
    "FOLDER.",
    "plot": "Draw a figure of runs: gnn-depth plot KIND FOLDER --output FILE.",
    "reproduce": "Run the missing runs of a paper's table or figure, and compare: gnn-depth "
    "reproduce ITEM.",
    "range": "Show how many hops away a trained model's nodes read: gnn-depth range RUN.",
    "demo": "Train four networks on a small generated graph: what fails with depth, why, and what "
    "helps; half a minute.",
}
COMMANDS = {
    **RUNS,
    **REPORTS,
    "new": "Create a new part and a file of tests for it: gnn-depth new norm MyNorm.",
    "list": "Show the registered layers, norms, inits, skips and data sets: gnn-depth list "
    "[KIND]...",
}

MODULES = {"list": "listing"}  # a module called list would hide the type
UNREAD = 141  # 128 + SIGPIPE, as shells count


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: The arguments after ``gnn-depth``; those of this process by default.

    Returns:
        The exit code. 0: success, 1: the run diverged or failed, 2: usage error, 128 + N: stopped
        by signal N, as 130 by Ctrl-C. Bugs are raised.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        # Here and not at import: whoever imports the package keeps his own handlers.
        with signals.raise_on_signal():
            code = _dispatch(argv)
            sys.stdout.flush()  # so that a closed pipe is noticed here
            return code
    except BrokenPipeError:
        # The reader has closed it, as `head` does: print nothing more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception as error:
        known = explanation(error)
        if known is None or os.environ.get(TRACEBACK):
            raise
        said, code = str(known), 1
        if isinstance(known, UsageError):
            said, code = f"error: {known}", 2
    except KeyboardInterrupt as stop:
        code = signals.exit_code(stop)
        said = signals.SAID[code]
        if argv[:1] == ["fit"] and not getattr(stop, "has_folder", False):
            said = f"{said.rstrip('.')} before the training began: nothing was saved."
    except SystemExit as stop:
        status: Any = stop.code or 0
        # Lightning answers an interrupt by exiting with 1 once its callbacks have had their say.
        if isinstance(stop.__context__, KeyboardInterrupt):
            status = signals.exit_code(stop.__context__)
        said, code = signals.SAID.get(status, ""), status
        if isinstance(status, str):
            said, code = status, 1
    if said:
        print(on_screen(said), file=sys.stderr)
    return code


def _dispatch(argv: list[str]) -> int:
    command, *rest = argv or [""]
    if command in ("--version", "-V"):
        print(f"gnn-depth {__version__}")
        return 0
    if command in ("--help", "-h", "help"):
        print(usage())
        return 0
    if command not in COMMANDS:
        if not argv:
            raise UsageError(f"a command is missing.\n\n{usage()}")
        raise UsageError(registry.unknown("command", command, COMMANDS, also=["help"]))
    if command not in RUNS:
        from gnn_depth.cli.options import call

        module = import_module(f"gnn_depth.cli.{MODULES.get(command, command)}")
        return call(command, module.main, rest)

    from gnn_depth.cli.config import check_early, files_as_flags, index_of, read_arguments
    from gnn_depth.part_specs import SECTIONS

    arguments = read_arguments(files_as_flags(rest))
    known = index_of(command, arguments)
    for key, value in arguments.flags:
        section, _, last = key.rpartition(".")
        if last == "help" and section in ("", *SECTIONS):
            from gnn_depth.cli.listing import help_of

            named = dict(arguments.flags).get(section)
            if value is True and isinstance(named, str) and "." in named:
                value = named  # a class of the user's
            print(help_of(command, section, value, known))
            return 0
    # Names and values first: what follows imports PyTorch, which takes seconds.
    check_early(command, arguments, known)
    from gnn_depth.cli.run import run_command

    return run_command(command, arguments)


def usage() -> str:
    """The help of ``gnn-depth`` alone."""
    rows = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
    return (
        "usage: gnn-depth COMMAND [--config FILE]... [--OPTION VALUE]...\n\n"
        f"{rows}\n\n"
        f"gnn-depth COMMAND --help explains the options of a command; {TRACEBACK}=1 shows where in "
        "the code an error was raised.\n"
        "--trusted-only refuses configs that would import more than registered parts and known "
        "classes."
    )
