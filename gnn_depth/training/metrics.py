"""Loss and metrics of sets of nodes or graphs, over the batches of an epoch and over all
processes."""

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import lightning as L
import torch
from jaxtyping import Float, Int
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torchmetrics import Metric

from gnn_depth.data.base import NodeBatch
from gnn_depth.training.tasks import Task


def confusion(
    cells: Int[Tensor, "nodes"], num_sets: int, num_classes: int
) -> Float[Tensor, "sets classes classes"]:
    """Count nodes by set, class and predicted class: cell ``(set * classes + class) * classes +
    prediction``."""
    # Not bincount, which makes the host wait for a GPU. Single precision counts exactly up to 2^24
    # nodes.
    counts = torch.zeros(num_sets * num_classes**2, dtype=torch.float32, device=cells.device)
    ones = torch.ones((), dtype=torch.float32, device=cells.device).expand_as(cells)
    return counts.index_add_(0, cells, ones).view(num_sets, num_classes, num_classes)


def accuracy(counts: Float[Tensor, "sets classes classes"]) -> Float[Tensor, "sets"]:
    """Share of the nodes whose class is predicted correctly."""
    return counts.diagonal(dim1=-2, dim2=-1).sum(-1) / counts.sum((-2, -1))


def macro_f1(counts: Float[Tensor, "sets classes classes"]) -> Float[Tensor, "sets"]:
    r"""Mean of :math:`2 TP / (2 TP + FP + FN)` over the classes that occur among the labels or the
    predictions."""
    seen = counts.sum(-1) + counts.sum(-2)
    f1 = 2 * counts.diagonal(dim1=-2, dim2=-1) / seen.clamp_min(1)
    present = (seen > 0).to(f1.dtype)
    return (f1 / present.sum(-1, keepdim=True)).sum(-1)


class NodeSets:
    """The nodes of one or more sets of a batch, one set after the other; graphs where each graph
    has a target.

    ``share`` is P n / N for the n nodes here of N in all P processes that hold a graph together:
    the mean over the processes of share x mean loss is the mean loss of all N nodes.
    """

    def __init__(
        self, y: Tensor, masks: Sequence[Tensor], num_classes: int | None, share: float = 1.0
    ) -> None:
        self.share = share
        parts = [mask.nonzero().flatten() for mask in masks]
        self.sizes = [len(part) for part in parts]
        self.nodes = torch.cat(parts)
        self.targets = y[self.nodes]
        self.cells: Tensor | None = (
            None  # for each node its first cell in the matrices of :func:`confusion`
        )
        if num_classes is not None:
            sets = torch.cat([torch.full_like(part, place) for place, part in enumerate(parts)])
            self.cells = (sets * num_classes + self.targets) * num_classes


class BatchSets:
    """The training nodes of a batch, and those of validation and test.

    Kept from step to step while the batch is the same: finding the nodes of a mask takes as long as
    a metric, and makes the host wait for a GPU.
    """

    def __init__(self, batch: NodeBatch, task: Task) -> None:
        self._batch = (batch.y, *batch.masks)
        self._graph = batch.graph
        self._num_classes = task.num_outputs if task.counts_classes else None

    def belong_to(self, batch: NodeBatch) -> bool:
        return all(
            ours is theirs
            for ours, theirs in zip(self._batch, (batch.y, *batch.masks), strict=True)
        )

    @cached_property
    def train(self) -> NodeSets:
        y, train_mask, _, _ = self._batch
        share = 1.0
        if self._graph.is_shard:
            here, processes = train_mask.sum().double(), self._graph.all_reduce(y.new_ones(()))
            share = float(here * processes / self._graph.all_reduce(here))
        return NodeSets(y, [train_mask], self._num_classes, share)

    @cached_property
    def evaluated(self) -> NodeSets:
        """The validation nodes, then the test nodes."""
        y, _, val_mask, test_mask = self._batch
        return NodeSets(y, [val_mask, test_mask], self._num_classes)


class EpochMetrics:
    """The metrics of sets of nodes over the batches since the last :meth:`compute`.

    The state is what sums up over batches and processes: losses, confusion matrices where the
    targets are classes, and the task's own metrics; with ``keeps_all`` also those that keep all
    predictions of an epoch, such as ROC AUC. The first set has a loss.
    """

    def __init__(self, names: Sequence[str], task: Task, keeps_all: bool = True) -> None:
        self.names = names
        self.task = task
        self.counts: Tensor | None = None  # the confusion matrices of the last compute
        self._own = [
            {name: one for name, one in task.metrics().items() if keeps_all or not _keeps_all(one)}
            for _ in names
        ]
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._began = False
        self._sizes = [0] * len(self.names)
        self._counts: Any = 0
        self._losses: list[tuple[Tensor, int]] = []
        for metric in self._all():
            metric.reset()

    def state(self) -> dict[str, Any] | None:
        """The sums over the batches of an epoch that is not over, for a checkpoint; None if there
        are none."""
        own = [metric.metric_state for metric in self._all()]
        kept = {"sizes": self._sizes, "counts": self._counts, "losses": self._losses, "own": own}
        return kept if any(self._sizes) else None

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on with sums from a checkpoint."""
        state = move_data_to_device(state, device)
        self._sizes, self._counts, self._losses = state["sizes"], state["counts"], state["losses"]
        for metric, values in zip(self._all(), state["own"], strict=True):
            metric.to(device)
            for name, value in values.items():
                setattr(metric, name, value)
        self._began = True

    def add(
        self, sets: NodeSets, out: Float[Tensor, "nodes outputs"], loss: Tensor | None = None
    ) -> None:
        """Add the nodes of a batch, their outputs, and the mean loss of those of the first set."""
        self._began = True
        self._sizes = [old + new for old, new in zip(self._sizes, sets.sizes, strict=True)]
        if sets.cells is not None:
            self._counts += confusion(
                sets.cells + out.argmax(-1), len(self.names), self.task.num_outputs
            )
        if loss is not None:
            self._losses.append((loss, sets.sizes[0]))
        if not any(self._own):
            return
        compared = self.task.compared(out, sets.targets)
        parts = zip(*(values.split_with_sizes(sets.sizes) for values in compared), strict=True)
        for metrics, (predicted, targets) in zip(self._own, parts, strict=True):
            for metric in metrics.values():
                if not len(targets) and not _keeps_all(
                    metric
                ):  # those that do exchange their rows, even none
                    continue
                if metric.device != out.device:
                    metric.to(out.device)
                metric.update(predicted, targets)

    def compute(self, trainer: L.Trainer) -> dict[str, Tensor]:
        """Metrics of all batches in all processes, as scalars on their device; sets without nodes
        have none."""
        if not self._began:
            return {}
        sizes: Sequence[float] = self._sizes
        counts, loss = self._counts, self._mean_loss()
        if trainer.world_size > 1:
            counts, sizes, loss = self._merged(trainer)
            for (
                metric
            ) in self._all():  # a process without rows still has the types of its beginning
                metric.set_dtype(torch.float64)
        values = {} if loss is None else {f"{self.names[0]}/loss": loss}
        shares: dict[str, Sequence[Tensor]] = {}
        if isinstance(counts, Tensor):
            self.counts = counts
            shares = {"acc": accuracy(counts).unbind(), "f1": macro_f1(counts).unbind()}
        with warnings.catch_warnings():
            # Of a process that had no batch, of sums from a checkpoint, and in every epoch of a
            # label that is absent.
            warnings.simplefilter("ignore", UserWarning)
            for place, name in enumerate(self.names):
                if sizes[place]:
                    values |= {
                        f"{name}/{measure}": of_sets[place] for measure, of_sets in shares.items()
                    }
                    values |= {
                        f"{name}/{own}": metric.compute().float()
                        for own, metric in self._own[place].items()
                    }
        self.reset()
        return values

    def _all(self) -> list[Metric]:
        return [metric for of_set in self._own for metric in of_set.values()]

    def _mean_loss(self) -> Tensor | None:
        if len(self._losses) <= 1:
            return self._losses[0][0] if self._losses else None
        total: Any = sum(loss * size for loss, size in self._losses)
        return total / sum(size for _, size in self._losses)

    def _merged(self, trainer: L.Trainer) -> tuple[Any, list[float], Tensor | None]:
        """Mean counts, sizes and loss over all processes, in one exchange; mean counts give the
        same metrics as sums.

        Runs every epoch, because a schedule that watches a metric must find the same number in
        every process.
        """
        has_counts = isinstance(self._counts, Tensor)
        counts = self._counts if has_counts else torch.zeros(0, device=trainer.strategy.root_device)
        weighted = sum(
            (loss.double() * size for loss, size in self._losses), counts.new_zeros(()).double()
        )
        sizes = counts.new_tensor([sum(size for _, size in self._losses), *self._sizes])
        flat = torch.cat([part.double().flatten() for part in (weighted, sizes, counts)])
        flat = trainer.strategy.reduce(flat, reduce_op="mean")
        head = 2 + len(self.names)
        weighted_loss, number, *merged_sizes = flat[:head].tolist()
        dtype = self._losses[0][0].dtype if self._losses else torch.float32
        loss = flat.new_tensor(weighted_loss / number).to(dtype) if number else None
        return flat[head:].view_as(counts).to(counts.dtype) if has_counts else 0, merged_sizes, loss


def _keeps_all(metric: Metric) -> bool:
    return any(isinstance(state, list) for state in metric.metric_state.values())
