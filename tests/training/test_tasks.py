"""Tasks: the best epoch follows their metrics, and one that does not fit is refused."""

import pytest
import torch
from torchmetrics import MeanAbsoluteError

from gnn_depth import NodeClassifier, Task
from gnn_depth.graph import Graph
from gnn_depth.training.epoch_metrics import BatchSets, EpochMetrics
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.summary import report
from gnn_depth.training.tasks import Regression, make_task
from tests.training.conftest import Tiny
from tests.training.test_metrics import ALONE


class Numbers(Tiny):
    """The clique's number, with noise, as a number; or as two labels."""

    def __init__(self, labels=False):
        super().__init__()
        self.num_classes, self._labels = 2 if labels else 1, labels

    @property
    def task(self):
        return "multilabel" if self._labels else "regression"

    def load(self):
        batch = super().load()
        clique = batch.y
        batch.y = (
            torch.stack([clique, 1 - clique], 1).float()
            if self._labels
            else clique + batch.x[:, 0] / 2
        )
        return batch


@pytest.fixture
def fit(make_trainer, tmp_path):
    def run(data, epochs=5, **options):
        torch.manual_seed(0)
        recorder = RunRecorder(str(tmp_path / "runs"))
        recorder.open("", {}, "run", seed=0)
        model = NodeClassifier(
            4, data.num_classes, hidden_channels=8, default_task=data.task, **options
        )
        trainer = make_trainer(epochs, callbacks=[recorder])
        seen = []
        put = model.epoch_log.put
        model.epoch_log.put = lambda trainer, values: (seen.append(values), put(trainer, values))
        trainer.fit(model, datamodule=data)
        return model, recorder, [values for values in seen if "val/loss" in values]

    return run


def test_a_regression_keeps_the_epoch_of_the_lowest_error_and_says_so(fit):
    model, recorder, epochs = fit(Numbers())
    errors = [values["val/mae"].item() for values in epochs]
    assert recorder.best.metrics["val/mae"] == min(errors)
    assert recorder.result["monitor"] == "val/mae"
    assert {"test_mae_at_best_val", "test_rmse_at_best_val"} <= recorder.result["metrics"].keys()
    assert report(recorder, model).startswith("test mean abs. error ")


def test_a_regression_that_learned_nothing_is_warned_of_by_its_r2(fit):
    model, recorder, _ = fit(Numbers(), epochs=1)
    text = report(recorder, model)
    assert "no better than guessing" in text
    assert "R2" in text
    assert "the mean of all targets" in text


def test_two_classes_are_judged_by_roc_auc_where_asked_and_labels_by_f1(fit):
    model, recorder, _ = fit(Tiny(), task="binary")
    assert (recorder.best.monitor, model.chance) == ("val/auroc", 0.5)
    assert fit(Numbers(labels=True))[1].best.monitor == "val/f1"


def test_predictions_are_probabilities_or_the_numbers_themselves():
    out = torch.randn(4, 2)
    for name, total in (
        ("multiclass", torch.ones(4)),
        ("multilabel", out.sigmoid().sum(1)),
        ("regression", out.sum(1)),
    ):
        torch.testing.assert_close(make_task(None, name, 2).prediction(out).sum(1), total)


@pytest.mark.parametrize(
    ("task", "default", "words"),
    [
        ("binary", "multiclass", "binary .*3.*multiclass"),
        ("regression", "multiclass", "numbers.*classes.*binary, multiclass"),
        ("multiclass", "regression", "classes.*numbers.*regression"),
        ("regresion", "regression", "'regresion'.*'regression'"),
        ({"name": "regression", "eror": "squared"}, "regression", "'eror'.*'error'"),
    ],
)
def test_a_task_that_does_not_exist_or_fit_is_refused(task, default, words):
    with pytest.raises(ValueError, match=words):
        make_task(task, default, 3)


def test_a_task_of_ones_own_needs_a_loss_and_a_metric(fit):
    class Huber(Task):
        targets, best, lower_is_better = "numbers", "error", True

        def loss(self, out, y):
            return torch.nn.functional.huber_loss(out.squeeze(1), y)

        def metrics(self):
            return {"error": MeanAbsoluteError()}

        def compared(self, out, y):
            return out.squeeze(1), y

    _, recorder, epochs = fit(Numbers(), task=Huber)
    assert recorder.best.metrics["val/error"] == min(
        values["val/error"].item() for values in epochs
    )


def test_an_epoch_that_a_stop_cut_goes_on_with_what_it_had_summed():
    task, y, out = Regression(1), torch.randn(8), torch.randn(8, 1)
    everything = torch.ones(8, dtype=torch.bool)
    masks, graph = (
        (everything, ~everything, ~everything),
        Graph(torch.zeros(2, 0, dtype=torch.long), 8),
    )
    sets = [
        BatchSets(type("B", (), {"y": y + k, "masks": masks, "graph": graph}), task) for k in (0, 1)
    ]
    whole, first, rest = (EpochMetrics(("train",), task) for _ in range(3))
    for metrics, parts in ((whole, sets), (first, sets[:1])):
        for part in parts:
            metrics.add(part.train, out, torch.tensor(1.0))
    rest.restore(first.state(), torch.device("cpu"))
    rest.add(sets[1].train, out, torch.tensor(1.0))
    assert rest.compute(ALONE) == whole.compute(ALONE)
