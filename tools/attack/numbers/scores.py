"""Every metric of every task against scikit-learn, over random and degenerate inputs.

Rows come in several batches, in two sets at once. Where a metric is undefined, NaN is right.
"""

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import sklearn.metrics as sk
import torch
from torch import Tensor

from gnn_depth.data.schema import Schema
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.tasks import make_task
from tools.attack.numbers import Trial, TrialInput

TRIALS = 400  # of each task
SCALES = (1e-100, 1e-30, 1e-5, 1.0, 1.0, 1.0, 1e5, 1e30, 1e100)
ALONE = SimpleNamespace(world_size=1)
SETS = ("val", "test")

Metrics = dict[str, float]


class Outputs(TrialInput):
    """Outputs and targets of a trial."""

    def __init__(self, seed: Any) -> None:
        super().__init__(seed)
        self.rows = int(self.random.choice([1, 2, 3, 8, 40]))

    def classes(self, count: int) -> Tensor:
        """Classes of the rows, of which some may be absent."""
        present = np.arange(count)
        if self.chance(0.4, "absent classes"):
            present = present[: int(self.random.integers(1, count + 1))]
        return torch.from_numpy(self.random.choice(present, self.rows))

    def labels(self, count: int) -> Tensor:
        """Labels of the rows, of which some may have a single value."""
        labels = self.random.integers(2, size=(self.rows, count))
        for column in range(count):
            if self.chance(0.25, "a constant label"):
                labels[:, column] = self.random.integers(2)
        return torch.from_numpy(labels)

    def outputs(self, count: int) -> Tensor:
        """Outputs of a model: with ties, constant, huge, tiny, infinite, or NaN."""
        shape = (self.rows, count)
        values = self.random.standard_normal(shape)
        if self.chance(0.5, "ties"):
            values = values.round()
        if self.chance(0.1, "constant outputs"):
            values[:] = values[0]
        scale = float(self.random.choice(SCALES))
        # At the largest scales float32 would make infinities of all numbers.
        is_single = 1e-35 < scale < 1e35 and self.chance(0.5, "float32")
        out = torch.from_numpy(values * scale)
        if self.chance(0.1, "an infinite output"):
            out[self.random.integers(self.rows), 0] = math.inf
        if self.chance(0.1, "a NaN output"):
            out[self.random.integers(self.rows), self.random.integers(count)] = math.nan
        return out.float() if is_single else out

    def numbers(self, out: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and numbers to predict, near each other or not, some of them constant."""
        finite = torch.where(out.isfinite(), out.double(), 0.0)
        size = float(finite.abs().max()) or 1.0
        noise = torch.from_numpy(self.random.standard_normal(tuple(out.shape)))
        near = float(self.random.choice([1e-3, 1.0, 30.0]))
        y = finite + near * size * noise
        if self.chance(0.2, "a constant target"):
            y[:, 0] = y[0, 0]
        if self.chance(0.2, "far from zero"):  # where sums of squares cancel
            return out.double() + 1e4 * size, y + 1e4 * size
        if out.dtype == torch.float32 and self.chance(0.5, "float32 targets"):
            y = y.float()
        return out, y


def trials(seed: int, count: int = TRIALS) -> Iterator[Trial]:
    """Compare all metrics of drawn inputs, each task as often."""
    for task in EXPECTED:
        for number in range(count):
            draw = Outputs([seed, number])
            outputs = 2
            if task != "binary":
                outputs = int(draw.random.integers(2, 7))
            out = draw.outputs(outputs)
            if task == "multilabel":
                y = draw.labels(outputs)
            elif task == "regression":
                out, y = draw.numbers(out)
            else:
                y = draw.classes(outputs)
            cut = int(draw.random.integers(draw.rows + 1))
            batches = int(draw.random.integers(1, 5))
            fault = differences(task, out, y, cut, batches, positive=number % 2)
            yield f"metrics of {task} {number}: {draw.words}", fault


def differences(task: str, out: Tensor, y: Tensor, cut: int, batches: int, positive: int) -> str:
    """Which metrics differ from scikit-learn's, with both values; empty if none does.

    Of two classes, ``positive`` is the positive one.
    """
    ours = measured(task, out, y, cut, batches, positive)
    expected: Metrics = {}
    for name, rows in zip(SETS, (slice(cut), slice(cut, None)), strict=True):
        if len(y[rows]):
            of_set = EXPECTED[task](out[rows], y[rows])
            if task == "binary":
                of_set |= _of_positive(out[rows], y[rows], positive)
            for metric, value in of_set.items():
                expected[f"{name}/{metric}"] = value
    if ours.keys() != expected.keys():
        return f"has {', '.join(ours)} instead of {', '.join(expected)}"
    found = []
    for name, value in expected.items():
        # Shares and ranks are shown in single precision.
        if not np.isclose(ours[name], value, rtol=1e-6, atol=0, equal_nan=True):
            found.append(f"{name} is {ours[name]!r} instead of {value!r}")
    return "; ".join(found)


def measured(task: str, out: Tensor, y: Tensor, cut: int, batches: int, positive: int) -> Metrics:
    """The package's metrics of the rows before and after a cut, which come in several batches."""
    made = make_task(None, task, out.shape[1])
    if task == "binary":
        made.read_schema(Schema(1, "multiclass", ("a", "b"), positive="ab"[positive]))
    metrics = EpochMetrics(SETS, made)
    for rows in torch.arange(len(y)).chunk(batches):
        masks = [rows < cut, rows >= cut]
        sets = NodeSets(y[rows], masks, out.shape[1] if made.counts_classes else None)
        metrics.add(sets, out[rows][sets.nodes])
    return {name: float(value) for name, value in metrics.compute(ALONE).items()}  # type: ignore[arg-type]


def _of_classes(out: Tensor, y: Tensor) -> Metrics:
    if out.isnan().any():
        return dict.fromkeys(("acc", "f1", "bacc"), math.nan)
    predicted = out.numpy().argmax(1)
    f1 = sk.f1_score(y, predicted, average="macro", zero_division=0)
    balanced = sk.balanced_accuracy_score(y, predicted)
    return {"acc": sk.accuracy_score(y, predicted), "f1": f1, "bacc": balanced}


def _of_positive(out: Tensor, y: Tensor, positive: int) -> Metrics:
    scores = out[:, positive].double() - out[:, 1 - positive].double()
    found = _of_ranks(scores[:, None], (y == positive).long()[:, None])
    f1 = math.nan
    if not out.isnan().any():
        predicted = out.numpy().argmax(1) == positive
        f1 = sk.f1_score(y == positive, predicted, zero_division=np.nan)
    return {**found, "f1_positive": f1}


def _of_labels(out: Tensor, y: Tensor) -> Metrics:
    f1 = math.nan
    if not out.isnan().any():
        f1 = sk.f1_score(y.flatten(), out.flatten() > 0, zero_division=np.nan)
    return {"f1": f1, **_of_ranks(out, y)}


def _of_ranks(scores: Tensor, y: Tensor) -> Metrics:
    """The means over the labels for which they are defined; NaN without any."""
    areas, precisions = [], []
    for column, labels in zip(scores.T, y.numpy().T, strict=True):
        if not labels.any():
            continue
        # scikit-learn refuses infinite scores; their ranks are the same.
        ranks = np.unique(column.numpy(), return_inverse=True)[1]
        undefined = math.nan if column.isnan().any() else 0.0
        precisions.append(undefined + sk.average_precision_score(labels, ranks))
        if not labels.all():
            areas.append(undefined + sk.roc_auc_score(labels, ranks))
    return {"auroc": _mean(areas), "ap": _mean(precisions)}


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _of_numbers(out: Tensor, y: Tensor) -> Metrics:
    out, y = out.double(), y.double()
    if out.isnan().any():
        return dict.fromkeys(("mae", "rmse", "r2"), math.nan)
    mae, rmse, r2 = math.inf, math.inf, -math.inf
    if not out.isinf().any():
        mae, rmse = sk.mean_absolute_error(y, out), math.sqrt(sk.mean_squared_error(y, out))
        r2 = sk.r2_score(y, out)
    if any(len(column.unique()) < 2 for column in y.T):
        r2 = math.nan
    return {"mae": mae, "rmse": rmse, "r2": r2}


EXPECTED = {
    "multiclass": _of_classes,
    "binary": _of_classes,
    "multilabel": _of_labels,
    "regression": _of_numbers,
}
