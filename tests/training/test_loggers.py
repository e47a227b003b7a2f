"""The values of a training on their way to the loggers, and to the terminal."""

import math

import pytest
from lightning.pytorch.loggers.logger import DummyLogger
from lightning.pytorch.utilities.exceptions import SIGTERMException

from gnn_depth.training import loggers
from gnn_depth.training.loggers import EventLogger
from tests.training.conftest import Raise, scalars


class Rows(DummyLogger):
    """What a logger is given."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_metrics(self, metrics, step):
        self.rows.append((step, dict(metrics)))


@pytest.fixture
def fit(make_trainer, tiny, model):
    def run(epochs, callbacks=(), data=tiny, **options):
        logger = Rows()
        trainer = make_trainer(epochs, logger=logger, callbacks=list(callbacks), **options)
        try:
            trainer.fit(model, datamodule=data)
        finally:
            run.trainer, run.logger = trainer, logger
        return logger

    return run


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyboardInterrupt(), SystemExit), (SIGTERMException(), SystemExit), (OSError(), OSError)],
)
def test_nothing_is_lost_however_the_training_ends(fit, error, raised):
    with pytest.raises(raised):
        fit(10, [Raise(error, 7)])
    assert [step for step, _ in fit.logger.rows] == list(range(7))
    assert all("val/acc" in row for _, row in fit.logger.rows)


def test_ctrl_c_while_rows_are_handed_over_loses_none(fit, monkeypatch):
    monkeypatch.setattr(loggers, "SECONDS", 1000.0)

    def interrupt(self, metrics, step):
        self.rows.append((step, metrics))
        if step == 3 and not interrupted:
            interrupted.append(step)
            raise KeyboardInterrupt

    interrupted = []
    monkeypatch.setattr(Rows, "log_metrics", interrupt)
    with pytest.raises(SystemExit):
        fit(9)
    assert sorted({step for step, _ in fit.logger.rows}) == list(range(9))


def test_a_model_is_fitted_again_by_another_trainer_and_by_the_same(fit, model, tiny):
    fit(2)
    assert [step for step, _ in fit(2).rows] == [0, 1]
    fit.trainer.validate(model, datamodule=tiny, verbose=False)
    assert sum(isinstance(callback, loggers.EpochLog) for callback in fit.trainer.callbacks) == 1


def test_curves_come_before_counters_and_undefined_values_have_no_point(tmp_path):
    logger = EventLogger(tmp_path, name="", version="", default_hp_metric=False)
    logger.log_metrics({"epoch": 7, "val/acc": 0.5, "val/auroc": math.nan}, 7)
    logger.finalize("success")
    found = scalars(logger.log_dir)
    assert found == {"val/acc": [(7, 0.5)], "~epoch": [(7, 7.0)]}
