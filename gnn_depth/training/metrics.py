"""Loss, accuracy, macro F1 and ROC AUC of sets of nodes, over the batches of an epoch and over all processes."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import lightning as L
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

from gnn_depth.data.base import NodeBatch, Task

# Metrics that a schedule can watch. Whether lower or higher is better is the schedule's mode.
MONITORED = ("train/loss", "train/acc", "train/f1", "val/loss", "val/acc", "val/f1", "val/auroc")


def selection_metric(task: Task) -> str:
    """The validation metric by which the best epoch is chosen; higher is better."""
    return "val/auroc" if task == "binary" else "val/acc"


def confusion(cells: Int[Tensor, "nodes"], num_sets: int, num_classes: int) -> Float[Tensor, "sets classes classes"]:
    """Count nodes by set, class and predicted class.

    Args:
        cells: For each node ``(set * num_classes + class) * num_classes + predicted class``.
        num_sets: Number of sets.
        num_classes: Number of classes.
    """
    # Not bincount, which makes the host wait for a GPU. Single precision counts exactly up to 2^24 nodes.
    counts = torch.zeros(num_sets * num_classes**2, dtype=torch.float32, device=cells.device)
    ones = torch.ones((), dtype=torch.float32, device=cells.device).expand_as(cells)
    return counts.index_add_(0, cells, ones).view(num_sets, num_classes, num_classes)


def accuracy(counts: Float[Tensor, "sets classes classes"]) -> Float[Tensor, "sets"]:
    """Share of the nodes whose class is predicted correctly."""
    return counts.diagonal(dim1=-2, dim2=-1).sum(-1) / counts.sum((-2, -1))


def macro_f1(counts: Float[Tensor, "sets classes classes"]) -> Float[Tensor, "sets"]:
    r"""Mean of :math:`2 TP / (2 TP + FP + FN)` over the classes that occur among the labels or the predictions."""
    seen = counts.sum(-1) + counts.sum(-2)
    f1 = 2 * counts.diagonal(dim1=-2, dim2=-1) / seen.clamp_min(1)
    present = (seen > 0).to(f1.dtype)
    return (f1 / present.sum(-1, keepdim=True)).sum(-1)


def auroc(scores: Float[Tensor, "nodes"], classes: Int[Tensor, "nodes"]) -> Float[Tensor, ""]:
    """Probability that a node of class 1 has a higher score than one of class 0; ties count half.

    Zero if a class is absent.
    """
    ranked = scores.sort().values
    # Twice the mean rank of all nodes with the same score, counted from 0.
    ranks = torch.searchsorted(ranked, scores) + torch.searchsorted(ranked, scores, right=True) - 1
    ones = classes.sum()
    zeros = len(classes) - ones
    wins = (ranks * classes).sum() - ones * (ones - 1)
    return (wins.double() / (2 * ones * zeros).clamp_min(1)).float()


class NodeSets:
    """The nodes of one or more sets of a batch, one set after the other.

    Args:
        y: Classes of the nodes.
        masks: The nodes of each set.
        num_classes: Number of classes.

    Attributes:
        sizes: Number of nodes of each set.
        nodes: The nodes.
        classes: The class of each.
        cells: For each node its first cell in the confusion matrices of all sets, see :func:`confusion`.
    """

    def __init__(self, y: Int[Tensor, "nodes"], masks: Sequence[Tensor], num_classes: int) -> None:
        parts = [mask.nonzero().flatten() for mask in masks]
        self.sizes = [len(part) for part in parts]
        self.nodes = torch.cat(parts)
        self.classes = y[self.nodes]
        sets = torch.cat([torch.full_like(part, place) for place, part in enumerate(parts)])
        self.cells = (sets * num_classes + self.classes) * num_classes


class BatchSets:
    """The training nodes of a batch, and those of validation and test.

    Kept from step to step while the batch is the same: finding the nodes of a mask takes as long as a metric, and makes
    the host wait for a GPU.
    """

    def __init__(self, batch: NodeBatch, num_classes: int) -> None:
        self._batch = (batch.y, *batch.masks)
        self._num_classes = num_classes

    def belong_to(self, batch: NodeBatch) -> bool:
        """True if these are the sets of a batch."""
        return all(ours is theirs for ours, theirs in zip(self._batch, (batch.y, *batch.masks), strict=True))

    @cached_property
    def train(self) -> NodeSets:
        """The training nodes."""
        y, train_mask, _, _ = self._batch
        return NodeSets(y, [train_mask], self._num_classes)

    @cached_property
    def evaluated(self) -> NodeSets:
        """The validation nodes, then the test nodes."""
        y, _, val_mask, test_mask = self._batch
        return NodeSets(y, [val_mask, test_mask], self._num_classes)


class EpochMetrics:
    """The metrics of sets of nodes over the batches since the last :meth:`compute`.

    The state is what sums up over batches and processes: losses, confusion matrices and, for ROC AUC, the scores.

    Args:
        names: Names of the sets; the first one has a loss.
        num_classes: Number of classes.
        task: ``binary`` adds ROC AUC.

    Attributes:
        counts: The confusion matrices of the last :meth:`compute`.
    """

    def __init__(self, names: Sequence[str], num_classes: int, task: Task = "multiclass") -> None:
        self.names = names
        self.num_classes = num_classes
        self.task = task
        self.counts: Tensor | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._sizes = [0] * len(self.names)
        self._counts: Any = 0
        self._losses: list[tuple[Tensor, int]] = []
        self._ranked: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.names]

    def state(self) -> dict[str, Any] | None:
        """The sums over the batches of an epoch that is not over, for a checkpoint; None if there are none."""
        return {"sizes": self._sizes, "counts": self._counts, "losses": self._losses} if any(self._sizes) else None

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on with sums from a checkpoint."""
        self._sizes, self._counts = state["sizes"], state["counts"].to(device)
        self._losses = [(loss.to(device), size) for loss, size in state["losses"]]

    def add(self, sets: NodeSets, scores: Float[Tensor, "nodes classes"], loss: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            sets: Its nodes.
            scores: Their class scores (logits).
            loss: Mean loss of the first set.
        """
        self._sizes = [old + new for old, new in zip(self._sizes, sets.sizes, strict=True)]
        self._counts += confusion(sets.cells + scores.argmax(-1), len(self.names), self.num_classes)
        if loss is not None:
            self._losses.append((loss, sets.sizes[0]))
        if self.task == "binary":
            # The difference of the scores ranks nodes as probabilities do, and never saturates.
            margins = (scores[:, 1].double() - scores[:, 0].double()).split_with_sizes(sets.sizes)
            for ranked, margin, classes in zip(
                self._ranked, margins, sets.classes.split_with_sizes(sets.sizes), strict=True
            ):
                ranked.append((margin, classes))

    def compute(self, trainer: L.Trainer) -> dict[str, Tensor]:
        """Metrics of all batches in all processes, as scalars on their device; sets without nodes have none."""
        if not isinstance(self._counts, Tensor):
            return {}
        sizes: Sequence[float] = self._sizes
        counts, loss = self._counts, self._mean_loss()
        if trainer.world_size > 1:
            counts, sizes, loss = self._merged(trainer)
        self.counts = counts
        accuracies, f1s = accuracy(counts).unbind(), macro_f1(counts).unbind()
        values = {} if loss is None else {f"{self.names[0]}/loss": loss}
        for place, name in enumerate(self.names):
            if sizes[place]:
                values |= {f"{name}/acc": accuracies[place], f"{name}/f1": f1s[place]}
                if self.task == "binary":
                    values[f"{name}/auroc"] = self._auroc(place, trainer)
        self.reset()
        return values

    def _mean_loss(self) -> Tensor | None:
        if len(self._losses) <= 1:
            return self._losses[0][0] if self._losses else None
        total: Any = sum(loss * size for loss, size in self._losses)
        return total / sum(size for _, size in self._losses)

    def _merged(self, trainer: L.Trainer) -> tuple[Tensor, list[float], Tensor | None]:
        """Mean counts, sizes and loss over all processes, in one exchange; mean counts give the same metrics as sums.

        Runs every epoch, because a schedule that watches a metric must find the same number in every process.
        """
        weighted = sum((loss.double() * size for loss, size in self._losses), self._counts.new_zeros(()).double())
        sizes = self._counts.new_tensor([sum(size for _, size in self._losses), *self._sizes])
        flat = torch.cat([part.double().flatten() for part in (weighted, sizes, self._counts)])
        flat = trainer.strategy.reduce(flat, reduce_op="mean")
        head = 2 + len(self.names)
        weighted_loss, number, *merged_sizes = flat[:head].tolist()
        dtype = self._losses[0][0].dtype if self._losses else torch.float32
        loss = flat.new_tensor(weighted_loss / number).to(dtype) if number else None
        return flat[head:].view_as(self._counts).to(self._counts.dtype), merged_sizes, loss

    def _auroc(self, place: int, trainer: L.Trainer) -> Tensor:
        margins, classes = (torch.cat(part) for part in zip(*self._ranked[place], strict=True))
        if trainer.world_size > 1:
            margins, classes = (torch.cat(gather_all_tensors(part)) for part in (margins, classes))
        return auroc(margins, classes)
