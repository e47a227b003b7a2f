"""Loss and metrics of sets of nodes, over the batches of an epoch and over all processes."""

import operator
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import lightning as L
import torch
from jaxtyping import Float
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torchmetrics import Metric

from gnn_depth.graph import Graph
from gnn_depth.training.metrics import confusion, predicted_classes
from gnn_depth.training.tasks import Task


class NodeSets:
    """The nodes of one or more sets of a batch, one set after the other.

    Graphs stand for nodes where each graph has a target.

    Args:
        y: The targets of the batch.
        masks: The sets.
        task: The task.
        graph: The graph of the batch, if it may be a shard.

    Attributes:
        share: P n / N for the n nodes here of N in all P processes that hold a graph together: the
            mean over the processes of share x mean loss is the mean loss of all N nodes.
    """

    def __init__(
        self, y: Tensor, masks: Sequence[Tensor], task: Task, graph: Graph | None = None
    ) -> None:
        self._given = (y, *masks)
        sets = [mask.nonzero().flatten() for mask in masks]
        self.sizes = [len(nodes) for nodes in sets]
        self.nodes = torch.cat(sets)
        self.targets = y[self.nodes]
        self.share = 1.0
        if graph is not None and graph.is_shard:
            # In float32, counts stop at 2^24.
            here = y.new_tensor(len(self.nodes), dtype=torch.float64)
            processes = graph.all_reduce(torch.ones_like(here))
            self.share = float(here * processes / graph.all_reduce(here))
        # For each node its first cell in the matrices of confusion().
        self.cells: Tensor | None = None
        if task.counted:
            places = torch.cat([torch.full_like(nodes, place) for place, nodes in enumerate(sets)])
            classes = task.num_outputs
            self.cells = (places * classes + self.targets) * (classes + 1)

    def are_of(self, y: Tensor, masks: Sequence[Tensor]) -> bool:
        """True if these are the sets of the same tensors."""
        return all(map(operator.is_, self._given, (y, *masks)))


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
        # The task's own metrics: the place of a set, name and metric.
        self._own: list[tuple[int, str, Metric]] = []
        for place in range(len(names)):
            for own, metric in task.metrics().items():
                if keeps_all or not _keeps_all(metric):
                    self._own.append((place, own, metric))
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._sizes: list[int] = []  # of the sets; empty before the first batch
        self._counts: Tensor | None = None
        self._losses: list[tuple[Tensor, int]] = []
        for _, _, metric in self._own:
            metric.reset()

    def state(self) -> list[Any] | None:
        """The sums over the batches of an unfinished epoch, for a checkpoint; None if empty."""
        if not any(self._sizes):
            return None
        own = [metric.metric_state for _, _, metric in self._own]
        return [self._sizes, self._counts, self._losses, own]

    def restore(self, state: list[Any], device: torch.device) -> None:
        """Go on with sums from a checkpoint."""
        self._sizes, self._counts, self._losses, own = move_data_to_device(state, device)
        for (_, _, metric), values in zip(self._own, own, strict=True):
            metric.to(device)
            for name, value in values.items():
                setattr(metric, name, value)

    def add(
        self, sets: NodeSets, out: Float[Tensor, "nodes outputs"], loss: Tensor | None = None
    ) -> None:
        """Add the nodes of a batch, their outputs, and the mean loss of those of the first set."""
        before = self._sizes or [0] * len(self.names)
        self._sizes = list(map(operator.add, before, sets.sizes))
        if sets.cells is not None:
            cells = sets.cells + predicted_classes(out)
            # Every epoch, so in one pass: metrics of classes follow from these counts alone.
            counts = confusion(cells, len(self.names), self.task.num_outputs)
            if self._counts is not None:
                counts = self._counts + counts
            self._counts = counts
        if loss is not None:
            self._losses.append((loss, sets.sizes[0]))
        if not self._own:
            return
        predicted, targets = self.task.compared(out, sets.targets)
        predictions_of = predicted.split_with_sizes(sets.sizes)
        targets_of = targets.split_with_sizes(sets.sizes)
        for place, _, metric in self._own:
            # Metrics that keep all rows exchange them between processes, even none.
            if sets.sizes[place] or _keeps_all(metric):
                if metric.device != out.device:
                    metric.to(out.device)
                metric.update(predictions_of[place], targets_of[place])

    def compute(self, trainer: L.Trainer | None = None) -> dict[str, Tensor]:
        """Metrics of all batches as scalars on their device; of all processes, given a trainer.

        A set without nodes has none; a metric that is undefined is NaN.
        """
        if not self._sizes:
            return {}
        sizes: list[Any] = self._sizes
        counts, loss = self._counts, None
        if len(self._losses) == 1:  # as it is: x * n / n may differ in its last bit
            loss = self._losses[0][0]
        elif self._losses:
            weighted = sum(each * size for each, size in self._losses)
            loss = torch.as_tensor(weighted / sum(size for _, size in self._losses))
        if trainer is not None and trainer.world_size > 1:
            if trainer.training:
                loader = trainer.train_dataloader
            elif trainer.testing:
                loader = trainer.test_dataloaders
            else:
                loader = trainer.val_dataloaders
            # Sums and never means: processes may have different numbers of rows.
            exchange: Any = partial(trainer.strategy.reduce, reduce_op="sum")
            if getattr(loader, "shared", False):  # all have computed the same full batch
                exchange = trainer.strategy.broadcast
            total = float(sum(each.double() * size for each, size in self._losses))
            device = trainer.strategy.root_device
            # Every epoch: a schedule that watches a metric finds one number in every process.
            sums = exchange(torch.tensor([total, *sizes], dtype=torch.float64, device=device))
            total, *sizes = sums.tolist()
            if sizes[0]:
                loss = sums.new_tensor(total / sizes[0])
                if not self._losses or self._losses[0][0].dtype != torch.float64:
                    loss = loss.float()
            if counts is not None:
                counts = exchange(counts)
            for _, _, metric in self._own:
                # A process without rows still has the types of its beginning.
                metric.set_dtype(torch.float64)
        values = {}
        if loss is not None:
            values[f"{self.names[0]}/loss"] = loss
        of_counts = {}
        if counts is not None:
            self.counts = counts
            of_counts = self.task.of_counts(counts)
        with warnings.catch_warnings():
            # torchmetrics warns of a process that had no batch, and of sums from a checkpoint.
            warnings.simplefilter("ignore", UserWarning)
            for place, name in enumerate(self.names):
                if not sizes[place]:
                    continue
                for own, of_sets in of_counts.items():
                    values[f"{name}/{own}"] = of_sets[place]
                for its_place, own, metric in self._own:
                    if its_place == place:
                        # A user's metric may be a count.
                        values[f"{name}/{own}"] = metric.compute() * 1.0
        self.reset()
        return values

    def remarks(self) -> Iterator[tuple[str, str]]:
        """Metrics that the last compute took over a part of the labels only, and what they say."""
        for place, own, metric in self._own:
            remark = getattr(metric, "remark", str)()
            if remark:
                yield f"{self.names[place]}/{own}", remark


def _keeps_all(metric: Metric) -> bool:
    return any(isinstance(state, list) for state in metric.metric_state.values())
