"""Tasks: the loss of a model, its metrics, and the metric that chooses the best epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from gnn_depth.builder import LIVE, build
from gnn_depth.data.schema import Scaling, Schema
from gnn_depth.data.targets import positive_class
from gnn_depth.registry import register, unknown
from gnn_depth.training.metrics import (
    NAN_OUTPUT,
    R2,
    AbsoluteError,
    AveragePrecision,
    MicroF1,
    RocAuc,
    RootSquaredError,
    class_metrics,
)

#: The kinds of targets: one class per node or graph, several yes-or-no labels, or numbers.
Targets: TypeAlias = Literal["classes", "labels", "numbers"]
#: Outputs of a model, a row for each node or graph.
Outputs: TypeAlias = Float[Tensor, "rows outputs"]
#: Confusion matrices of several sets of rows.
Counts: TypeAlias = Int[Tensor, "sets classes predictions"]


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
        counted: For tasks with one class per row: names of the metrics that follow from confusion
            matrices, by :meth:`of_counts`.
        words: The display name of each metric, in display order.
        chance: The value of ``chance_metric`` for a constant prediction; None if it depends on the
            data.
        chance_metric: The metric that shows whether the model learned anything, by default the one
            that the report begins with.
        constant: A description of the constant prediction, for messages.
    """

    targets: ClassVar[Targets]
    best: str
    lower_is_better: bool = False
    counted: ClassVar[tuple[str, ...]] = ()
    words: Mapping[str, str] = {}
    chance: ClassVar[float | None] = None
    chance_metric: ClassVar[str | None] = None
    constant: ClassVar[str] = "a constant prediction"

    def __init__(self, num_outputs: int) -> None:
        self.num_outputs = num_outputs

    @abstractmethod
    def loss(self, out: Outputs, y: Tensor) -> Float[Tensor, ""]:
        """Mean loss of the rows."""

    def metrics(self) -> dict[str, Metric]:
        """New metrics by name, without the loss; :meth:`compared` returns what they compare.

        Metrics that keep all predictions of an epoch are computed for validation and test only.
        """
        return {}

    def of_counts(self, counts: Counts) -> dict[str, Float[Tensor, "sets"]]:
        """The metrics ``counted``, for each set, from its confusion matrix."""
        return class_metrics(counts)

    def chance_of(
        self, metric: str, of_class: Int[Tensor, "classes"] | None = None
    ) -> float | None:
        """The highest value of a metric for one prediction that is the same for all rows.

        Args:
            metric: Its name.
            of_class: The number of rows of each class, if there are classes.

        Returns:
            The value; None if it is not known.
        """
        if metric == (self.chance_metric or type(self).best):
            return self.chance
        return None

    def read_schema(self, schema: Schema) -> Schema:
        """Take over what the data says of its classes; return the schema that the run remembers.

        Raises:
            ValueError: An option of the task names a class that the data does not have.
        """
        return schema

    def compared(self, out: Outputs, y: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and targets in the form that the metrics take."""
        return self.prediction(out), y

    def prediction(self, out: Outputs) -> Outputs:
        """The outputs as probabilities or numbers, which ``gnn-depth predict`` writes."""
        return out

    def directions(self) -> dict[str, str | None]:
        """For each metric and the loss, which values are best: ``min`` or ``max``.

        It is None for a metric of a user's task whose ``higher_is_better`` is None.
        """
        higher_is_better: dict[str, bool | None] = {"loss": False}
        higher_is_better |= dict.fromkeys(self.counted, True)
        for name, metric in self.metrics().items():
            higher_is_better[name] = metric.higher_is_better
        # The task has the last word on the metric that chooses the best epoch.
        if self.best in higher_is_better:
            higher_is_better[self.best] = not self.lower_is_better
        modes = {True: "max", False: "min", None: None}
        return {name: modes[higher] for name, higher in higher_is_better.items()}

    def choose_best(self, metric: str) -> None:
        """Let another metric choose the best epoch, ``loss`` among them.

        Raises:
            ValueError: There is no such metric, or it is not known which of its values are best.
        """
        modes = self.directions()
        if modes.get(metric) is None:
            raise ValueError(unknown("best_metric", metric, modes))
        self.best, self.lower_is_better = metric, modes[metric] == "min"

    #: The scaling of each number in the loss; empty without any.
    scalings: tuple[Scaling, ...] = ()

    def scale_targets(self, scalings: Sequence[Scaling]) -> None:
        """Learn scaled numbers, one scaling for each; metrics and predictions keep their units.

        Raises:
            ValueError: The task does not learn numbers.
        """
        raise ValueError(
            f"task {type(self).__name__} cannot scale its targets: leave scale_target out."
        )

    def undefined(self, name: str) -> str:
        """The reason why a metric is NaN."""
        reason: str = getattr(self.metrics().get(name), "undefined", NAN_OUTPUT)
        return reason


def weights_of_known(y: Outputs) -> Outputs:
    """Weights whose mean of losses is that of the targets that are known: 0 for NaN, else equal."""
    known = (~y.isnan()).to(y.dtype)
    return known * (known.numel() / known.sum())


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
    counted: ClassVar[tuple[str, ...]] = ("acc", "f1", "bacc")
    words: Mapping[str, str] = {
        "acc": "accuracy",
        "f1": "macro F1",
        "bacc": "balanced accuracy",
    }
    constant = "the best constant prediction, one class for every node,"

    def loss(self, out: Outputs, y: Tensor) -> Float[Tensor, ""]:
        return F.cross_entropy(out, y)

    def chance_of(
        self, metric: str, of_class: Int[Tensor, "classes"] | None = None
    ) -> float | None:
        if metric not in self.counted or of_class is None:
            return super().chance_of(metric, of_class)
        # One confusion matrix for each class that could be predicted throughout.
        predicted = F.pad(torch.ones_like(of_class).diag(), (0, 1))
        counts = of_class[:, None] * predicted[:, None]
        return float(self.of_counts(counts)[metric].nan_to_num(0).max())

    def prediction(self, out: Outputs) -> Outputs:
        return out.softmax(-1)


@register("task", "binary")
class Binary(MultiClass):
    """Two classes, often of unequal size: cross-entropy; ROC AUC chooses the best epoch.

    Average precision and an F1 are those of the positive class, which the report names. The run
    remembers it in its ``schema.yaml`` and its checkpoints.

    Args:
        num_outputs: Number of classes: 2.
        positive: Name of the positive class, such as fraud. By default the second one of no and
            yes, false and true, 0 and 1, -1 and 1, negative and positive; of other names the class
            with fewer training rows.

    Raises:
        ValueError: There are more classes.
    """

    best = "auroc"
    counted = (*MultiClass.counted, "f1_positive")
    words: Mapping[str, str] = {
        "auroc": "ROC AUC",
        "ap": "average precision",
        "f1_positive": "F1 of the positive class",
        **MultiClass.words,
    }
    chance = 0.5

    def __init__(self, num_outputs: int, positive: str | int | None = None) -> None:
        super().__init__(num_outputs)
        self.positive = positive
        self.number = 1  # of the positive class
        if num_outputs != 2:
            raise ValueError(
                f"task binary needs 2 classes, and this data has {num_outputs}: use task "
                "multiclass."
            )

    def read_schema(self, schema: Schema) -> Schema:
        # The schema of a checkpoint names it: other data may have other rare classes.
        name = schema.positive or positive_class(schema.outputs, schema.train_counts)
        if self.positive is not None:
            name = str(self.positive)
            if name not in schema.outputs:
                raise ValueError(unknown("positive class", name, schema.outputs))
        self.number = schema.outputs.index(name)
        of_class = {"ap": f"average precision of {name!r}", "f1_positive": f"F1 of {name!r}"}
        self.words = {**type(self).words, **of_class}
        return replace(schema, positive=name)

    def metrics(self) -> dict[str, Metric]:
        return {"auroc": RocAuc(), "ap": AveragePrecision()}

    def of_counts(self, counts: Counts) -> dict[str, Float[Tensor, "sets"]]:
        return class_metrics(counts, self.number)

    def compared(self, out: Outputs, y: Tensor) -> tuple[Tensor, Tensor]:
        # The difference of the logits ranks rows as the probability does. It does not saturate:
        # probabilities that round to 0 or 1 would tie.
        score = out[:, self.number].double() - out[:, 1 - self.number].double()
        if self.number == 0:
            y = 1 - y
        return score, y

    def undefined(self, name: str) -> str:
        if name == "f1_positive":
            return f"no row has the class, and none is predicted, or {NAN_OUTPUT}"
        return super().undefined(name)


@register("task", "multilabel")
class MultiLabel(Task):
    r"""Several yes-or-no labels: binary cross-entropy; micro F1 chooses the best epoch.

    .. math::
        L = -\tfrac{1}{NK} \sum_{ik} y_{ik} \log \sigma(o_{ik})
        + (1 - y_{ik}) \log (1 - \sigma(o_{ik}))

    A label that is NaN is in no sum, and N K is the number of the others. Micro F1 counts the true
    and false positives of all labels together; ROC AUC is the mean over the labels that are true in
    some rows and false in others.

    Args:
        num_outputs: Number of labels.
    """

    targets = "labels"
    best = "f1"
    words: Mapping[str, str] = {
        "f1": "micro F1",
        "auroc": "ROC AUC",
        "ap": "average precision",
    }
    chance = 0.5
    chance_metric = "auroc"
    constant = "a coin"

    def loss(self, out: Outputs, y: Tensor) -> Float[Tensor, ""]:
        y = y.to(out.dtype)
        return F.binary_cross_entropy_with_logits(out, y.nan_to_num(), weights_of_known(y))

    def metrics(self) -> dict[str, Metric]:
        return {"f1": MicroF1(), "auroc": RocAuc(), "ap": AveragePrecision()}

    def compared(self, out: Outputs, y: Tensor) -> tuple[Tensor, Tensor]:
        # Logits, because probabilities that round to 0 or 1 would tie; -1 for labels not known.
        return out, y.nan_to_num(-1).long()

    def prediction(self, out: Outputs) -> Outputs:
        return out.sigmoid()


@register("task", "regression")
class Regression(Task):
    r"""One or several numbers: squared or absolute error; MAE chooses the best epoch.

    A number that is NaN is in no sum, and N K is the number of the others. MAE is the mean absolute
    error. Where the data has ``scale_target``, o and y in the loss are
    scaled, and in the metrics and predictions they are not.

    .. math:: L = \tfrac{1}{NK} \sum_{ik} (o_{ik} - y_{ik})^2 \quad \mathrm{or} \quad
        \tfrac{1}{NK} \sum_{ik} |o_{ik} - y_{ik}|

    Args:
        num_outputs: Number of numbers to predict.
        error: The error that the loss averages: ``squared`` or ``absolute``.
    """

    targets = "numbers"
    best = "mae"
    lower_is_better = True
    words: Mapping[str, str] = {
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

    def scale_targets(self, scalings: Sequence[Scaling]) -> None:
        self.scalings = tuple(scalings)

    def loss(self, out: Outputs, y: Tensor) -> Float[Tensor, ""]:
        y = y.view_as(out)  # a single number per row may have shape (rows,)
        if self.scalings:
            scaled = [each.apply(y[:, place]) for place, each in enumerate(self.scalings)]
            y = torch.stack(scaled, -1)
        error = F.mse_loss if self.error == "squared" else F.l1_loss
        y = y.to(out.dtype)
        return (error(out, y.nan_to_num(), reduction="none") * weights_of_known(y)).mean()

    def prediction(self, out: Outputs) -> Outputs:
        if not self.scalings:
            return out
        numbers = [each.undo(out[:, place]) for place, each in enumerate(self.scalings)]
        return torch.stack(numbers, -1)

    def metrics(self) -> dict[str, Metric]:
        # torchmetrics adds in single precision unless asked otherwise.
        mae = AbsoluteError().set_dtype(torch.float64)
        rmse = RootSquaredError(squared=False).set_dtype(torch.float64)
        return {"mae": mae, "rmse": rmse, "r2": R2(self.num_outputs)}

    def compared(self, out: Outputs, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.prediction(out).double(), y.view_as(out).double()


def make_task(task: Any, default: str, num_outputs: int) -> Task:
    """Make the task of a model.

    Args:
        task: A name, a dict of a name and options, or a factory; None for the default.
        default: The name of the data set's own task.
        num_outputs: Number of classes, labels or numbers.

    Raises:
        ValueError: The task learns another kind of targets than the data has.
    """
    made: Task = build("task", task or default)(num_outputs)
    own: Any = LIVE.find("task", default).cls
    if made.targets != own.targets:
        raise ValueError(
            f"task {type(made).__name__} learns {made.targets}, and the targets of this data are "
            f"{own.targets}: leave task out, which is then {default}, or see gnn-depth list task."
        )
    return made
