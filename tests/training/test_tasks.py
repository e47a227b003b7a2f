"""Tasks: the best epoch follows their metrics, and one that does not fit is refused."""

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import MeanAbsoluteError

import gnn_depth
from gnn_depth import NodeClassifier, Task
from gnn_depth.data.schema import Scaling, Schema
from gnn_depth.data.source import GraphSource
from gnn_depth.training.summary import _guess
from gnn_depth.training.tasks import Binary, MultiClass, make_task


def test_chance_is_the_best_constant_prediction_by_scikit_learn_in_every_metric():
    of_class = torch.tensor([76, 4, 20])
    y = np.repeat([0, 1, 2], of_class)
    theirs = {
        "acc": sk.accuracy_score,
        "f1": lambda y, p: sk.f1_score(y, p, average="macro", zero_division=0),
        "bacc": sk.balanced_accuracy_score,
    }
    for name, measure in theirs.items():
        best = max(measure(y, np.full_like(y, number)) for number in range(3))
        assert MultiClass(3).chance_of(name, of_class) == pytest.approx(best), name
    rare, shares = Binary(2), torch.tensor([90, 10])
    expected = {"f1_positive": 2 * 0.1 / 1.1, "auroc": 0.5}
    assert {name: rare.chance_of(name, shares) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("best_metric", "rows", "is_guess"),
    [
        ("acc", [[57, 9, 10, 0], [1, 3, 0, 0], [4, 0, 16, 0]], False),  # 76% of 76%
        ("acc", [[76, 0, 0, 0], [4, 0, 0, 0], [20, 0, 0, 0]], True),
        ("bacc", [[0, 76, 0, 0], [0, 4, 0, 0], [0, 20, 0, 0]], True),
    ],
)
def test_a_model_is_called_no_better_than_guessing_by_the_metric_that_is_shown(
    best_metric, rows, is_guess
):
    model = NodeClassifier(4, 3, hidden_channels=8, best_metric=best_metric)
    model.eval_metrics.counts = torch.tensor([rows, rows])
    found = model.task.of_counts(model.eval_metrics.counts)
    shown = {f"test/{name}": float(values[-1]) for name, values in found.items()}
    assert bool(_guess(f"test/{best_metric}", shown, model)) == is_guess


def test_a_task_of_ones_own_needs_a_loss_and_a_metric(tmp_path):
    class Huber(Task):
        targets, best, lower_is_better = "numbers", "error", True

        def loss(self, out, y):
            return torch.nn.functional.huber_loss(out.squeeze(1), y)

        def metrics(self):
            return {"error": MeanAbsoluteError()}

        def compared(self, out, y):
            return out.squeeze(1), y

    data = {**rare_fraud(), "y": torch.rand(120)}
    run = gnn_depth.fit({"task": Huber}, data, epochs=5, root=str(tmp_path), progress=False)
    assert run.metrics["val_error_at_best_val"] == run.curves["val/error"].min()


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_scaled_targets_are_learned_scaled_and_measured_in_their_own_units(shift, spread):
    y = shift + spread * torch.arange(5, dtype=torch.double)
    scaling = Scaling.fit(y)
    task = make_task(None, "regression", 1)
    task.scale_targets([scaling])
    exact = scaling.apply(y)[:, None]
    assert task.loss(exact, y).item() < 1e-12
    assert task.loss(exact + 1, y).item() == pytest.approx(1)
    predicted = task.prediction(exact)[:, 0]
    torch.testing.assert_close(predicted, y, rtol=1e-9, atol=1e-9 * (abs(shift) + spread))
    mae = task.metrics()["mae"]
    mae.update(*task.compared(exact, y))
    assert mae.compute().item() <= 1e-9 * (abs(shift) + 5 * spread)


def rare_fraud(names=("fraud", "ok")):
    """A graph of which a class that comes first by name is rare, and hard to find."""
    generator = torch.Generator().manual_seed(0)
    is_rare = torch.arange(120) % 8 == 0
    x = torch.randn(120, 4, generator=generator)
    x[is_rare, 0] += 0.5
    edges = torch.randint(120, (2, 300), generator=generator)
    y = np.where(is_rare.numpy(), *names)
    return {"x": x, "y": y, "edge_index": edges}


def test_average_precision_and_f1_are_those_of_the_positive_class(tmp_path):
    options = {"num_layers": 2, "hidden_channels": 8, "best_metric": "ap"}
    for positive, task in (("fraud", "binary"), ("ok", {"name": "binary", "positive": "ok"})):
        options["task"] = task
        run = gnn_depth.fit(options, rare_fraud(), 4, root=str(tmp_path), progress=False)
        table = run.predict()
        test = run.data.batch.test_mask.numpy()
        true = rare_fraud()["y"][test] == positive
        scores, found = table[f"class_{positive}"][test], table.predicted[test] == positive
        metrics = run.metrics
        expected = sk.average_precision_score(true, scores)
        assert metrics["test_ap_at_best_val"] == pytest.approx(expected, abs=1e-6)
        assert metrics["test_f1_positive_at_best_val"] == pytest.approx(sk.f1_score(true, found))
        assert metrics["test_auroc_at_best_val"] == pytest.approx(sk.roc_auc_score(true, scores))
        assert f"test average precision of '{positive}'" in str(run)
        assert gnn_depth.load(run.folder).model.schema.positive == positive


def test_a_model_keeps_its_positive_class_where_other_data_has_other_shares():
    schema = Schema(4, "multiclass", ("fraud", "ok"), train_counts=(3, 97))
    assert Binary(2, "ok").read_schema(schema).positive == "ok"
    with pytest.raises(ValueError, match="positive class 'frued'.*'fraud'"):
        Binary(2, "frued").read_schema(schema)
    model, other = NodeClassifier(4, 2, task="binary"), NodeClassifier(4, 2, task="binary")
    model.adopt(schema)
    remembered = Schema.from_dict(model.schema.as_dict())
    other.adopt(Schema(4, "multiclass", ("fraud", "ok"), train_counts=(97, 3)))  # of a resume
    assert other.schema.positive == "ok"
    other.read_schema({"schema": remembered.as_dict()})
    assert (other.schema.positive, other.task.number) == ("fraud", 0)
    # So does a measurement of data in which the other class is the rarer one.
    data = GraphSource(rare_fraud(("ok", "fraud"))).conform_to(remembered)
    assert data.schema.positive == "fraud"
