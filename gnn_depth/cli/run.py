"""``gnn-depth fit | validate | test | predict | probe``: parse, assemble, run."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    BatchSizeFinder,
    LearningRateFinder,
    ModelPruning,
)
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import distributed

from gnn_depth.cli import checkpoints, predictions
from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.config import Arguments
from gnn_depth.cli.errors import UsageError, explained
from gnn_depth.cli.process import prepare_for_training, quiet
from gnn_depth.data.base import FullBatch
from gnn_depth.data.checks import DataError
from gnn_depth.data.partitioned import write_partition
from gnn_depth.data.shards import division
from gnn_depth.runs import Origin
from gnn_depth.signals import keeping
from gnn_depth.training import NodeClassifier
from gnn_depth.training.divergence import check_parts
from gnn_depth.training.memory import check_memory, check_processes
from gnn_depth.training.optimizers import rehearse
from gnn_depth.training.report import report, rows
from gnn_depth.training.resume import SafeStop

REQUEUE_SECONDS = 30
# They fail after the run has a folder, the last one only when the training is over.
UNUSABLE = {
    LearningRateFinder: "needs a model with an attribute `lr`, which this one does not have. Compare learning rates in "
    "a sweep, with the axis model.optimizer.lr.",
    BackboneFinetuning: "needs a model with a part called `backbone`, which this one does not have.",
    BatchSizeFinder: "needs data with a batch_size, which graphs do not have. See --data MiniBatches.",
    ModelPruning: "renames parameters, and the weights of the best epoch could not be saved. Prune a trained model in "
    "a program of your own, with torch.nn.utils.prune.",
}


def run(command: str, arguments: Arguments) -> int:
    """Run a command and return its exit code."""
    with quiet():
        cli = CommandLineInterface(command, arguments)
        if command == "fit" and cli.checkpoint and cli.checkpoint.is_complete(cli.trainer):
            path, epochs = cli.checkpoint.path, cli.checkpoint.epochs
            print(
                f"{path} is already complete: {epochs} epochs. For more, raise trainer.max_epochs."
            )
            return 0
        if command == "partition":
            print(_partition(cli))
            return 0
        if command == "probe":
            from gnn_depth.cli.probe import probe_command

            check_parts(cli.model.stack, cli.model.hparams.in_channels)
            print(probe_command(cli))
            return 0
        try:
            result = start(cli)
        except SIGTERMException as stop:
            if cli.trainer.is_global_zero:
                print(_how_to_go_on(stop, cli), file=sys.stderr)
            raise
        except KeyboardInterrupt as stop:
            stop.has_folder = cli.recorder.folder is not None  # type: ignore[attr-defined]
            raise
        if cli.trainer.is_global_zero:
            if command == "predict":
                said = predictions.write(result, cli.datamodule, cli.model.task, cli.config.output)
                print(f"{said}: {cli.config.output}")
            elif command in ("validate", "test"):
                print(
                    f"{cli.what}, "
                    f"{cli.config.ckpt_path or 'untrained'}\n{rows({'': result[0]}, cli.model.task)}"
                )
            elif cli.recorder.folder is not None:
                print(report(cli.recorder, cli.model))
        if distributed.is_available() and distributed.is_initialized():
            # Threads that outlive Python abort the process at exit (pytorch/pytorch#190489).
            distributed.destroy_process_group()
    return 0


def _partition(cli: CommandLineInterface) -> str:
    """Write the parts of a run's graph, and return what was written, in words."""
    data, config = cli.datamodule, cli.config
    if not config.output:
        raise UsageError("partition needs a new folder for its files: --output DIR.")
    cli.model.stack.check_shards()
    data.prepare_data()
    data.setup("fit")
    loader = data.train_dataloader()
    if not isinstance(loader, FullBatch):
        raise DataError(
            f"{type(data).__name__} gives mini-batches: only one graph can be divided among "
            "processes."
        )
    batch, folder = loader.batch, Path(config.output)
    part = division(config.nodes, batch, config.parts)
    write_partition(data, batch, part, folder)
    sent = int((part[batch.graph.source] != part[batch.graph.target]).sum())
    return (
        f"{config.parts} parts of {part.bincount().min():,} to {part.bincount().max():,} nodes; "
        f"{sent:,} of "
        f"{batch.graph.num_edges:,} edges lead from one part to another\n"
        f"train on them: gnn-depth fit --data PartitionedGraph --data.path {folder} "
        "--trainer.strategy graph "
        f"--trainer.devices {config.parts}"
    )


def start(cli: CommandLineInterface, origin: Origin | None = None) -> Any:
    """Start the trainer, with a run folder if it is a fit, and return its result.

    Raises:
        UsageError: Something that was asked for does not fit.
        RunError: The training diverged, its files cannot be written, or another process of it is
            gone.
        SIGTERMException: A signal ended it, and it can go on from its last checkpoint.
        Stopped: A signal ended it at once.
    """
    stack = cli.model.stack
    with explained():
        check_processes(cli.trainer)
        check_parts(stack, cli.model.hparams.in_channels)
        if cli.command == "fit":
            _check(cli)
    prepare_for_training(keep_memory=not (stack.segment_length or stack.reversible))
    with keeping() as kept, explained(lambda: cli.recorder.shown or cli.recorder.root):
        if cli.command == "fit":
            cli.open_run(origin)
            rank_zero_only(print)(f"{cli.what}\n  {cli.datamodule.about}", file=sys.stderr)
            SafeStop(kept).replace(cli.trainer)
        begin = getattr(cli.trainer, cli.command)
        words = {"verbose": False} if cli.command in ("validate", "test") else {}
        return begin(
            cli.model,
            datamodule=cli.datamodule,
            ckpt_path=cli.config.ckpt_path,
            weights_only=True,
            **words,
        )


def check_training(trainer: Mapping[str, Any], model: NodeClassifier) -> None:
    """Refuse a training of nothing, and an optimizer or schedule that fails in a step."""
    if 0 in (trainer["max_epochs"], trainer["max_steps"], trainer["limit_train_batches"]):
        raise UsageError(
            "nothing would be trained: trainer.max_epochs, max_steps or limit_train_batches is 0."
        )
    rehearse(model.optimizer, model.scheduler)
    model.configure_optimizers()


def _check(cli: CommandLineInterface) -> None:
    """Find inconsistent options before the run gets a folder."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if why := next((why for kind, why in UNUSABLE.items() if isinstance(callback, kind)), None):
            raise UsageError(f"trainer.callbacks {type(callback).__name__} {why}")
    check_training(cli.config["trainer"], model)
    data.trainer = trainer
    data.train_dataloader()  # raises if its batches cannot be shared among the processes
    check_memory(model.stack, data, trainer)


def _how_to_go_on(stop: BaseException, cli: CommandLineInterface) -> str:
    """A message saying where a stopped training was saved and how to resume it; SLURM's SIGUSR1
    requeues the job."""
    folder = cli.recorder.shown
    if folder is None:
        return "nothing was saved: a run of fast_dev_run has no folder."
    saved = f"saved: {folder / 'checkpoints' / 'last.ckpt'}"
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    job = (
        f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID")
    )
    if str(stop) != signal.SIGUSR1.name or job is None:
        more = " and a larger --trainer.max_time" if str(stop) == "max_time" else ""
        return f"{saved}; the same command with --ckpt_path last{more} resumes it."
    if (
        cli.ckpt_path_asked != checkpoints.AUTO
    ):  # queued again, it would start from the beginning for ever
        return f"{saved}; job {job} is not queued again: only with --ckpt_path auto would it resume from there."
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job],
            capture_output=True,
            text=True,
            check=False,
            timeout=REQUEUE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{saved}; job {job} could not be queued again: {error}."
    if done.returncode:
        return (
            f"{saved}; job {job} could not be queued again: scontrol said {done.stderr.strip()!r}."
        )
    return f"{saved}; job {job} is queued again."
