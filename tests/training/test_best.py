import pytest
import torch
from torch import nn

from gnn_depth.training.recorder import BestEpoch


def seen(values, losses=None):
    best, module = BestEpoch(), nn.Linear(1, 1)
    for epoch, value in enumerate(values):
        with torch.no_grad():
            module.weight.fill_(epoch)
        metrics = {"val/acc": value} | ({"val/loss": losses[epoch]} if losses else {})
        best.see(epoch, metrics, module)
        best.complete(epoch, {"train/loss": float(epoch)})
    return best


def test_the_first_of_equal_epochs_counts_with_its_own_weights_and_training_metrics():
    best = seen([0.1, 0.7, 0.3, 0.7])
    assert best.epoch == 1
    assert best.metrics == {"val/acc": 0.7, "train/loss": 1.0}
    assert best.weights["weight"].item() == 1


def test_an_epoch_whose_validation_loss_is_not_finite_never_counts():
    best = seen([0.2, 0.9, 0.3], losses=[1.0, float("nan"), 1.0])
    assert best.epoch == 2


def test_without_the_metric_there_is_no_best_epoch():
    best = BestEpoch("val/auroc")
    best.see(0, {"val/acc": 1.0}, nn.Linear(1, 1))
    assert best.epoch is None


def test_a_state_goes_on_comparing_where_it_left_off():
    best, resumed = seen([0.4, 0.8]), BestEpoch()
    resumed.load_state_dict(best.state_dict())
    resumed.see(2, {"val/acc": 0.6}, nn.Linear(1, 1))
    assert resumed.epoch == 1
    assert resumed.metrics["val/acc"] == pytest.approx(0.8)
