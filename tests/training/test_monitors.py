"""What watches a metric: in the mode of its task, and only where the metric is defined."""

import math
from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import ReduceLROnPlateau
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torchmetrics import Metric

import gnn_depth
from gnn_depth.builder import check
from gnn_depth.training import NodeClassifier
from gnn_depth.training.monitors import mode_of, with_modes
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.summary import report
from gnn_depth.training.tasks import MultiClass, Regression

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


def test_early_stopping_counts_the_epochs_in_which_its_metric_is_defined(fit):
    stopping = EarlyStopping("val/own", mode="max", patience=2)
    recorder = fit([NAN, 0.5, NAN, 0.4, NAN, NAN, 0.3, 0.2], [stopping])
    assert stopping.stopped_epoch == 6
    assert recorder.best.epoch == 1


def test_a_metric_that_is_never_defined_stops_nothing_and_has_no_best_epoch(fit):
    recorder = fit([NAN] * 6, [EarlyStopping("val/own", mode="max", patience=1)])
    assert recorder.result["epochs"] == 6
    assert recorder.best.epoch is None
    assert "val/own is undefined" in report(recorder, recorder.model)


def test_a_schedule_takes_no_step_where_its_metric_is_undefined(fit):
    schedule = partial(ReduceLROnPlateau, monitor="val/own", mode="max", patience=0, factor=0.5)
    rates = Rates()
    fit([NAN, NAN, 0.5, NAN, 0.4, NAN], [rates], scheduler=schedule)
    assert rates.seen == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.05])


def test_a_value_counts_once_where_only_every_second_epoch_is_validated(fit):
    schedule = partial(ReduceLROnPlateau, monitor="val/own", mode="max", patience=0, factor=0.5)
    stopping = EarlyStopping("val/own", mode="max", patience=2, check_on_train_epoch_end=True)
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


@pytest.mark.parametrize("name", ["val/acc", "val/own"])
def test_a_mode_that_is_not_written_is_that_of_the_task(fit, tmp_path, name):
    stopping = EarlyStopping(name, patience=100, min_delta=0.01)
    saving = ModelCheckpoint(tmp_path / "own", monitor=name)
    fit([0.1, 0.3, 0.2], [stopping, saving])
    assert stopping.mode == saving.mode == "max"
    assert stopping.min_delta > 0
    if name == "val/own":
        assert stopping.best_score == saving.best_model_score == pytest.approx(0.3)


def test_a_schedule_without_a_mode_follows_its_metric(fit):
    rates = Rates()
    schedule = partial(ReduceLROnPlateau, monitor="val/own", patience=0, factor=0.5)
    fit([0.1, 0.2, 0.3, 0.2, 0.4], [rates], scheduler=schedule)
    assert rates.seen == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.05])


WRONG = "val/loss, of which smaller is better, in mode 'max': use mode min"


@pytest.mark.parametrize(
    ("callbacks", "options"),
    [
        ([EarlyStopping("val/loss", mode="max")], {}),
        ([ModelCheckpoint(monitor="val/loss", mode="max")], {}),
        ([], {"scheduler": partial(ReduceLROnPlateau, monitor="val/loss", mode="max")}),
    ],
    ids=["stopping", "saving", "schedule"],
)
def test_a_mode_that_is_written_wrongly_is_refused(fit, callbacks, options):
    with pytest.raises(MisconfigurationException, match=WRONG):
        fit([0.1], callbacks, **options)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("callback", "EarlyStopping"),
        ("callback", "ModelCheckpoint"),
        ("scheduler", "ReduceLROnPlateau"),
    ],
)
def test_a_config_gets_the_mode_that_it_leaves_out_and_no_wrong_one(kind, name):
    def chosen(**options):
        found = check(kind, {"name": name, **options})
        return found[0] if isinstance(found, list) else found

    found, other = with_modes([chosen(monitor="val/acc"), chosen(monitor="val/loss")])
    assert found.options == {"monitor": "val/acc", "mode": "max"}
    assert other.options["mode"] == "min"
    assert with_modes(chosen(monitor="own/score")) == chosen(monitor="own/score")
    with pytest.raises(MisconfigurationException, match="val/acc, .*larger .*'min': use mode max"):
        with_modes(chosen(monitor="val/acc", mode="min"))


def test_the_task_knows_the_mode_of_each_of_its_metrics():
    assert {name: mode_of(f"val/{name}", Regression(2)) for name in ("mae", "rmse", "r2")} == {
        "mae": "min",
        "rmse": "min",
        "r2": "max",
    }
    assert mode_of("train/lr") is None
    assert mode_of("test/auroc") == "max"


class Stop(EarlyStopping):
    """A class of the user's own, which takes what its base takes."""


class StopLater(EarlyStopping):
    """One that may be given what its base needs."""

    def __init__(self, patience=7, **options):
        super().__init__(patience=patience, **options)


@pytest.mark.parametrize("cls", [EarlyStopping, Stop, StopLater])
def test_a_callback_of_the_users_own_takes_the_options_of_its_base_and_its_mode(cls):
    written = {"class_path": f"{cls.__module__}.{cls.__name__}"}
    options = {"monitor": "val/acc", "patience": 5}
    (chosen,) = with_modes(check("callback", [{**written, "init_args": options}]))
    assert chosen.options == {**options, "mode": "max"}
    with pytest.raises(MisconfigurationException, match="in mode 'min': use mode max"):
        with_modes(check("callback", [{**written, "init_args": {**options, "mode": "min"}}]))


def test_a_callback_that_python_names_with_the_wrong_mode_is_refused(tmp_path, tiny):
    callback = {"name": "EarlyStopping", "monitor": "val/acc", "mode": "min"}
    with pytest.raises(MisconfigurationException, match="in mode 'min': use mode max"):
        gnn_depth.fit({"num_layers": 2}, tiny, epochs=1, root=str(tmp_path), callbacks=[callback])


def test_a_metric_with_an_underscore_is_answered_with_its_name():
    for chosen in ({"name": "EarlyStopping", "monitor": "val_loss"}, "ModelCheckpoint"):
        if isinstance(chosen, str):
            chosen = {"name": chosen, "monitor": "val_acc"}
        with pytest.raises(MisconfigurationException, match=r"Did you mean 'val/(loss|acc)'"):
            with_modes(check("callback", chosen))
