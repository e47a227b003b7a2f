"""What is measured on the nodes of a set: pure functions, and the forms that merge several batches."""

import torch
import torchmetrics.classification as tm
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from gnn_depth.data.base import Task

# What a schedule can watch; lower or higher is better as its mode says.
MONITORED = ("train/loss", "train/acc", "train/f1", "val/loss", "val/acc", "val/f1", "val/auroc")


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
    """Share of nodes whose class is predicted."""
    return counts.diagonal(dim1=-2, dim2=-1).sum(-1) / counts.sum((-2, -1))


def macro_f1(counts: Float[Tensor, "sets classes classes"]) -> Float[Tensor, "sets"]:
    r"""Mean over the classes of :math:`2 TP / (2 TP + FP + FN)`; a class that no node has or gets does not count."""
    seen = counts.sum(-1) + counts.sum(-2)
    f1 = 2 * counts.diagonal(dim1=-2, dim2=-1) / seen.clamp_min(1)
    present = (seen > 0).to(f1.dtype)
    return (f1 / present.sum(-1, keepdim=True)).sum(-1)


def auroc(scores: Float[Tensor, "nodes"], classes: Int[Tensor, "nodes"]) -> Float[Tensor, ""]:
    """Probability that a node of class 1 has a higher score than one of class 0; ties count half.

    Zero where a class is absent.
    """
    ranked = scores.sort().values
    # Twice the mean rank of all nodes with the same score, counted from 0.
    ranks = torch.searchsorted(ranked, scores) + torch.searchsorted(ranked, scores, right=True) - 1
    ones = classes.sum()
    zeros = len(classes) - ones
    wins = (ranks * classes).sum() - ones * (ones - 1)
    return (wins.double() / (2 * ones * zeros).clamp_min(1)).float()


def classification_metrics(task: Task, num_classes: int) -> MetricCollection:
    """Accuracy and macro F1 of several batches together; binary sets have ROC AUC too. Fed by :func:`update`.

    Inputs are trusted: scores come from our model and classes were checked when they were read.
    """
    metrics: dict[str, Metric | MetricCollection] = {
        "acc": tm.MulticlassAccuracy(num_classes, average="micro", validate_args=False),
        "f1": tm.MulticlassF1Score(num_classes, average="macro", validate_args=False),
    }
    if task == "binary":
        metrics["auroc"] = tm.MulticlassAUROC(2, average="macro", validate_args=False)
    # The members of a group share their counts only after a first update under one of them; both are cheap here.
    return MetricCollection(metrics, compute_groups=False)


def update(metrics: MetricCollection, scores: Float[Tensor, "nodes classes"], classes: Int[Tensor, "nodes"]) -> None:
    """Take a batch into account.

    Args:
        metrics: Of :func:`classification_metrics`.
        scores: Class scores (logits).
        classes: The true classes.
    """
    predicted = scores.argmax(-1)
    for metric in metrics.values(copy_state=False):
        # In float64 the probabilities of confident models still differ, and ROC AUC can rank them.
        ranked = isinstance(metric, tm.MulticlassAUROC)
        metric.update(scores.double().softmax(-1) if ranked else predicted, classes)


def selection_metric(task: Task) -> str:
    """The validation metric by which the best epoch is chosen; higher is better."""
    return "val/auroc" if task == "binary" else "val/acc"
