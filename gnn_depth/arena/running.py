"""Train what the arena still lacks, one training after another in this process."""

import json
import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gnn_depth.arena.definition import Arena
from gnn_depth.arena.records import MEASURES, Records, TrainingJob, TrainingRecord, identity_of
from gnn_depth.arena.results import Results
from gnn_depth.builder import build
from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.diagnostics.probe import LayerValues, probe
from gnn_depth.runs import read_result
from gnn_depth.training.divergence import Diverged
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.run import fit

log = logging.getLogger(__name__)

STEPS = (0, 10, 50)  # before which a training is probed, besides its end
DIGITS = 3  # of a measure
READ = 16  # data sets that are kept in memory


def missing(arena: Arena, records: Records) -> Iterator[TrainingJob]:
    """The trainings that have no record, in an order in which a stopped arena is a smaller arena.

    All sets, the cheapest first, get a few splits; then the cells of each set that the planned
    comparisons are about get the others, and then all cells; the deepest stacks come last. Before
    each set and depth come the small trainings of one small set. What is trained for longer depends
    on records, so each job must have its record before the next one is asked for.

    Args:
        arena: What is compared.
        records: What has been trained.
    """
    small = []
    for setting in range(len(arena.small_settings)):
        for name in arena.small:
            small.append(_small(arena, records, name, setting))
    first = 0
    for last in arena.portions:
        for name in arena.sets:
            for depth in arena.depths:
                if small:
                    yield from small.pop(0)
                for remedy in arena.remedies:
                    yield from _cell(arena, records, name, remedy, depth, range(first, last))
        while small:
            yield from small.pop(0)
        first = last
        others = range(first, arena.portions[-1])
        if others:
            for name in arena.sets:
                yield from _planned(arena, records, name, others)
    if arena.deepest is not None:
        for name in arena.deepest_sets:
            for remedy in arena.remedies:
                splits = range(arena.portions[0])
                yield from _cell(arena, records, name, remedy, arena.deepest, splits)


def _cell(
    arena: Arena, records: Records, name: str, remedy: str, depth: int, splits: Sequence[int]
) -> Iterator[TrainingJob]:
    """The missing trainings of a remedy and depth on a set: tuning, then some splits."""
    if not arena.takes(remedy, name):
        return
    settings = list(range(len(arena.settings)))
    for step in arena.tuning:
        settings = settings[: step.settings]
        scores = {}
        for setting in settings:
            job = TrainingJob("tune", name, remedy, depth, arena.width, setting, 0, step.epochs)
            yield from _if_missing(arena, records, job)
            record = records.get(training_identity(arena, job))
            assert record is not None, "a job was not trained before the next one"
            scores[setting] = record.val if record.val == record.val else float("-inf")
        # Python's sort is stable: of equal settings the earlier one goes on.
        settings.sort(key=lambda setting: -scores[setting])
    chosen = settings[0]
    width, epochs = arena.width, arena.epochs
    if depth > arena.reference:
        shallow = TrainingJob("reference", name, remedy, arena.reference, width, chosen, 0, epochs)
        yield from _if_missing(arena, records, shallow)
    for split in splits:
        job = TrainingJob("final", name, remedy, depth, width, chosen, split, epochs)
        yield from _if_missing(arena, records, job)


def _planned(
    arena: Arena, records: Records, name: str, splits: Sequence[int]
) -> Iterator[TrainingJob]:
    """The missing splits of the cells of a set that the planned comparisons are about."""
    known = [record for record in records if record.job.set == name and belongs(arena, record)]
    for cell in Results(arena, known).planned(name):
        yield from _cell(arena, records, name, cell.remedy, cell.depth, splits)


def _small(arena: Arena, records: Records, name: str, setting: int) -> Iterator[TrainingJob]:
    """The missing small trainings on a set with a setting."""
    for remedy in arena.remedies:
        if not arena.takes(remedy, name):
            continue
        for depth in (arena.reference, *arena.small_depths):
            # The number of the setting is the split too: each has data of its own.
            epochs, width = arena.small_epochs, arena.small_width
            job = TrainingJob("small", name, remedy, depth, width, setting, setting, epochs)
            yield from _if_missing(arena, records, job)


def _if_missing(arena: Arena, records: Records, job: TrainingJob) -> Iterator[TrainingJob]:
    if records.get(training_identity(arena, job)) is None:
        yield job


def model_of(arena: Arena, job: TrainingJob) -> dict[str, Any]:
    """The section ``model`` of a training."""
    settings = arena.small_settings if job.stage == "small" else arena.settings
    setting = settings[job.setting]
    return {
        **arena.remedies[job.remedy].model,
        "num_layers": job.depth,
        "hidden_channels": job.width,
        "dropout": setting.dropout,
        "optimizer": {"name": "Adam", "lr": setting.lr, "weight_decay": setting.weight_decay},
        "compile": "off",
    }


def data_of(arena: Arena, job: TrainingJob) -> dict[str, Any]:
    """The section ``data`` of a training."""
    transforms = arena.remedies[job.remedy].transforms
    return arena.data_set(job.set).with_split(job.split, transforms)


def training_identity(arena: Arena, job: TrainingJob) -> str:
    """The identity of a training: digest of all that it consists of."""
    remedy = arena.remedies[job.remedy]
    others: list[Any] = [arena.every, _patience(arena, job), *remedy.callbacks]
    if remedy.code:  # only then: it is part of the identity of every record
        others.append(remedy.code)
    return identity_of(job, model_of(arena, job), data_of(arena, job), others)


def belongs(arena: Arena, record: TrainingRecord) -> bool:
    """True if a record is of this arena, with today's definition of its remedy and set."""
    job = record.job
    if job.remedy not in arena.remedies:
        return False
    if job.set not in arena.sets and job.set not in arena.small:
        return False
    if not arena.takes(job.remedy, job.set):
        return False
    settings = arena.small_settings if job.stage == "small" else arena.settings
    if job.setting >= len(settings):
        return False
    return record.identity == training_identity(arena, job)


def _patience(arena: Arena, job: TrainingJob) -> int | None:
    """The patience of a training; None if it always has all its epochs."""
    if job.stage in ("small", "tune"):
        return None
    return arena.patience


def perform(arena: Arena, job: TrainingJob, accelerator: str = "cpu") -> TrainingRecord:
    """Train once, and return what is kept of it.

    Nothing else is left: the run's folder is a temporary one.

    Args:
        arena: What is compared.
        job: The training.
        accelerator: Where it is trained, ``cpu`` or ``gpu``.
    """
    name = training_identity(arena, job)
    metric = arena.data_set(job.set).metric
    moments = ProbeMoments(probes=job.stage != "tune")
    # Before the probe of the end: a callback that changes the model is part of the training.
    callbacks: list[Callback | Mapping[str, Any]] = [*arena.remedies[job.remedy].callbacks, moments]
    patience = _patience(arena, job)
    if patience is not None:
        checks = max(1, patience // arena.every)
        callbacks.append(EarlyStopping(f"val/{metric}", mode="max", patience=checks))
    status, reason = "finished", ""
    # Outside of the try: missing data is no failure of a remedy.
    data = _data(json.dumps(data_of(arena, job)))
    with tempfile.TemporaryDirectory(prefix="arena_") as root:
        try:
            fit(
                model_of(arena, job),
                data,
                epochs=job.epochs,
                seed=job.split,
                root=root,
                name="run",
                callbacks=callbacks,
                progress=False,
                logger=False,
                accelerator=accelerator,
                check_val_every_n_epoch=arena.every,
            )
        except Diverged as error:
            status, reason = "diverged", str(error).splitlines()[0]
        except (ValueError, RuntimeError, MisconfigurationException) as error:
            status, reason = "failed", f"{type(error).__name__}: {str(error).splitlines()[0]}"
        results = list(Path(root).rglob("result.json"))
        result = read_result(results[0].parent) if results else None
    if result is None:
        record = TrainingRecord(job, name, "failed", reason=reason)
    else:
        metrics = result["metrics"]
        best, ran = result["best_epoch"], result["epochs"]
        settled = best is not None and patience is not None and ran - 1 - best >= patience
        record = TrainingRecord(
            job,
            name,
            status,
            test=_digits(metrics.get(f"test_{metric}_at_best_val"), 5),
            val=_digits(metrics.get(f"val_{metric}_at_best_val"), 5),
            train=_digits(metrics.get(f"train/{metric}"), 5),
            chance=_digits(chance_of(data, metric), 5),
            best_epoch=best,
            ran=ran,
            settled=status == "finished" and settled,
            seconds=_digits(moments.seconds, DIGITS),
            bytes=moments.bytes,
            rows=tuple(int(mask.sum()) for mask in data.batch.masks),  # type: ignore[arg-type]
            probe=moments.values or None,
            reason=reason[:200],
        )
    if accelerator == "cpu":
        return record
    # What a processor waits for is not what the training costs.
    return replace(record, device=accelerator, seconds=math.nan)


@lru_cache(maxsize=READ)
def _data(section: str) -> NodeDataModule:
    """The data set of a section ``data``, written as JSON."""
    found: NodeDataModule = build("data", json.loads(section))
    found.batch  # noqa: B018  (reads it)
    return found


def chance_of(data: NodeDataModule, metric: str) -> float:
    """The test metric of a constant prediction."""
    if metric == "auroc":
        return 0.5
    y = data.batch.y[data.batch.test_mask]
    return float(y.bincount().max() / len(y))


def _digits(value: Any, digits: int) -> float:
    """A number with a few significant digits; NaN for one that is not there."""
    if value is None:
        return float("nan")
    return float(f"{float(value):.{digits}g}")


class ProbeMoments(Callback):
    """Probe a training at a few moments, and count what its first step keeps for the backward pass.

    Args:
        probes: Probe it; otherwise only count.

    Attributes:
        values: By moment the values of each of :data:`MEASURES` at the first, middle and last
            layer.
        bytes: Bytes of the tensors that the first step keeps, besides the parameters and the batch.
        seconds: Processor time of the training, without the probes: other work on the machine does
            not change it.
    """

    def __init__(self, probes: bool = True) -> None:
        self.probes = probes
        self.values: dict[str, list[list[float | None] | None]] = {}
        self.bytes = 0
        self.seconds = 0.0
        self._began = 0.0
        self._hooks: Any = None
        self._kept: dict[int, int] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._began = time.process_time()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: NodeBatch, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if self.probes and step in STEPS:
            self._measure(str(step), pl_module, batch)
        if step == 0:
            self._hooks = saved_tensors_hooks(self._keep, lambda kept: kept)
            self._hooks.__enter__()

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor
    ) -> None:
        if self._hooks is None:
            return
        self._hooks.__exit__(None, None, None)
        self._hooks = None
        for parameter in pl_module.parameters():
            self._kept.pop(parameter.untyped_storage().data_ptr(), None)
        self.bytes = sum(self._kept.values())
        self._kept = {}

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None
        self.seconds += time.process_time() - self._began

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.probes:
            data = trainer.datamodule  # type: ignore[attr-defined]
            self._measure("end", pl_module, data.batch.to(pl_module.device))
        self.seconds += time.process_time() - self._began

    def _keep(self, tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            self._kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def _measure(self, moment: str, module: Any, batch: NodeBatch) -> None:
        began = time.process_time()
        assert isinstance(module, NodeClassifier)
        rows, targets = batch.train_mask, batch.y[batch.train_mask]
        task = module.task
        found = probe(module, batch, loss=lambda out: task.loss(out[rows], targets)).layers
        self.values[moment] = summary_of(found)
        self.seconds -= time.process_time() - began


def summary_of(layers: Sequence[LayerValues]) -> list[list[float | None] | None]:
    """Each of :data:`MEASURES` at the first, middle and last layer; None where it is unknown."""
    chosen = (layers[0], layers[len(layers) // 2], layers[-1])
    summary: list[list[float | None] | None] = []
    for measure in MEASURES:
        values: list[float | None] = []
        for layer in chosen:
            value = getattr(layer, measure)
            is_known = value is not None and abs(value) < float("inf")  # NaN is not below it
            values.append(_digits(value, DIGITS) if is_known else None)
        summary.append(None if values == [None] * len(values) else values)
    return summary


def run_missing(
    arena: Arena, records: Records, until: float = math.inf, accelerator: str = "cpu"
) -> int:
    """Train what is missing, and return how many trainings that was.

    Args:
        arena: What is compared.
        records: Its records, open to add to.
        until: No training begins after this time of ``time.monotonic``.
        accelerator: Where they are trained, ``cpu`` or ``gpu``.

    Raises:
        ValueError: There is no such accelerator.
    """
    if accelerator == "gpu" and not torch.cuda.is_available():
        # Before the first training, which would be recorded as a failed one.
        raise ValueError("PyTorch finds no GPU here: train on the CPU, or install its GPU build.")
    count = 0
    for job in missing(arena, records):
        if time.monotonic() >= until:
            break
        began = time.perf_counter()
        record = perform(arena, job, accelerator)
        records.add(record)
        count += 1
        log.info(
            "%s %s %s %d layers setting %d split %d: %s, test %.4f, %.1f s",
            job.stage,
            job.set,
            job.remedy,
            job.depth,
            job.setting,
            job.split,
            record.status,
            record.test,
            time.perf_counter() - began,
        )
    return count
