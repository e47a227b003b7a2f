"""The only LightningModule: trains a stack of parts to classify nodes."""

import inspect
from typing import Any, Literal, NoReturn

import lightning as L
import torch
import torch.nn.functional as F
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable, ReduceLROnPlateau
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from gnn_depth.data.base import NodeBatch, Task
from gnn_depth.nn.base import Init, LayerFactory, NormFactory, SkipFactory
from gnn_depth.nn.inits import DefaultInit
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.skips import NoSkip
from gnn_depth.nn.stack import Activation, DeepGNN
from gnn_depth.registry import unknown
from gnn_depth.training.divergence import Diverged, first_non_finite
from gnn_depth.training.metrics import MONITORED, classification_metrics


class NodeClassifier(L.LightningModule):
    """Assemble a deep GNN from named parts and train it with cross-entropy.

    Every epoch is one full-batch step. One forward pass in evaluation mode serves the validation and the
    test metrics: ``val/loss``, ``val/acc``, ``val/f1``, ``test/acc``, ``test/f1`` (and ``auroc`` for binary sets).

    Args:
        in_channels: Number of input features, taken from the data.
        num_classes: Number of classes, taken from the data.
        layer: Message-passing layer.
        norm: Norms of node features or attention scores, applied in order.
        init: How the parameters are drawn.
        skip: How a layer's output joins what came before it.
        num_layers: Number of message-passing layers.
        hidden_channels: Width of one head of a hidden layer, and of the encoder's output.
        activation: Function between the layers.
        last_activation: Whether it follows the last layer too; needs a decoder.
        dropout: Probability of dropping an input feature of a layer in training.
        encoder: ``linear`` map before the layers, or ``none``.
        decoder: ``linear`` map after the layers, or ``none``: the last layer gives the class scores.
        optimizer: Optimizer of all parameters.
        scheduler: Learning rate schedule, stepped once an epoch.
        task: ``multiclass`` or ``binary`` (adds ROC AUC), taken from the data.

    Raises:
        ValueError: A part has no place in this model, or a number is out of its range.
        Diverged: The loss became NaN or infinite; the step and the first bad layer are named.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        layer: LayerFactory = GCN,
        norm: list[NormFactory] = [],  # noqa: B006  (read only; a None would be one more case in every config)
        init: Init = DefaultInit(),  # noqa: B008  (holds no state)
        skip: SkipFactory = NoSkip,
        num_layers: int = 2,
        hidden_channels: int = 64,
        activation: Activation = "relu",
        last_activation: bool = False,
        dropout: float = 0.0,
        encoder: Literal["linear", "none"] = "linear",
        decoder: Literal["linear", "none"] = "linear",
        optimizer: OptimizerCallable = lambda p: torch.optim.Adam(p, lr=0.005, weight_decay=5e-4),
        scheduler: LRSchedulerCallable | None = None,
        task: Task = "multiclass",
    ) -> None:
        super().__init__()
        self._save_plain_hyperparameters()
        self.stack = DeepGNN(
            in_channels,
            num_classes,
            layer,
            num_layers,
            hidden_channels,
            norm,
            skip,
            activation,
            last_activation,
            dropout,
            encoder,
            decoder,
        )
        init(self.stack)
        self.optimizer, self.scheduler = optimizer, scheduler
        self.train_metrics = classification_metrics("multiclass", num_classes).clone(prefix="train/")
        self.val_metrics = classification_metrics(task, num_classes).clone(prefix="val/")
        self.test_metrics = classification_metrics(task, num_classes).clone(prefix="test/")

    def forward(self, batch: NodeBatch) -> Tensor:
        """Class scores (logits) of every node, shape (nodes, classes)."""
        return self.stack(batch.x, batch.graph)

    def setup(self, stage: str) -> None:
        if self.trainer.precision == "16-true":
            raise MisconfigurationException(
                "precision 16-true has no room for deep stacks: take 16-mixed, bf16-mixed or bf16-true."
            )

    def training_step(self, batch: NodeBatch, batch_idx: int) -> Tensor:
        generator_state = torch.get_rng_state()
        scores, classes = self(batch)[batch.train_mask], batch.y[batch.train_mask]
        loss = F.cross_entropy(scores, classes)
        if not loss.isfinite():
            torch.set_rng_state(generator_state)  # the same dropout masks, so the same forward pass
            self._diverged("training", loss, batch)
        self.train_metrics.update(scores.detach(), classes)
        self._log({"train/loss": loss.detach(), "train/lr": self._learning_rate()}, len(classes))
        self._log(self.train_metrics, len(classes))
        return loss

    def validation_step(self, batch: NodeBatch, batch_idx: int) -> None:
        scores = self(batch)
        self._evaluate("val", scores, batch)
        self._evaluate("test", scores, batch)

    def test_step(self, batch: NodeBatch, batch_idx: int) -> None:
        self._evaluate("test", self(batch), batch)

    def predict_step(self, batch: NodeBatch, batch_idx: int) -> Tensor:
        """Class probabilities of every node, shape (nodes, classes)."""
        return self(batch).softmax(-1)

    def configure_optimizers(self) -> Any:
        try:
            optimizer = self.optimizer(self.parameters())
        except ValueError as error:
            raise MisconfigurationException(f"the optimizer refuses its options or this model: {error}") from error
        if self.scheduler is None:
            return optimizer
        scheduler = self.scheduler(optimizer)
        config: dict[str, Any] = {"scheduler": scheduler}
        if isinstance(scheduler, ReduceLROnPlateau):
            if scheduler.monitor not in MONITORED:
                raise MisconfigurationException(unknown("metric to monitor", scheduler.monitor, MONITORED))
            config["monitor"] = scheduler.monitor
        return {"optimizer": optimizer, "lr_scheduler": config}

    def _evaluate(self, stage: Literal["val", "test"], scores: Tensor, batch: NodeBatch) -> None:
        mask = batch.val_mask if stage == "val" else batch.test_mask
        scores, classes = scores[mask], batch.y[mask]
        if len(classes) == 0:
            return
        metrics = self.val_metrics if stage == "val" else self.test_metrics
        # In float64 the probabilities of confident models still differ, and ROC AUC can rank them.
        metrics.update(scores.double().softmax(-1), classes)
        self._log(metrics, len(classes))
        if stage == "val":
            loss = F.cross_entropy(scores, classes)
            if self.trainer.state.fn == TrainerFn.FITTING and not loss.isfinite():
                self._diverged("validation", loss, batch)
            self._log({"val/loss": loss}, len(classes))

    def _diverged(self, what: str, loss: Tensor, batch: NodeBatch) -> NoReturn:
        where = first_non_finite(self.stack, batch)
        raise Diverged(f"the {what} loss became {loss.item()} at step {self.global_step}; first non-finite: {where}.")

    def _log(self, values: Any, batch_size: int) -> None:
        # One point an epoch: on_step would add a second tag of each name.
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=batch_size, sync_dist=True)

    def _learning_rate(self) -> float:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer.param_groups[0]["lr"]

    def _save_plain_hyperparameters(self) -> None:
        """Keep what a checkpoint can hold as plain data: all of a config; of a call in Python, what is no object."""
        frame = inspect.currentframe()
        self.save_hyperparameters(frame=frame and frame.f_back)
        defaults = inspect.signature(type(self).__init__).parameters
        objects = [name for name, value in self.hparams.items() if not _plain(value)]
        self._given_as_objects = [name for name in objects if self.hparams[name] is not defaults[name].default]
        self.remove_ignored_hparams(objects)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["given_as_objects"] = self._given_as_objects

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse to stand defaults in for parts that the checkpoint cannot hold."""
        missing = set(checkpoint.get("given_as_objects", ())) - set(self._given_as_objects)
        if missing:
            raise ValueError(
                f"this model was built in Python, and its checkpoint does not hold {', '.join(sorted(missing))}: "
                "give the same to load_from_checkpoint."
            )


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
