"""Tasks: the loss of a model, its metrics, and the metric that chooses the best epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric

from gnn_depth.builder import build
from gnn_depth.registry import get, register, registered
from gnn_depth.training.metrics import NAN_OUTPUT, R2, MicroF1, RocAuc

#: The kinds of targets: one class per node or graph, several yes-or-no labels, or numbers.
Targets: TypeAlias = Literal["classes", "labels", "numbers"]


class Task(ABC):
    """A loss, metrics, and the metric that chooses the best epoch.

    ``out`` are the model's outputs, shape (rows, outputs), and ``y`` the targets. A row is a node,
    or a graph if the data set has one target per graph.

    Args:
        num_outputs: Number of classes, labels or numbers.

    Attributes:
        targets: The kind of targets that it accepts.
        best: Name of the validation metric that chooses the best epoch.
        lower_is_better: True if the best epoch has the smallest value of ``best``.
        counts_classes: True for tasks with one class per row: accuracy and macro F1 are computed
            for them.
        words: The display name of each metric, in display order.
        chance: The value of ``chance_metric`` for a constant prediction; None if it depends on the
            data.
        chance_metric: The metric that shows whether the model learned anything, by default
            ``best``.
        constant: The constant prediction in words, for messages.
    """

    targets: ClassVar[Targets]
    best: ClassVar[str]
    lower_is_better: ClassVar[bool] = False
    counts_classes: ClassVar[bool] = False
    words: ClassVar[Mapping[str, str]] = {}
    chance: ClassVar[float | None] = None
    chance_metric: ClassVar[str | None] = None
    constant: ClassVar[str] = "a constant prediction"

    def __init__(self, num_outputs: int) -> None:
        self.num_outputs = num_outputs

    @abstractmethod
    def loss(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> Float[Tensor, ""]:
        """Mean loss of the rows."""

    def metrics(self) -> dict[str, Metric]:
        """New metrics by name, without the loss; :meth:`compared` returns what they compare.

        Metrics that keep all predictions of an epoch are computed for validation and test only.
        """
        return {}

    def compared(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and targets in the form that the metrics take."""
        return self.prediction(out), y

    def prediction(self, out: Float[Tensor, "rows outputs"]) -> Float[Tensor, "rows outputs"]:
        """The outputs as probabilities or numbers, which ``gnn-depth predict`` writes."""
        return out

    def directions(self) -> dict[str, str | None]:
        """For each metric and the loss, which values are best: ``min`` or ``max``.

        It is None for a metric of a user's task whose ``higher_is_better`` is None.
        """
        modes: dict[str, str | None] = {"loss": "min"}
        if self.counts_classes:
            modes |= {"acc": "max", "f1": "max"}
        for name, metric in self.metrics().items():
            if metric.higher_is_better is None:
                modes[name] = None
            else:
                modes[name] = "max" if metric.higher_is_better else "min"
        # The task has the last word on the metric that chooses the best epoch.
        if self.best in modes:
            modes[self.best] = "min" if self.lower_is_better else "max"
        return modes

    def metric_names(self) -> list[str]:
        """Names of all metrics, the loss included."""
        return list(self.directions())

    def undefined(self, name: str) -> str:
        """Why a metric that is NaN is undefined, in words."""
        known = getattr(self.metrics().get(name), "undefined", None)
        if known is None and name in ("acc", "f1", "mae", "rmse", "loss"):
            known = NAN_OUTPUT
        return known or "it is not defined on this data"


TaskFactory: TypeAlias = Callable[[int], Task]


@register("task", "multiclass")
class MultiClass(Task):
    r"""One of several classes: cross-entropy; accuracy chooses the best epoch.

    .. math:: L = -\tfrac1N \sum_i \log \mathrm{softmax}(o_i)_{y_i}

    Args:
        num_outputs: Number of classes.
    """

    targets = "classes"
    best = "acc"
    counts_classes = True
    words: ClassVar[Mapping[str, str]] = {"acc": "accuracy", "f1": "macro F1"}
    constant = "the most frequent class for every node"

    def loss(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> Float[Tensor, ""]:
        return F.cross_entropy(out, y)

    def prediction(self, out: Float[Tensor, "rows outputs"]) -> Float[Tensor, "rows outputs"]:
        return out.softmax(-1)


@register("task", "binary")
class Binary(MultiClass):
    """Two classes, often of unequal size: cross-entropy; ROC AUC chooses the best epoch.

    Args:
        num_outputs: Number of classes: 2.

    Raises:
        ValueError: There are more classes.
    """

    best = "auroc"
    words: ClassVar[Mapping[str, str]] = {"auroc": "ROC AUC", "acc": "accuracy", "f1": "macro F1"}
    chance = 0.5
    constant = "a coin"

    def __init__(self, num_outputs: int) -> None:
        super().__init__(num_outputs)
        if num_outputs != 2:
            raise ValueError(
                f"task binary needs 2 classes, and this data has {num_outputs}: use task "
                "multiclass."
            )

    def metrics(self) -> dict[str, Metric]:
        return {"auroc": RocAuc()}

    def compared(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> tuple[Tensor, Tensor]:
        # The difference of the logits ranks rows as the probability does. It does not saturate:
        # probabilities that round to 0 or 1 would tie.
        return out[:, 1].double() - out[:, 0].double(), y


@register("task", "multilabel")
class MultiLabel(Task):
    r"""Several yes-or-no labels: binary cross-entropy; micro F1 chooses the best epoch.

    .. math::
        L = -\tfrac{1}{NK} \sum_{ik} y_{ik} \log \sigma(o_{ik})
        + (1 - y_{ik}) \log (1 - \sigma(o_{ik}))

    Micro F1 counts the true and false positives of all labels together; ROC AUC is the mean over
    the labels that are true in some rows and false in others.

    Args:
        num_outputs: Number of labels.
    """

    targets = "labels"
    best = "f1"
    words: ClassVar[Mapping[str, str]] = {"f1": "micro F1", "auroc": "ROC AUC"}
    chance = 0.5
    chance_metric = "auroc"
    constant = "a coin"

    def loss(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> Float[Tensor, ""]:
        return F.binary_cross_entropy_with_logits(out, y.to(out.dtype))

    def metrics(self) -> dict[str, Metric]:
        return {"f1": MicroF1(), "auroc": RocAuc()}

    def compared(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> tuple[Tensor, Tensor]:
        return out, y.long()  # logits, because probabilities that round to 0 or 1 would tie

    def prediction(self, out: Float[Tensor, "rows outputs"]) -> Float[Tensor, "rows outputs"]:
        return out.sigmoid()


@register("task", "regression")
class Regression(Task):
    r"""One or several numbers: squared or absolute error; MAE chooses the best epoch.

    MAE is the mean absolute error.

    .. math:: L = \tfrac{1}{NK} \sum_{ik} (o_{ik} - y_{ik})^2 \quad \mathrm{or} \quad
        \tfrac{1}{NK} \sum_{ik} |o_{ik} - y_{ik}|

    Args:
        num_outputs: Number of numbers to predict.
        error: The error that the loss averages: ``squared`` or ``absolute``.
    """

    targets = "numbers"
    best = "mae"
    lower_is_better = True
    words: ClassVar[Mapping[str, str]] = {
        "mae": "mean abs. error",
        "rmse": "root mean sq. error",
        "r2": "R2",
    }
    chance = 0.0
    chance_metric = "r2"
    constant = "the mean of all targets"

    def __init__(self, num_outputs: int, error: Literal["squared", "absolute"] = "squared") -> None:
        super().__init__(num_outputs)
        self.error = error

    def loss(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> Float[Tensor, ""]:
        y = y.view_as(out).to(out.dtype)  # a single number per row may have shape (rows,)
        return F.mse_loss(out, y) if self.error == "squared" else F.l1_loss(out, y)

    def metrics(self) -> dict[str, Metric]:
        # torchmetrics adds in single precision unless it is told otherwise.
        mae = MeanAbsoluteError().set_dtype(torch.float64)
        rmse = MeanSquaredError(squared=False).set_dtype(torch.float64)
        return {"mae": mae, "rmse": rmse, "r2": R2(self.num_outputs)}

    def compared(self, out: Float[Tensor, "rows outputs"], y: Tensor) -> tuple[Tensor, Tensor]:
        return out.double(), y.view_as(out).double()


def make_task(task: Any, default: str, num_outputs: int) -> Task:
    """Make the task of a model.

    Args:
        task: A name, a dict of a name and options, or a factory; None for the default.
        default: The name of the data set's own task.
        num_outputs: Number of classes, labels or numbers.

    Raises:
        ValueError: The task learns another kind of targets than the data has.
    """
    own: Any = get("task", default)
    make = own if task is None else build("task", task)
    made: Task = make(num_outputs)
    if made.targets != own.targets:
        tasks: dict[str, Any] = registered("task")
        fitting = [name for name, cls in tasks.items() if cls.targets == own.targets]
        raise ValueError(
            f"task {type(made).__name__} learns {made.targets}, and the targets of this data are "
            f"{own.targets}. "
            f"Tasks for {own.targets}: {', '.join(fitting)}; by default {default}."
        )
    return made
