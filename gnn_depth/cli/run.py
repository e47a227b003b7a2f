"""``gnn-depth fit | validate | test | predict | probe``: parse, build, run."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import distributed

from gnn_depth.cli import checkpoints, process
from gnn_depth.cli.assemble import CommandLineInterface, resolve
from gnn_depth.cli.config import Arguments, index_of
from gnn_depth.cli.errors import explained
from gnn_depth.cli.outputs import plain_warnings, write_whole
from gnn_depth.config_file import to_yaml
from gnn_depth.runs import Origin
from gnn_depth.signals import raise_on_signal
from gnn_depth.training.divergence import check_parts
from gnn_depth.training.finished import Run
from gnn_depth.training.loggers import in_digits, quiet
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.prediction import WORDS, predictions_of
from gnn_depth.training.resume import SafeStop
from gnn_depth.training.run import run, title
from gnn_depth.training.summary import rows


def run_command(command: str, arguments: Arguments) -> int:
    """Run a command and return its exit code."""
    with quiet(), plain_warnings():
        if arguments.prints_config:
            # Before a checkpoint is looked for: what is printed is what was asked for.
            print(to_yaml(resolve(arguments, index_of(command, arguments))), end="")
            return 0
        cli = CommandLineInterface(command, arguments)
        if command == "inspect":
            from gnn_depth.cli.inspect import inspect_data

            # One by one: the columns stand before the error that is about them.
            for part in inspect_data(cli.datamodule, arguments.flags):
                print(f"{part}\n")
            return 0
        print(_answer(command, cli), end="")
        if distributed.is_available() and distributed.is_initialized():
            # Threads that outlive Python abort the process at exit (pytorch/pytorch#190489).
            distributed.destroy_process_group()
    return 0


def _answer(command: str, cli: CommandLineInterface) -> str:
    """Run a command, and return what it prints; only the first process prints."""
    if command == "fit":
        return _fit(cli)
    model, data, path = cli.model, cli.datamodule, cli.resolved["ckpt_path"]
    is_own = not isinstance(model, NodeClassifier)
    if not is_own:
        check_parts(model.stack, model.hparams["in_channels"])
    if command == "probe":
        from gnn_depth.cli.probe import probe_command

        return f"{probe_command(cli)}\n"
    # Our own checkpoints hold more than weights_only lets through; their reader runs no code.
    evaluate = partial(getattr(cli.trainer, command), ckpt_path=path, weights_only=True)
    if command == "predict":
        return _predict(cli, evaluate)
    with raise_on_signal():
        result = evaluate(model, datamodule=data, verbose=False)
    if not cli.trainer.is_global_zero:
        return ""
    heading = f"{title(model, data)}, {path or 'untrained'}\n"
    if is_own:
        return f"{heading}{pd.Series(result[0], dtype=float).map(in_digits).to_string()}\n"
    measured = rows({"": result[0]}, model)
    return f"{heading}  {data.about}\n{measured}\n"


def _fit(cli: CommandLineInterface) -> str:
    """Train a model, unless it is trained already, and return its report."""
    if cli.checkpoint and cli.checkpoint.is_complete(cli.trainer, cli.resolved["trainer"]):
        return (
            f"{cli.checkpoint.path} is already complete: {cli.checkpoint.epochs} epochs. For more, "
            "raise trainer.max_epochs, or the patience of the callback that ended it.\n"
        )
    try:
        finished = train_in_command(cli)
    except SIGTERMException as stop:
        if cli.trainer.is_global_zero:
            print(_requeue_or_explain(stop, cli), file=sys.stderr)
        raise
    except KeyboardInterrupt as stop:
        # main says whether something was saved.
        stop.has_folder = cli.recorder.folder is not None  # type: ignore[attr-defined]
        raise
    if not cli.trainer.is_global_zero:
        return ""
    return f"{finished}\n"


def train_in_command(cli: CommandLineInterface, origin: Origin | None = None) -> Run:
    """Train the model of a command line, in a process that is prepared for it.

    Raises:
        UsageError: The options contradict each other, or do not fit the data.
        RunError: The training diverged, its files cannot be written, or another process of it
            died.
        SIGTERMException: A signal ended it, and it can go on from its last checkpoint.
        Stopped: A signal ended it at once.
    """
    stack = getattr(cli.model, "stack", None)  # a user's class has none
    # A user who recomputes activations is short of memory, so freed pages go back to the system.
    if stack is None or not (stack.segment_length or stack.reversible):
        process.keep_freed_memory()
    threading.excepthook = process.report_of_thread
    with (
        raise_on_signal() as signals,
        explained(lambda: cli.recorder.folder and cli.recorder.shown),
    ):
        SafeStop(signals).replace(cli.trainer)  # its handlers of signals
        path = cli.resolved["ckpt_path"]
        return run(
            cli.model,
            cli.datamodule,
            cli.trainer,
            cli.recorder,
            cli.resolved,
            cli.run_name(cli.resolved["model"]),
            path and Path(path),
            origin,
        )


def _predict(cli: CommandLineInterface, evaluate: Callable[..., Any]) -> str:
    """Write the predictions of a model, and describe the file."""
    with raise_on_signal():
        table = predictions_of(
            cli.model,
            cli.datamodule,
            forward=lambda model, data: evaluate(model, datamodule=data) or [],
        )
    if not cli.trainer.is_global_zero:
        return ""
    output = cli.resolved["output"]
    # Nine significant digits restore every float32.
    write = partial(table.to_csv, index=False, float_format="%.9g", lineterminator="\n")
    write_whole(Path(output), write)
    words = WORDS[cli.model.task.targets][0]
    return f"{words} of {len(table)} {table.columns[0]}s: {output}\n"


def _requeue_or_explain(stop: BaseException, cli: CommandLineInterface) -> str:
    """Say where a stopped training was saved and how it goes on; after SIGUSR1 of SLURM, queue its
    job again."""
    saved = f"saved: {cli.recorder.shown / 'checkpoints' / 'last.ckpt'}"
    job, array = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is not None:
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    if str(stop) != signal.SIGUSR1.name or job is None:
        flags = f"--ckpt_path {cli.recorder.shown}"
        if str(stop) == "max_time":
            flags += " and a larger --trainer.max_time"
        return f"{saved}; the same command with {flags} resumes it."
    if cli.arguments.value_of("ckpt_path") != checkpoints.AUTO:
        # Queued again, it would start from the beginning for ever.
        return f"{saved}; job {job} is not queued again: that needs --ckpt_path auto."
    try:
        subprocess.run(["scontrol", "requeue", job], check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{saved}; job {job} could not be queued again: {error}."
    return f"{saved}; job {job} is queued again."
