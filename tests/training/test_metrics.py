"""Every metric of every task against scikit-learn, which is the slow and obvious form here."""

import math
import warnings
from types import SimpleNamespace

import pytest
import sklearn.metrics as sk
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torchmetrics.utilities import dim_zero_cat

from gnn_depth.data.base import FullBatch
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.metrics import R2, AveragePrecision, MicroF1, RocAuc
from gnn_depth.training.tasks import make_task

ALONE = SimpleNamespace(world_size=1)
SCALES = st.sampled_from([1e-100, 1e-30, 1e-5, 1.0, 1e5, 1e30, 1e100])


def measure(out, y, task="multiclass", cut=None, parts=1):
    """The metrics of all rows, or of those before and after a cut, seen in parts."""
    default = "multiclass" if isinstance(task, dict) else task
    made = make_task(task, default, out.shape[1])
    names = ("val",) if cut is None else ("val", "test")
    metrics = EpochMetrics(names, made)
    for rows in torch.arange(len(y)).chunk(parts):
        masks = [rows >= 0] if cut is None else [rows < cut, rows >= cut]
        sets = NodeSets(y[rows], masks, made)
        metrics.add(sets, out[rows][sets.nodes])
    return {name: value.item() for name, value in metrics.compute(ALONE).items()}


def in_processes(metrics):
    """What the first of several processes computes, each of which has one of the metrics."""
    first, *others = metrics
    states = []
    for metric in others:
        state = metric.metric_state.values()
        states.append(iter([dim_zero_cat(s) if isinstance(s, list) else s for s in state]))
    first.distributed_available_fn = lambda: True
    first.dist_sync_fn = lambda value, group: [value, *(next(state) for state in states)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a process without rows
        return first.compute().item()


def matrix(draw, rows, columns, low, high):
    size = rows * columns
    numbers = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    return torch.tensor(numbers).view(rows, columns)


@st.composite
def classified(draw, num_classes=None):
    """Outputs with ties, and classes; many of the classes are absent."""
    num_classes = num_classes or draw(st.integers(2, 6))
    present = draw(st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=4))
    classes = draw(st.lists(st.sampled_from(present), min_size=1, max_size=30))
    out = matrix(draw, len(classes), num_classes, -3, 3).double()
    return draw(SCALES) * out, torch.tensor(classes)


@st.composite
def labelled(draw):
    """Outputs with ties, and labels, of which some are absent, in all rows, or not known (-1)."""
    labels, rows = draw(st.integers(1, 4)), draw(st.integers(1, 20))
    y = matrix(draw, rows, labels, draw(st.sampled_from([-1, 0])), 1)
    for label in range(labels):
        constant = draw(st.sampled_from([None, 0, 1]))
        if constant is not None:
            y[:, label] = constant
    return draw(SCALES) * matrix(draw, rows, labels, -3, 3).double(), y


@st.composite
def numbered(draw):
    """Predictions and targets of several outputs, some of which are constant or not known."""
    outputs, rows = draw(st.integers(1, 3)), draw(st.integers(1, 20))
    y, out = (0.1 * matrix(draw, rows, outputs, -9, 9).double() for _ in range(2))
    for output in range(outputs):
        if draw(st.integers(0, 3)) == 0:
            y[:, output] = 0.1
    shift, scale = draw(st.sampled_from([0.0, 0.0, 1e3])), draw(SCALES)
    y = scale * (y + shift)
    y[1:][matrix(draw, rows - 1, outputs, draw(st.sampled_from([0, 1])), 9) == 0] = math.nan
    return scale * (out + shift), y


def mean_of(score, out, y, is_known, is_defined):
    """The mean of scikit-learn's scores over the columns for which they are defined, each of the
    rows that are known; NaN without any."""
    found = []
    for column, known in enumerate(is_known.t()):
        target = y[known, column]
        if is_defined(target):
            found.append(score(target, out[known, column]))
    return sum(found) / len(found) if found else math.nan


def area_of(scores, labels):
    """Over labels that have both values."""
    return mean_of(sk.roc_auc_score, scores, labels, labels >= 0, lambda y: len(y.unique()) == 2)


def precision_of(scores, labels):
    """Over labels that some row has."""
    return mean_of(
        sk.average_precision_score, scores, labels, labels >= 0, lambda y: (y == 1).any()
    )


def r2_of(out, y):
    """NaN where an output has one value only."""
    if any(len(column[~column.isnan()].unique()) < 2 for column in y.t()):
        return math.nan
    return mean_of(sk.r2_score, out, y, ~y.isnan(), len)


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-7, nan_ok=True)


@given(classified(), st.data())
def test_accuracies_and_macro_f1_of_each_set(drawn, data):
    out, classes = drawn
    cut = data.draw(st.integers(0, len(classes)))
    ours = measure(out, classes, cut=cut, parts=data.draw(st.integers(1, 3)))
    predicted = out.argmax(-1)
    for name, rows in (("val", slice(cut)), ("test", slice(cut, None))):
        y, guess = classes[rows], predicted[rows]
        if len(y) == 0:
            assert f"{name}/acc" not in ours
        else:
            assert ours[f"{name}/acc"] == close(sk.accuracy_score(y, guess))
            assert ours[f"{name}/f1"] == close(sk.f1_score(y, guess, average="macro"))
            recall = sk.recall_score(y, guess, average="macro", labels=y.unique(), zero_division=0)
            assert ours[f"{name}/bacc"] == close(recall)


@given(classified(num_classes=2), st.integers(1, 3))
def test_the_area_under_the_curve_of_two_classes(drawn, parts):
    out, classes = drawn
    expected = area_of((out[:, 1] - out[:, 0])[:, None], classes[:, None])
    ours = measure(out, classes, "binary", parts=parts)
    assert ours["val/auroc"] == close(expected)
    precision = precision_of((out[:, 1] - out[:, 0])[:, None], classes[:, None])
    assert ours["val/ap"] == close(precision)


@given(labelled(), st.integers(1, 3))
def test_metrics_of_labels(drawn, parts):
    out, labels = drawn
    ours = measure(out, labels, "multilabel", parts=parts)
    known = labels >= 0
    assume(known.any())
    f1 = sk.f1_score(labels[known], out[known] > 0, zero_division=math.nan)
    expected = {"val/f1": close(f1), "val/auroc": close(area_of(out, labels))}
    assert ours == {**expected, "val/ap": close(precision_of(out, labels))}


@given(numbered(), st.integers(1, 3))
def test_metrics_of_numbers(drawn, parts):
    out, y = drawn
    ours = measure(out, y, "regression", parts=parts)
    known = ~y.isnan()
    mae, mse = (
        error(y[known], out[known]) for error in (sk.mean_absolute_error, sk.mean_squared_error)
    )
    scale = {"rel": 1e-6, "abs": 0.0}
    assert ours["val/mae"] == pytest.approx(mae, **scale)
    assert ours["val/rmse"] == pytest.approx(math.sqrt(mse), **scale)
    assert ours["val/r2"] == close(r2_of(out, y))


@pytest.mark.parametrize(
    ("make", "drawn"),
    [(RocAuc, labelled()), (AveragePrecision, labelled()), (MicroF1, labelled()), (R2, numbered())],
    ids=["auc", "ap", "f1", "r2"],
)
@given(st.data())
def test_several_processes_one_of_which_may_have_no_rows_have_the_value_of_one(make, drawn, data):
    out, y = data.draw(drawn)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), min_size=2, max_size=2)))
    metrics = [make(y.shape[1]) if make is R2 else make() for _ in range(4)]
    whole, *shares = metrics
    whole.update(out, y)
    for metric, *share in zip(shares, out.tensor_split(cuts), y.tensor_split(cuts)):
        metric.update(*share)
    assert in_processes(shares) == close(whole.compute().item())


def test_targets_that_differ_in_their_tenth_digit_have_an_r2():
    y = 1_700_000_000 + torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.double)
    assert measure(y.roll(1, 0), y, "regression", parts=2)["val/r2"] == pytest.approx(
        -1.4, rel=1e-6
    )


def test_confident_scores_are_still_ranked_where_every_probability_is_one():
    logits, y = torch.tensor([[20.0], [25.0], [30.0], [35.0]]), torch.tensor([[0], [1], [0], [1]])
    assert measure(logits, y, "multilabel")["val/auroc"] == 0.75
    both = torch.cat([torch.zeros(4, 1), logits], 1)
    assert measure(both, y[:, 0], "binary")["val/auroc"] == 0.75


def test_labels_without_an_area_are_left_out_and_counted():
    y = torch.tensor([[0, 0, 1], [1, 0, 1], [0, 0, 1], [1, 0, 1]])
    metrics = EpochMetrics(("test",), make_task(None, "multilabel", 3))
    metrics.add(NodeSets(y, [torch.ones(4, dtype=torch.bool)], metrics.task), 4.0 * (2 * y - 1))
    assert metrics.compute(ALONE)["test/auroc"] == 1
    remarks = dict(metrics.remarks())
    assert "2 of 3 labels" in remarks["test/auroc"]
    assert "1 of 3 labels" in remarks["test/ap"]  # one is true in no row


@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel", "regression"])
def test_an_output_that_is_nan_makes_every_metric_of_its_set_undefined(task):
    out, y = torch.randn(8, 2), torch.tensor([0, 1] * 4)
    if task in ("multilabel", "regression"):
        y = torch.stack([y, 1 - y], 1)
    with_nan = out.clone()
    with_nan[1, 1] = math.nan
    ours, without = measure(with_nan, y, task, cut=4, parts=2), measure(out, y, task, cut=4)
    for name, value in ours.items():
        if name.startswith("val/"):
            assert math.isnan(value), name
        else:
            assert value == pytest.approx(without[name])


def test_more_nodes_than_single_precision_counts_are_counted():
    metrics = EpochMetrics(("train",), make_task(None, "multiclass", 2))
    one = NodeSets(torch.tensor([0]), [torch.tensor([True])], metrics.task)
    counts = torch.tensor([[[2**24, 0, 0], [0, 0, 0]]])
    metrics.restore([[2**24], counts, [], []], torch.device("cpu"))
    metrics.add(one, torch.tensor([[1.0, 0.0]]))
    metrics.compute(ALONE)
    assert metrics.counts.sum() == 2**24 + 1


def test_two_processes_with_the_same_full_batch_count_each_node_once(tiny):
    def twice(value, reduce_op):
        return 2 * value

    metrics = EpochMetrics(("val", "test"), make_task(None, "multiclass", 2))
    sets = NodeSets(tiny.batch.y, tiny.batch.masks[1:], metrics.task)
    metrics.add(sets, torch.rand(len(sets.nodes), 2), torch.tensor(0.7))
    strategy = SimpleNamespace(
        root_device=torch.device("cpu"), reduce=twice, broadcast=lambda value: value
    )
    trainer = SimpleNamespace(world_size=2, training=False, testing=False, strategy=strategy)
    trainer.val_dataloaders = FullBatch(tiny.batch)
    assert metrics.compute(trainer)["val/loss"] == torch.tensor(0.7)
    assert metrics.counts.sum() == len(sets.nodes)


def test_the_loss_of_an_epoch_is_the_mean_over_its_nodes_and_forgotten_afterwards():
    metrics = EpochMetrics(("train",), make_task(None, "multiclass", 2))
    for loss, size in ((1.0, 3), (4.0, 1)):
        mask = torch.ones(size, dtype=torch.bool)
        sets = NodeSets(torch.zeros(size, dtype=torch.long), [mask], metrics.task)
        metrics.add(sets, torch.zeros(size, 2), torch.tensor(loss))
    assert metrics.compute(ALONE)["train/loss"] == (3 * 1 + 4) / 4
    assert metrics.compute(ALONE) == {}
