"""The pure functions against torchmetrics, which is the slow and obvious form here."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import binary_auroc, multiclass_accuracy, multiclass_f1_score

from gnn_depth.training.measured import Measured
from gnn_depth.training.metrics import auroc, classification_metrics, update


@st.composite
def classified(draw):
    """Classes, predicted classes and the number of classes; many of the classes are absent."""
    num_classes = draw(st.integers(2, 8))
    some = st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=5)
    pairs = draw(st.lists(st.tuples(st.sampled_from(draw(some)), st.sampled_from(draw(some))), min_size=1, max_size=40))
    classes, predicted = torch.tensor(pairs).unbind(1)
    return classes, predicted, num_classes


def measured(classes, *sizes, num_classes):
    names = ("val", "test")[: len(sizes)]
    return Measured(names, sizes, torch.arange(len(classes)), classes, num_classes)


@given(classified())
def test_accuracy_and_f1_are_those_of_torchmetrics(drawn):
    classes, predicted, num_classes = drawn
    scores = torch.nn.functional.one_hot(predicted, num_classes).float()
    sets = measured(classes, len(classes), num_classes=num_classes)
    ours = sets.metrics(sets.counts(scores))
    assert ours["val/acc"] == multiclass_accuracy(predicted, classes, num_classes, average="micro")
    torch.testing.assert_close(ours["val/f1"], multiclass_f1_score(predicted, classes, num_classes, average="macro"))


@given(classified(), st.data())
def test_sets_measured_together_have_the_metrics_of_each(drawn, data):
    classes, predicted, num_classes = drawn
    cut = data.draw(st.integers(0, len(classes)))
    scores = torch.nn.functional.one_hot(predicted, num_classes).float()
    masks = {"val": torch.arange(len(classes)) < cut, "test": torch.arange(len(classes)) >= cut}
    both = Measured.of(classes, masks, num_classes)
    together = both.metrics(both.counts(scores[both.nodes]))
    for name, mask in masks.items():
        if not mask.any():
            assert f"{name}/acc" not in together
            continue
        alone = Measured.of(classes, {name: mask}, num_classes)
        for metric, value in alone.metrics(alone.counts(scores[alone.nodes])).items():
            assert together[metric] == value


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=2, max_size=40))
def test_the_area_under_the_curve_is_that_of_torchmetrics_with_ties_too(pairs):
    classes, scores = torch.tensor(pairs).unbind(1)
    if 0 < classes.sum() < len(classes):
        expected = binary_auroc(scores.double().sigmoid(), classes)
        torch.testing.assert_close(auroc(scores.double(), classes), expected)
    else:
        assert auroc(scores.double(), classes) == 0, "torchmetrics says 0 and warns"


def test_confident_scores_are_still_ranked_where_every_probability_is_one():
    classes = torch.tensor([0, 1, 0, 1])
    scores = torch.stack([torch.zeros(4), torch.tensor([800.0, 900.0, 850.0, 950.0])], 1)
    assert measured(classes, 4, num_classes=2).areas(scores)["val/auroc"] == 1


@pytest.mark.parametrize("task", ["multiclass", "binary"])
def test_batches_that_are_merged_have_the_metrics_of_the_whole(task):
    classes, scores = torch.randint(2, (30,)), torch.randn(30, 2)
    metrics = classification_metrics(task, 2)
    for part in torch.arange(30).split(7):
        update(metrics, scores[part], classes[part])
    whole = measured(classes, 30, num_classes=2)
    expected = whole.metrics(whole.counts(scores)) | (whole.areas(scores) if task == "binary" else {})
    assert {f"val/{name}": value.item() for name, value in metrics.compute().items()} == {
        name: pytest.approx(value.item()) for name, value in expected.items()
    }


def test_metrics_of_scores_that_differ_by_less_than_probabilities_can_tell_are_those_of_the_largest_score():
    scores = torch.tensor([[0.0, 1e-30], [1e-30, 0.0]])
    metrics = classification_metrics("multiclass", 2)
    update(metrics, scores, torch.tensor([1, 0]))
    assert metrics.compute()["acc"] == 1
