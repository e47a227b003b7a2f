"""What is measured on the nodes of a mask."""

import torchmetrics.classification as tm
from torchmetrics import Metric, MetricCollection

from gnn_depth.data.base import Task

# What a schedule can watch; lower or higher is better as its mode says.
MONITORED = ("train/loss", "train/acc", "train/f1", "val/loss", "val/acc", "val/f1", "val/auroc")


def classification_metrics(task: Task, num_classes: int) -> MetricCollection:
    """Accuracy and macro F1 of class probabilities (nodes, classes); binary sets have ROC AUC too.

    Inputs are trusted: probabilities come from our softmax and classes were checked when they were read.
    """
    metrics: dict[str, Metric | MetricCollection] = {
        "acc": tm.MulticlassAccuracy(num_classes, average="micro", validate_args=False),
        "f1": tm.MulticlassF1Score(num_classes, average="macro", validate_args=False),
    }
    if task == "binary":
        metrics["auroc"] = tm.MulticlassAUROC(2, average="macro", validate_args=False)
    # The members of a group share their counts only after a first update under one of them; both are cheap here.
    return MetricCollection(metrics, compute_groups=False)


def selection_metric(task: Task) -> str:
    """The validation metric by which the best epoch is chosen; higher is better."""
    return "val/auroc" if task == "binary" else "val/acc"
