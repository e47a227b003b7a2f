"""``gnn-depth fit | validate | test | predict | probe``: parse, assemble, run."""

from contextlib import nullcontext
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth.cli import predictions
from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.quiet import quiet, without_notes
from gnn_depth.cli.words import CommandLine
from gnn_depth.data.checks import DataError
from gnn_depth.runs import Origin
from gnn_depth.training import Diverged
from gnn_depth.training.recorder import report


def run(command: str, line: CommandLine) -> int:
    """Run a command to its end, and return the exit code.

    Raises:
        UsageError: Something that was asked for does not exist or does not fit.
        RunError: The training diverged, or its files cannot be written.
    """
    with quiet(), without_notes() if command == "probe" else nullcontext():
        cli = CommandLineInterface(command, line)
        if command == "fit" and cli.checkpoint and cli.checkpoint.is_complete(cli.trainer.max_epochs):
            print(f"{cli.checkpoint.path} is already complete: {cli.checkpoint.epochs} epochs.")
            return 0
        if command == "probe":
            from gnn_depth.cli.probe import probe

            print(probe(cli))
            return 0
        result = start(cli)
        if cli.trainer.is_global_zero:
            finish(cli, result)
    return 0


def start(cli: CommandLineInterface, origin: Origin | None = None) -> Any:
    """Do what was asked for, a fit with a folder, and return what the trainer returns.

    Args:
        cli: Data, model and trainer.
        origin: What a fit is part of; by default it stands alone.

    Raises:
        UsageError: Something that was asked for does not fit.
        RunError: The training diverged, or its files cannot be written.
    """
    try:
        if cli.command == "fit":
            cli.model.configure_optimizers()  # what is wrong with it is said before there is a folder
            cli.open_run(origin)
        begin = getattr(cli.trainer, cli.command)
        return begin(cli.model, datamodule=cli.datamodule, ckpt_path=cli.config.ckpt_path, weights_only=True)
    except (DataError, MisconfigurationException) as error:
        raise UsageError(str(error)) from error
    except Diverged as error:
        raise RunError(f"diverged: {error}") from error
    except RuntimeError as error:
        if "conditioned on metric" not in str(error):  # EarlyStopping's words for a metric that nobody logs
            raise
        raise UsageError(str(error)) from error
    except OSError as error:  # a full disk, a folder that went away
        raise RunError(f"stopped: {error}") from error


def finish(cli: CommandLineInterface, result: Any) -> None:
    """Say what came of a run, or write its predictions."""
    if cli.command == "predict":
        predictions.write(result, cli.config.output)
        print(f"class probabilities of {sum(len(batch) for batch in result)} nodes: {cli.config.output}")
    if cli.command == "fit" and cli.recorder.folder is not None:
        print(report(cli.recorder))
