"""The metrics against torchmetrics, which is the slow and obvious form here."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import (
    binary_auroc,
    multiclass_accuracy,
    multiclass_f1_score,
)

from gnn_depth.training.metrics import EpochMetrics, NodeSets
from gnn_depth.training.tasks import RankingArea, make_task

ALONE = SimpleNamespace(world_size=1)


@st.composite
def classified(draw):
    """Classes, predicted classes and the number of classes; many of the classes are absent."""
    num_classes = draw(st.integers(2, 8))
    some = st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=5)
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(draw(some)), st.sampled_from(draw(some))),
            min_size=1,
            max_size=40,
        )
    )
    classes, predicted = torch.tensor(pairs).unbind(1)
    return classes, predicted, num_classes


def measure(scores, classes, cuts=(), num_classes=2, task="multiclass", parts=1):
    """Metrics of the sets between the cuts, seen in parts."""
    masks = [torch.arange(len(classes)) < cut for cut in (*cuts, len(classes))]
    masks = [masks[0], *(later & ~earlier for earlier, later in itertools.pairwise(masks))]
    metrics = EpochMetrics(("val", "test")[: len(masks)], make_task(None, task, num_classes))
    for part in torch.arange(len(classes)).chunk(parts):
        sets = NodeSets(classes[part], [mask[part] for mask in masks], num_classes)
        metrics.add(sets, scores[part][sets.nodes])
    return metrics.compute(ALONE)


@given(classified(), st.data())
def test_accuracy_and_f1_of_each_set_are_those_of_torchmetrics(drawn, data):
    classes, predicted, num_classes = drawn
    cut = data.draw(st.integers(0, len(classes)))
    scores = torch.nn.functional.one_hot(predicted, num_classes).float()
    ours = measure(scores, classes, [cut], num_classes, parts=data.draw(st.integers(1, 3)))
    for name, nodes in (("val", slice(cut)), ("test", slice(cut, None))):
        if len(classes[nodes]) == 0:
            assert f"{name}/acc" not in ours
            continue
        assert ours[f"{name}/acc"] == multiclass_accuracy(
            predicted[nodes], classes[nodes], num_classes, "micro"
        )
        f1 = multiclass_f1_score(predicted[nodes], classes[nodes], num_classes, average="macro")
        torch.testing.assert_close(ours[f"{name}/f1"], f1)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=2, max_size=40))
def test_the_area_under_the_curve_is_that_of_torchmetrics_with_ties_too(pairs):
    classes, scores = torch.tensor(pairs).unbind(1)
    area = RankingArea()
    area.update(scores.double(), classes)
    if 0 < classes.sum() < len(classes):
        torch.testing.assert_close(area.compute(), binary_auroc(scores.double().sigmoid(), classes))
    else:
        assert area.compute() == 0, "torchmetrics says 0 and warns"


def test_confident_scores_are_still_ranked_where_every_probability_is_one():
    scores = torch.stack([torch.zeros(4), torch.tensor([800.0, 900.0, 850.0, 950.0])], 1)
    assert measure(scores, torch.tensor([0, 1, 0, 1]), task="binary")["val/auroc"] == 1


def test_scores_that_differ_by_less_than_probabilities_can_tell_are_told_apart():
    scores = torch.tensor([[0.0, 1e-30], [1e-30, 0.0]])
    assert measure(scores, torch.tensor([1, 0]))["val/acc"] == 1


@pytest.mark.parametrize("task", ["multiclass", "binary"])
def test_several_batches_have_the_metrics_of_the_whole(task):
    classes, scores = torch.randint(2, (30,)), torch.randn(30, 2)
    whole = measure(scores, classes, [10], task=task)
    assert ("test/auroc" in whole) == (task == "binary")
    assert measure(scores, classes, [10], task=task, parts=4) == whole


def test_the_loss_of_an_epoch_is_the_mean_over_its_nodes_and_forgotten_afterwards():
    metrics, losses = (
        EpochMetrics(("train",), make_task(None, "multiclass", 2)),
        torch.tensor([1.0, 4.0]),
    )
    for loss, size in zip(losses, (3, 1), strict=True):
        sets = NodeSets(
            torch.zeros(size, dtype=torch.long), [torch.ones(size, dtype=torch.bool)], 2
        )
        metrics.add(sets, torch.zeros(size, 2), loss)
    assert metrics.compute(ALONE)["train/loss"] == (3 * 1 + 4) / 4
    assert metrics.compute(ALONE) == {}
