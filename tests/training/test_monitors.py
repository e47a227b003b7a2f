"""What watches a metric: in the mode of its task, and only where the metric is defined."""

import math
from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import ReduceLROnPlateau
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torchmetrics import Metric

from gnn_depth.builder import check
from gnn_depth.training import NodeClassifier
from gnn_depth.training.monitors import with_modes
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.summary import report
from gnn_depth.training.tasks import MultiClass
from tests.training.conftest import Collect

NAN = math.nan
SGD = partial(torch.optim.SGD, lr=0.1)


class Scripted(Metric):
    """A metric with a given value in each epoch."""

    full_state_update, higher_is_better = False, True

    def __init__(self, values):
        super().__init__()
        self.values = iter(values)

    def update(self, predicted, targets):
        pass

    def compute(self):
        return torch.tensor(next(self.values))


class Own(MultiClass):
    """Classes, whose metric ``own`` has given values."""

    best = "own"

    def __init__(self, num_outputs, values):
        super().__init__(num_outputs)
        self.values = values

    def metrics(self):
        return {"own": Scripted(self.values)}


class Rates(Callback):
    def __init__(self):
        self.seen = []

    def on_train_epoch_start(self, trainer, pl_module):
        self.seen.append(trainer.optimizers[0].param_groups[0]["lr"])


@pytest.fixture
def fit(make_trainer, tiny, tmp_path):
    """``fit(values, callbacks)``: a training whose metric has these values; its recorder.

    With ``every`` 2 they are those of every second epoch.
    """

    def run(values, callbacks=(), every=1, **options):
        recorder = RunRecorder(str(tmp_path / "runs"))
        loggers = recorder.open({}, "run")
        # Training has a value in each epoch, of which none is watched.
        task = partial(Own, values=[*values, *[0.0] * (every - 1) * len(values)])
        model = NodeClassifier(4, 2, hidden_channels=8, task=task, optimizer=SGD, **options)
        saves = any(isinstance(one, ModelCheckpoint) for one in callbacks)
        trainer = make_trainer(
            every * len(values),
            check_val_every_n_epoch=every,
            callbacks=[recorder, *callbacks],
            logger=loggers,
            enable_checkpointing=saves,
        )
        trainer.fit(model, datamodule=tiny)
        recorder.model = model
        return recorder

    return run


def test_early_stopping_by_an_undefined_metric_is_refused_with_the_epoch(fit):
    with pytest.raises(MisconfigurationException, match="val/own, which is undefined in epoch 2"):
        fit([0.5, NAN, 0.4], [EarlyStopping("val/own", mode="max", patience=1)])


@pytest.mark.parametrize(
    ("values", "best"), [([NAN, 0.1, NAN, 0.3, 0.2], 3), ([0.2, NAN, 0.1], 0), ([0.7, 0.1, 0.7], 0)]
)
def test_the_first_of_the_largest_defined_values_is_that_of_the_best_epoch(fit, values, best):
    collect = Collect()
    recorder = fit(values, [collect])
    assert recorder.best.epoch == best
    assert recorder.best.metrics == collect.metrics[best]
    for name, weight in collect.weights[best].items():
        assert torch.equal(recorder.best.weights[name], weight)


def test_a_metric_that_is_never_defined_has_no_best_epoch(fit):
    recorder = fit([NAN] * 3)
    assert recorder.best.epoch is None
    assert "val/own was undefined" in report(recorder, recorder.model, {})


def test_a_schedule_takes_no_step_where_its_metric_is_undefined(fit):
    schedule = partial(ReduceLROnPlateau, monitor="val/own", mode="max", patience=0, factor=0.5)
    rates = Rates()
    fit([NAN, NAN, 0.5, NAN, 0.4, NAN], [rates], scheduler=schedule)
    assert rates.seen == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.05])


def test_a_value_counts_once_where_only_every_second_epoch_is_validated(fit):
    schedule = partial(ReduceLROnPlateau, monitor="val/own", mode="max", patience=0, factor=0.5)
    stopping = EarlyStopping("val/own", mode="max", patience=2)
    rates = Rates()
    recorder = fit([0.5, 0.4, 0.6], [rates, stopping], every=2, scheduler=schedule)
    assert rates.seen == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.05, 0.05])
    assert recorder.result["epochs"] == 6


def test_no_checkpoint_of_an_undefined_metric_is_among_the_best(fit, tmp_path):
    saving = ModelCheckpoint(tmp_path / "own", monitor="val/own", mode="max", save_top_k=2)
    fit([NAN, 0.2, NAN, 0.7, NAN], [saving])
    assert sorted(value.item() for value in saving.best_k_models.values()) == pytest.approx(
        [0.2, 0.7]
    )
    assert len(list((tmp_path / "own").glob("*.ckpt"))) == 2


@pytest.mark.parametrize(
    ("callbacks", "options"),
    [
        ([EarlyStopping("val/loss", mode="max")], {}),
        ([ModelCheckpoint(monitor="val/own")], {}),
        ([], {"scheduler": partial(ReduceLROnPlateau, monitor="val/own")}),
    ],
    ids=["stopping", "saving", "schedule"],
)
def test_an_object_that_would_keep_the_worst_values_is_refused(fit, callbacks, options):
    with pytest.raises(MisconfigurationException, match="is better, in mode 'm..': use mode"):
        fit([0.1], callbacks, **options)


def test_a_config_gets_the_mode_that_it_leaves_out_and_no_wrong_one():
    def chosen(**options):
        return check("scheduler", {"name": "ReduceLROnPlateau", **options})

    modes = {"val/acc": "max", "val/loss": "min", "val/mae": "min", "test/auroc": "max"}
    for metric, mode in modes.items():
        assert with_modes([chosen(monitor=metric)])[0].options["mode"] == mode
    assert with_modes(chosen(monitor="own/score")) == chosen(monitor="own/score")
    with pytest.raises(MisconfigurationException, match="val/acc, .*larger .*'min': use mode max"):
        with_modes(chosen(monitor="val/acc", mode="min"))
