"""Metrics as formulas, each with its domain: where one is undefined it is NaN, never a number.

Sums are float64 and counts are integers. The classes are torchmetrics' ``Metric``: batches and
processes merge by their states.
"""

import math
from abc import abstractmethod
from typing import ClassVar, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric
from torchmetrics.utilities import dim_zero_cat

NAN_OUTPUT = "an output of the model is NaN"

Scores: TypeAlias = Float[Tensor, "rows ..."]
Labels: TypeAlias = Int[Tensor, "rows ..."]
Value: TypeAlias = Float[Tensor, ""]


def predicted_classes(out: Float[Tensor, "nodes classes"]) -> Int[Tensor, "nodes"]:
    """The class with the largest output; the number of classes for a row with a NaN."""
    largest, prediction = out.max(-1)  # NaN wins every comparison, and would be class 0
    return prediction.masked_fill(largest.isnan(), out.shape[-1])


def confusion(
    cells: Int[Tensor, "nodes"], num_sets: int, num_classes: int
) -> Int[Tensor, "sets classes predictions"]:
    """Count nodes by set, class and predicted class; a last column counts those without prediction.

    A node's cell is ``(set * classes + class) * (classes + 1) + prediction``.
    """
    # Not bincount, which makes the host wait for a GPU.
    shape = (num_sets, num_classes, num_classes + 1)
    counts = torch.zeros(math.prod(shape), dtype=torch.int64, device=cells.device)
    counts.index_add_(0, cells, torch.ones_like(cells))
    return counts.view(shape)


def class_metrics(
    counts: Int[Tensor, "sets classes predictions"], positive: int | None = None
) -> dict[str, Float[Tensor, "sets"]]:
    r"""Metrics of each set by name; all are NaN for a set in which a node has no prediction.

    ``acc``: the share of the nodes whose class is predicted correctly. ``f1``: the mean of
    :math:`2 TP / (2 TP + FP + FN)` over the classes among the labels or the predictions. ``bacc``:
    the mean over the classes among the labels of the share of their nodes that is predicted
    correctly. ``f1_positive``: the F1 of one class, NaN if no node has it or is predicted as it.

    Args:
        counts: The confusion matrices of :func:`confusion`.
        positive: The number of the class of ``f1_positive``.
    """
    hits = counts.diagonal(dim1=-2, dim2=-1).double()
    labelled = counts.sum(-1)
    seen = labelled + counts[..., :-1].sum(-2)
    # A class that does not occur is 0 / 1, and adds nothing to the sum.
    f1 = 2 * hits / seen.clamp_min(1)
    number_of_classes = (seen > 0).double().sum(-1, keepdim=True)
    recall = hits / labelled.clamp_min(1)
    found = {
        "acc": hits.sum(-1) / labelled.sum(-1),
        "f1": (f1 / number_of_classes).sum(-1),
        "bacc": recall.sum(-1) / (labelled > 0).sum(-1),
    }
    if positive is not None:
        found["f1_positive"] = (2 * hits / seen)[..., positive]
    # Rows whose output has a NaN, in the last column.
    without = counts[..., -1].sum(-1)
    for name, values in found.items():
        found[name] = values.masked_fill(without > 0, torch.nan).float()
    return found


class RankMetric(Metric):
    """A metric of how scores rank the rows in which a label is true and those in which it is not.

    Scores are ranked as they are, so logits do not saturate as probabilities do. With several
    labels it is the mean over those for which it is defined.
    """

    full_state_update = False
    higher_is_better = True
    #: The reason why it may be undefined.
    undefined: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")
        self._values = torch.zeros(1)  # of each label, of the last compute

    def update(self, scores: Scores, labels: Labels) -> None:
        self.scores.append(scores)  # type: ignore[operator, union-attr]
        self.labels.append(labels)  # type: ignore[operator, union-attr]

    def compute(self) -> Value:
        scores: Tensor = dim_zero_cat(self.scores)  # type: ignore[arg-type]
        labels: Tensor = dim_zero_cat(self.labels)  # type: ignore[arg-type]
        rows = len(scores)
        values = []
        for score, label in zip(scores.view(rows, -1).t(), labels.view(rows, -1).t(), strict=True):
            known = label >= 0  # -1 marks a row whose label is not known
            values.append(self.of_label(score[known], label[known]))
        self._values = torch.stack(values)
        has_nan = (scores.isnan() & (labels >= 0)).any()  # which has no rank
        return self._values.nanmean().masked_fill(has_nan, torch.nan).float()

    @abstractmethod
    def of_label(self, scores: Scores, labels: Labels) -> Value:
        """The value for a label; zero divided by zero where it is not defined."""

    def remark(self) -> str:
        """A note on the labels that the last value leaves out; empty if there are none."""
        left_out, number = int(self._values.isnan().sum()), len(self._values)
        if left_out in (0, number):
            return ""
        return f"leaves out {left_out} of {number} labels, of which it is undefined"


class RocAuc(RankMetric):
    """ROC AUC: the probability that a true row has a higher score than a false one.

    Ties count half. Defined for labels that are true in some rows and false in others.
    """

    undefined: ClassVar[str] = f"it needs both values of a label, or {NAN_OUTPUT}"

    def of_label(self, scores: Scores, labels: Labels) -> Value:
        ranked = scores.sort().values
        below = torch.searchsorted(ranked, scores)
        not_above = torch.searchsorted(ranked, scores, right=True)
        twice_mean_rank = below + not_above - 1  # of all rows with the same score, from 0
        ones = labels.sum()
        zeros = len(labels) - ones
        twice_wins = (twice_mean_rank * labels).sum() - ones * (ones - 1)
        return twice_wins.double() / (2 * ones * zeros)


class AveragePrecision(RankMetric):
    r"""Average precision: the mean over the true rows of the precision at their score.

    .. math:: \tfrac1P \sum_{i: y_i = 1} |\{j: y_j = 1, s_j \ge s_i\}| / |\{j: s_j \ge s_i\}|

    Defined for labels that are true in some row. Of rare labels it says more than ROC AUC: a random
    order gets their share.
    """

    undefined: ClassVar[str] = f"no row has the label, or {NAN_OUTPUT}"

    def of_label(self, scores: Scores, labels: Labels) -> Value:
        ranked, order = scores.sort()
        below = torch.searchsorted(ranked, scores)
        # The true rows among the lowest ones, from none to all.
        true_below = F.pad(labels[order].cumsum(0), (1, 0))[below]
        ones = labels.sum()
        precision = (ones - true_below).double() / (len(scores) - below)
        return (precision * labels).sum() / ones


class MicroF1(Metric):
    """F1 over all labels together; a label is predicted if its logit is positive."""

    full_state_update = False
    higher_is_better = True
    undefined: ClassVar[str] = f"no label is true, and none is predicted, or {NAN_OUTPUT}"

    # True positives; twice those with false positives and false negatives; outputs that are NaN.
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("counts", torch.zeros(3, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Scores, labels: Labels) -> None:
        # Of a NaN it is false, which compute must not take for a prediction.
        predicted = (logits > 0) & (labels >= 0)  # -1 marks a label that is not known
        true = labels > 0
        hits = (predicted & true).sum()
        both = predicted.sum() + true.sum()
        self.counts = self.counts + torch.stack([hits, both, logits.isnan().sum()])

    def compute(self) -> Value:
        hits, predicted_and_true, without = self.counts.double()
        return (2 * hits / predicted_and_true).masked_fill(without > 0, torch.nan).float()


class _OfKnown(Metric):
    """A metric of the numbers whose target is not NaN; a mixin, listed before the metric."""

    def update(self, preds: Scores, target: Scores) -> None:
        known = ~target.isnan()
        super().update(preds[known], target[known])  # type: ignore[safe-super]


class AbsoluteError(_OfKnown, MeanAbsoluteError):
    """Mean absolute error of the numbers that are known."""


class RootSquaredError(_OfKnown, MeanSquaredError):
    """Root mean squared error of the numbers that are known."""


class R2(Metric):
    r"""Mean over outputs of :math:`1 - \sum_i (y_i - o_i)^2 / \sum_i (y_i - \bar y)^2`.

    Numbers that are NaN are in no sum. The sums are about the mean of the rows, and merge as such
    (Chan et al. 1979): neither a large mean nor a small spread cancels digits.

    Args:
        num_outputs: Number of outputs.
    """

    full_state_update = False
    higher_is_better = True
    undefined: ClassVar[str] = f"it needs targets that differ, in every output, or {NAN_OUTPUT}"

    moments: Tensor  # outputs x (rows, mean, squares about the mean, squared errors)

    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__()
        zeros = torch.zeros(num_outputs, 4, dtype=torch.float64)
        self.add_state("moments", zeros, dist_reduce_fx=_merged)

    def update(self, preds: Scores, target: Scores) -> None:
        if not len(target):
            return
        target = target.double().view(len(target), -1)
        known = ~target.isnan()
        errors = (target - preds.double().view_as(target)).square()
        # Each row is a set of one, or of none where the target is not known.
        rows = torch.stack([known.double(), target, torch.zeros_like(target), errors], -1)
        batch = _merged(rows.where(known[..., None], 0.0))
        self.moments = _merged(torch.stack([self.moments, batch]))

    def compute(self) -> Value:
        _, _, squares, errors = self.moments.unbind(-1)
        r2 = 1 - errors / squares
        return r2.masked_fill(squares == 0, torch.nan).mean()


def _merged(parts: Float[Tensor, "parts outputs 4"]) -> Float[Tensor, "outputs 4"]:
    """Merge the moments of several sets of rows."""
    rows, mean, squares, errors = parts.movedim(-1, 0).contiguous()
    total = rows.sum(0)
    # Differences from the mean of the largest part: equal means merge to themselves, exactly.
    shift = mean.gather(0, rows.argmax(0, keepdim=True))
    shifted = mean - shift
    centre = (rows * shifted).sum(0) / total.clamp_min(1)
    between = (rows * (shifted - centre).square()).sum(0)
    merged = [total, shift[0] + centre, squares.sum(0) + between, errors.sum(0)]
    return torch.stack(merged, -1)
