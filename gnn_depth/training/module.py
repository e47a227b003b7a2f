"""The LightningModule that trains a stack of parts."""

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable, ReduceLROnPlateau
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.types import (
    LRSchedulerConfigType,
    LRSchedulerTypeUnion,
    OptimizerLRScheduler,
)
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch_geometric.data import Data

from gnn_depth.builder import LENGTHS, Named, build
from gnn_depth.data.base import GraphDataModule, NodeBatch
from gnn_depth.data.schema import Schema
from gnn_depth.graph import Graph
from gnn_depth.nn.decoder import Pool
from gnn_depth.nn.inits import DefaultInit
from gnn_depth.nn.parts import Init
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.ranges import Count, NonNegative, in_range
from gnn_depth.registry import unknown
from gnn_depth.training.divergence import Diverged, first_non_finite
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.lightning_internals import (
    OneBatchValidation,
    SafeCheckpointModule,
    is_one_batch_an_epoch,
)
from gnn_depth.training.loggers import EpochLog
from gnn_depth.training.monitors import check_defined, right_mode
from gnn_depth.training.recorded import Record, RecordedSteps
from gnn_depth.training.resume import UNKNOWN, SeededSteps, fix_kernels
from gnn_depth.training.tasks import TaskFactory, make_task

log = logging.getLogger(__name__)

# As LightningCLI writes it, too.
ADAM = {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.005, "weight_decay": 5e-4}}

FUSED = (Adagrad, Adam, AdamW, SGD)  # optimizers that torch has in a fused form
FUSED_TYPES = (torch.float32, torch.float64)


class NodeClassifier(SafeCheckpointModule):
    """Assemble a deep GNN from named parts and train it, by default to classify nodes.

    On a full batch an epoch is one step, and one forward pass in evaluation mode serves the
    validation and the test metrics: ``val/loss``, ``val/acc``, ``val/f1``, ``val/bacc``,
    ``test/acc`` and so on, or those of another task.

    Args:
        in_channels: Number of input features; for integer features, of the values of each column.
            Taken from the data.
        num_classes: Number of classes, labels or numbers to predict, taken from the data.
        init: Initialisation of the parameters.
        optimizer: Optimizer of all parameters.
        layer_weight_decay: Weight decay of the layers' parameters; by default the optimizer's.
        scheduler: Learning rate schedule, stepped once an epoch.
        task: Loss and metrics; by default those that fit the data's targets.
        default_task: The data's task, taken from the data.
        best_metric: The metric that chooses the best epoch; by default that of the task.
        pool: For targets of whole graphs: the ``mean``, ``sum`` or ``max`` of the nodes' last
            states is decoded.
        compile: Compile the layers for training: ``on`` or ``off``.
        record: Record the steps of a full batch on a GPU once, and replay them: ``auto`` where
            possible, ``on`` or else an error, or ``off``.
        **stack_options: Options of :class:`gnn_depth.nn.stack.DeepGNN`, from ``layer`` and ``norm``
            to ``reversible``; ``edge_channels`` is taken from the data.

    Raises:
        ValueError: A part has no place in this model, or a number is out of its range.
        Diverged: The loss became NaN or infinite; the step and the first bad layer are named.
    """

    @in_range
    def __init__(
        self,
        in_channels: int | Sequence[int],
        num_classes: Count,
        init: Named[Init] = DefaultInit(),  # noqa: B008  (holds no state)
        optimizer: Named[OptimizerCallable] = ADAM,
        layer_weight_decay: NonNegative | None = None,
        scheduler: Named[LRSchedulerCallable] | None = None,
        task: Named[TaskFactory] | None = None,
        default_task: str = "multiclass",
        best_metric: str | None = None,
        pool: Pool = "mean",
        compile: Literal["on", "off"] | bool = "off",
        record: Record = "auto",
        **stack_options: Any,
    ) -> None:
        super().__init__()
        self.keep_arguments(DeepGNN, NodeClassifier)
        self.task = make_task(task, default_task, num_classes)
        if best_metric is not None:
            self.task.choose_best(best_metric)
        self.stack = DeepGNN(in_channels, num_classes, init=init, **stack_options)
        self.compiles = compile in ("on", True)  # YAML reads an unquoted on as a boolean
        dropout = self.stack.graph_dropout
        if self.compiles and dropout.p:
            raise ValueError(
                f"compile on: {type(dropout).__name__} changes the graph in every step, so layers "
                "would be compiled again. Choose compile off, or graph_dropout none."
            )
        self.optimizer: OptimizerCallable = build("optimizer", optimizer)
        self.layer_weight_decay = layer_weight_decay
        self.scheduler: LRSchedulerCallable | None = None
        if scheduler is not None:
            self.scheduler = build("scheduler", scheduler)
        self.pool = pool
        #: What the model expects of data; None before it was trained.
        self.schema: Schema | None = None
        self.kernels: str | None = UNKNOWN
        self.epoch_log = EpochLog()
        self.seeded_steps = SeededSteps()
        self.recorded = RecordedSteps(record, NodeClassifier)
        self.train_metrics = EpochMetrics(("train",), self.task, keeps_all=False)
        self.eval_metrics = EpochMetrics(("val", "test"), self.task)
        # By their number; None before setup.
        self._sets: dict[int, NodeSets] | None = None

    def forward(
        self, batch: NodeBatch | Tensor | Data, edge_index: Graph | Tensor | None = None
    ) -> Tensor:
        """Outputs, such as class scores (logits), shape (rows, outputs).

        Args:
            batch: A batch; or features of nodes, or a ``Data`` of PyTorch Geometric. There is an
                output for each node, or for each graph if the data has a target for each.
            edge_index: Beside features: the edges, shape (2, edges), or a graph.
        """
        per_graph = self.schema is not None and self.schema.per_graph
        inputs: tuple[Any, ...] = (batch, edge_index, None)
        if isinstance(batch, NodeBatch):
            per_graph, inputs = batch.per_graph, (batch.x, batch.graph, batch.read)
        pool = self.pool if per_graph else None
        return self.stack(*inputs, pool)

    def chance(self, metric: str) -> float | None:
        """The highest value that a metric has for a constant prediction, on the test nodes or else
        the validation nodes; None if it is not known."""
        counts = self.eval_metrics.counts
        if counts is None:
            return self.task.chance_of(metric)
        of_class = counts.sum(-1)  # sets x classes, the test nodes last
        nodes = of_class[-1]
        if not nodes.any():
            nodes = of_class[0]
        return self.task.chance_of(metric, nodes)

    def setup(self, stage: str) -> None:
        # Lightning converts only after loading a checkpoint, and so would round its float64 weights
        # to float32.
        self.trainer.precision_plugin.convert_module(self)
        self._sets = {}
        self.train_metrics.reset()  # the last training may have ended within an epoch
        self.eval_metrics.reset()
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if isinstance(data, GraphDataModule) and (stage == "fit" or self.schema is None):
            self.adopt(data.schema)
        if stage == "fit":
            for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
                monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
                right_mode(type(callback).__name__, monitor, mode, self.task)
            OneBatchValidation.replace(self.trainer)

    def adopt(self, schema: Schema) -> None:
        """Take over what the data says of its columns, classes and targets."""
        self.schema = schema = self.task.read_schema(schema)
        if schema.targets_scaling:
            self.task.scale_targets(schema.targets_scaling)

    def read_schema(self, checkpoint: Mapping[str, Any]) -> None:
        """Take over the schema of a checkpoint, if it has one."""
        if "schema" in checkpoint:
            self.adopt(Schema.from_dict(checkpoint["schema"]))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if type(self) is not NodeClassifier:
            checkpoint["subclass"] = type(self).__qualname__
        if self.schema is not None:
            checkpoint["schema"] = self.schema.as_dict()
        checkpoint["kernels"] = self.kernels
        # With several processes each has its own sums, but only the first one writes the
        # checkpoint.
        if self.attached_trainer is not None and self.trainer.world_size == 1:
            checkpoint["train_metrics"] = self.train_metrics.state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.read_schema(checkpoint)
        # Before there were kernels, every run was one of PyTorch alone.
        self.kernels = checkpoint.get("kernels")
        if self.attached_trainer is None:
            return
        begun = checkpoint.get("train_metrics")  # of an epoch that was interrupted
        if begun:
            self.train_metrics.restore(begun, self.trainer.strategy.root_device)
        states = checkpoint.get("callbacks") or {}
        for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
            # Lightning would take the checkpoint's patience instead of the one asked for.
            if isinstance(callback, EarlyStopping) and callback.state_key in states:
                states[callback.state_key]["patience"] = callback.patience

    def on_train_start(self) -> None:
        self.kernels = fix_kernels(self.kernels, self.trainer.strategy.root_device)
        if self.compiles:
            if not getattr(self.trainer.train_dataloader, "shared", True):
                raise MisconfigurationException(
                    "compile on: a graph that is divided among processes cannot be compiled for. "
                    "Choose compile off."
                )
            self.stack.compile_layers()

    def training_step(self, batch: NodeBatch, batch_idx: int) -> Tensor:
        train = self._sets_of(batch, batch.train_mask)
        scores = self(batch).index_select(0, train.nodes)
        # A shard may have no training nodes; the other processes wait for its backward pass all the
        # same.
        loss = self.task.loss(scores, train.targets) if len(train.nodes) else scores.sum()
        if self.recorded.capturing is not None:
            self.recorded.keep(scores, loss)
        else:
            # All processes see a NaN in one of them.
            everywhere = batch.graph.all_reduce(loss.detach()).item()
            if not math.isfinite(everywhere):
                # The same dropout masks, so the same forward pass.
                self.seeded_steps.seed_batch(self.trainer)
                self.diverged("training", everywhere, batch, self.global_step)
            self.count_step(batch, scores.detach(), loss.detach())
        if batch.graph.is_shard:
            loss = loss * train.share
        return loss

    def count_step(self, batch: NodeBatch, scores: Tensor, loss: Tensor) -> None:
        """Add the class scores of the training nodes, and their loss, to the metrics."""
        self.train_metrics.add(self._sets_of(batch, batch.train_mask), scores, loss)
        # Before the validation: if that diverges, the row of the training is there.
        if self.trainer.is_last_batch:
            self._log_training()

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        ordinary = partial(super().optimizer_step, epoch, batch_idx, optimizer, optimizer_closure)
        self.recorded.train(self, optimizer_closure, ordinary)

    def on_train_epoch_end(self) -> None:
        self._log_training()  # nothing, if training_step has

    def validation_step(self, batch: NodeBatch, batch_idx: int) -> None:
        evaluated = self._sets_of(batch, batch.val_mask, batch.test_mask)

        def compute() -> Tensor:
            return self(batch).index_select(0, evaluated.nodes)

        scores = self.recorded.evaluate(self, batch, compute)
        count = evaluated.sizes[0]  # of validation nodes, which come first
        loss, everywhere = None, scores.new_zeros(())
        if count:
            loss = everywhere = self.task.loss(scores[:count], evaluated.targets[:count])
        if self.trainer.state.fn == TrainerFn.FITTING and (count or batch.graph.is_shard):
            self.recorded.check(self)
            found = batch.graph.all_reduce(everywhere).item()
            if not math.isfinite(found):
                self.diverged("validation", found, batch, self.global_step)
        self.eval_metrics.add(evaluated, scores, loss)

    def on_validation_epoch_end(self) -> None:
        self._log(self.eval_metrics.compute(self.trainer))

    test_step = validation_step

    def on_test_epoch_end(self) -> None:
        values = self.eval_metrics.compute(self.trainer)
        self._log({name: value for name, value in values.items() if name.startswith("test/")})

    def predict_step(self, batch: NodeBatch, batch_idx: int) -> Tensor:
        """Probabilities or numbers for each row of ``batch.y``, shape (rows, outputs)."""
        return self.task.prediction(self(batch))

    def configure_callbacks(self) -> list[L.Callback]:
        here = self.trainer.callbacks  # type: ignore[attr-defined]
        # A second fit with the same trainer finds them there.
        return [
            own for own in (self.epoch_log, self.seeded_steps, self.recorded) if own not in here
        ]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.optimizer(self.parameters())
        if self.layer_weight_decay is not None:
            decay_apart(optimizer, set(self.stack.layers.parameters()), self.layer_weight_decay)
        fuse(optimizer)
        if self.scheduler is None:
            return optimizer
        schedule = self.scheduler(optimizer)
        if self.attached_trainer is not None:
            check_length(schedule, self.trainer.max_epochs)
        config: LRSchedulerConfigType = {"scheduler": schedule}
        if isinstance(schedule, ReduceLROnPlateau):
            names = self.task.directions()
            metrics = [f"{split}/{name}" for name in names for split in ("train", "val")]
            if schedule.monitor not in metrics:
                raise MisconfigurationException(
                    unknown("metric to monitor", schedule.monitor, metrics)
                )
            right_mode(type(schedule).__name__, schedule.monitor, schedule.mode, self.task)
            config["monitor"] = schedule.monitor
            if self.attached_trainer is not None and not schedule.monitor.startswith("train/"):
                # In between, the metric is that of an earlier epoch.
                config["frequency"] = self.trainer.check_val_every_n_epoch or 1
        return {"optimizer": optimizer, "lr_scheduler": config}

    def lr_scheduler_step(self, scheduler: LRSchedulerTypeUnion, metric: Tensor | None) -> None:
        # A plateau would count an epoch with an undefined metric as one that is no better.
        if metric is None or not math.isnan(metric):
            super().lr_scheduler_step(scheduler, metric)

    def _sets_of(self, batch: NodeBatch, *masks: Tensor) -> NodeSets:
        """Sets of nodes of a batch.

        Those of a full batch are found once, not in every step: that takes as long as a metric, and
        makes the host wait for a GPU.
        """
        if self._sets is None:
            raise MisconfigurationException(
                f"{type(self).__name__}.setup must call super().setup(stage), which reads the "
                "classes and targets of the data."
            )
        found = self._sets.get(len(masks))
        if found is None or not found.are_of(batch.y, masks):
            found = self._sets[len(masks)] = NodeSets(batch.y, masks, self.task, batch.graph)
        return found

    def diverged(self, what: str, loss: float, batch: NodeBatch, step: int) -> NoReturn:
        """Raise an error that names the first bad layer."""
        where = first_non_finite(self.stack, batch)
        raise Diverged(f"the {what} loss became {loss} at step {step}; first non-finite: {where}.")

    def _log_training(self) -> None:
        values = self.train_metrics.compute(self.trainer)
        if values:
            rate = self.trainer.optimizers[0].param_groups[0]["lr"]
            # During a step on a GPU it is a tensor, which changes. This waits for no GPU.
            values["train/lr"] = torch.empty((), device=self.device).fill_(rate)
            self._log(values)

    def _log(self, values: dict[str, Tensor]) -> None:
        if self.trainer.state.fn == TrainerFn.FITTING:
            check_defined(self.trainer, values, self.task)
        if values and is_one_batch_an_epoch(self.trainer):
            self.epoch_log.put(self.trainer, values)
        else:  # one point an epoch: on_step would add a second tag for each name
            self.log_dict(values, on_step=False, on_epoch=True, batch_size=1, sync_dist=True)


def check_length(schedule: Any, epochs: int | None) -> None:
    """Warn of a learning rate schedule that is longer or shorter than a training with an end."""
    name = LENGTHS.get(type(schedule).__name__, "")
    if epochs != -1 and getattr(schedule, name, epochs) != epochs:
        rank_zero_only(log.warning)(
            f"{type(schedule).__name__} has {name} {getattr(schedule, name)}, and the training "
            f"{epochs} epochs: without {name} it is as long as trainer.max_epochs."
        )


def decay_apart(optimizer: Optimizer, layers: set[nn.Parameter], weight_decay: float) -> None:
    """Give the layers' parameters a weight decay of their own, in groups of their own."""
    if "weight_decay" not in optimizer.defaults:
        raise MisconfigurationException(
            f"layer_weight_decay {weight_decay}: optimizer {type(optimizer).__name__} has no "
            "weight decay. Choose one "
            "that has, such as Adam, AdamW or SGD, or leave layer_weight_decay out."
        )
    groups = []
    for group in optimizer.param_groups:
        of_layers = [parameter for parameter in group["params"] if parameter in layers]
        others = [parameter for parameter in group["params"] if parameter not in layers]
        groups.append(group | {"params": of_layers, "weight_decay": weight_decay})
        groups.append(group | {"params": others})
    optimizer.param_groups = [group for group in groups if group["params"]]


def fuse(optimizer: Optimizer) -> None:
    """Let an optimizer run a step in one kernel.

    That is several times faster for deep stacks, and its numbers are equal up to rounding. Nothing
    changes if torch has no fused form of it, or none for its options and parameters, or if the user
    chose ``fused`` or ``foreach``.
    """
    if type(optimizer) not in FUSED:
        return
    for group in optimizer.param_groups:
        is_chosen = group.get("fused") is not None or group.get("foreach") is not None
        has_own_graph = group.get("differentiable") or group.get("capturable")
        if is_chosen or has_own_graph or isinstance(group["lr"], Tensor):
            return
        for each in group["params"]:
            if each.dtype not in FUSED_TYPES or each.device.type not in ("cpu", "cuda"):
                return
    for group in optimizer.param_groups:
        group["fused"] = True
    for parameter, state in optimizer.state.items():  # Adagrad has a state from the start
        state["step"] = state["step"].to(parameter.device)
