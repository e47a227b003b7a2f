from functools import partial

import lightning as L
import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, EarlyStopping, LambdaCallback, ModelCheckpoint
from lightning.pytorch.cli import ReduceLROnPlateau
from torch import nn

from gnn_depth.nn.norms import BatchNorm
from gnn_depth.training import NodeClassifier
from gnn_depth.training.lightning_internals import OneBatchValidation, evaluation_mode
from tests.training.conftest import Several, Tiny
from tests.training.test_epoch_log import Rows


class Plain(NodeClassifier):
    """The same model under Lightning's own validation loop."""

    def on_validation_start(self):  # whoever looks inside gets it
        self.own_loop = True


def by_step(logger):
    """Rows as one dict a step: Lightning's loop hands over the values of an epoch in two."""
    steps = {}
    for step, row in logger.rows:
        steps.setdefault(step, {}).update(row)
    return steps


def fit(make_trainer, cls=NodeClassifier, epochs=12, callbacks=(), data=None, options=(), **trainer):
    torch.manual_seed(0)
    model = cls(4, 2, hidden_channels=8, norm=[BatchNorm], num_layers=3, dropout=0.5, **dict(options))
    logger = Rows()
    trainer = make_trainer(epochs, logger=logger, callbacks=list(callbacks), **trainer)
    trainer.fit(model, datamodule=data or Tiny())
    return by_step(logger), trainer, model


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_the_rows_are_those_of_lightnings_own_loop(make_trainer, every, precision):
    options = {"check_val_every_n_epoch": every, "precision": precision}
    ours, _, model = fit(make_trainer, **options)
    theirs, _, plain = fit(make_trainer, Plain, **options)
    assert plain.own_loop
    assert ours == theirs
    assert sum("val/acc" in row for row in ours.values()) == 12 // every
    for name, value in model.state_dict().items():
        assert torch.equal(value, plain.state_dict()[name])


def test_the_rows_are_those_of_an_independent_evaluation(make_trainer):
    class Evaluate(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            module.eval()
            with torch.no_grad():
                scores = module(batch)
            module.train()
            loss = F.cross_entropy(scores[batch.val_mask], batch.y[batch.val_mask]).item()
            right = (scores.argmax(-1) == batch.y).float()
            expected.append((loss, right[batch.val_mask].mean().item(), right[batch.test_mask].mean().item()))

    expected = []
    rows, _, _ = fit(make_trainer, callbacks=[Evaluate()])
    found = [(row["val/loss"], row["val/acc"], row["test/acc"]) for row in rows.values()]
    assert found == [pytest.approx(values) for values in expected]


def test_a_binary_set_has_the_rows_of_lightnings_own_loop_too(make_trainer):
    ours, theirs = (
        fit(make_trainer, cls, data=Tiny("binary"), options={"task": "binary"})[0] for cls in (NodeClassifier, Plain)
    )
    assert all("test/auroc" in row for row in ours.values())
    assert ours == theirs


def test_without_validation_there_is_none(make_trainer):
    rows, _, _ = fit(make_trainer, limit_val_batches=0)
    assert not any(name.startswith(("val/", "test/")) for row in rows.values() for name in row)


def test_a_set_that_is_empty_has_no_metrics(make_trainer):
    class NoTest(Tiny):
        def load(self):
            batch = super().load()
            batch.test_mask = torch.zeros_like(batch.test_mask)
            return batch

    rows, _, _ = fit(make_trainer, data=NoTest())
    assert all("val/acc" in row and "test/acc" not in row for row in rows.values())


@pytest.mark.parametrize("every", [1, 5])
def test_early_stopping_stops_where_it_does_under_lightnings_own_loop(make_trainer, every):
    def stopped(cls):
        stop = EarlyStopping("val/loss", min_delta=1e9, patience=2)
        _, trainer, _ = fit(make_trainer, cls, epochs=40, callbacks=[stop], check_val_every_n_epoch=every)
        return trainer.current_epoch, stop.stopped_epoch, stop.best_score.item()

    assert stopped(NodeClassifier) == stopped(Plain)
    assert stopped(NodeClassifier)[0] == 3 * every


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("top", [1, 3])
def test_the_checkpoints_kept_are_those_of_lightnings_own_loop(make_trainer, tmp_path, every, top):
    def kept(cls):
        save = ModelCheckpoint(tmp_path / cls.__name__, monitor="val/acc", mode="max", save_top_k=top)
        fit(make_trainer, cls, callbacks=[save], enable_checkpointing=True, check_val_every_n_epoch=every)
        return sorted(path.name for path in (tmp_path / cls.__name__).iterdir()), save.best_model_score.item()

    ours = kept(NodeClassifier)
    assert ours == kept(Plain)
    assert len(ours[0]) == min(top, 12 // every)


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("monitor", ["val/loss", "val/acc", "train/loss"])
def test_a_plateau_schedule_lowers_the_rate_when_it_does_under_lightnings_own_loop(make_trainer, monitor, every):
    schedule = partial(ReduceLROnPlateau, monitor=monitor, patience=0, threshold=1e-2)
    if every == 5 and monitor != "train/loss":
        schedule = partial(ReduceLROnPlateau, monitor=monitor, patience=3)
    rates = []
    for cls in (NodeClassifier, Plain):
        options = {"scheduler": schedule, "optimizer": partial(torch.optim.SGD, lr=1.0)}
        if every == 5 and monitor != "train/loss":  # nothing to watch in the first epoch: Lightning says so
            with pytest.raises(L.fabric.utilities.exceptions.MisconfigurationException, match="not available"):
                fit(make_trainer, cls, options=options, check_val_every_n_epoch=every)
            continue
        rows, _, _ = fit(make_trainer, cls, options=options, check_val_every_n_epoch=every)
        rates.append([row["train/lr"] for row in rows.values()])
    if rates:
        assert rates[0] == rates[1]
        assert len(set(rates[0])) > 1


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_a_run_goes_on_from_a_checkpoint_of_the_validation_as_from_lightnings(make_trainer, tmp_path):
    def resumed(cls):
        kinds = {"monitor": "val/loss", "save_top_k": -1, "filename": "{epoch}", "save_on_train_epoch_end": False}
        save = ModelCheckpoint(tmp_path / cls.__name__, **kinds)
        fit(make_trainer, cls, epochs=4, callbacks=[save], enable_checkpointing=True)
        again, logger = ModelCheckpoint(tmp_path / f"{cls.__name__}_again", **kinds), Rows()
        trainer = make_trainer(6, enable_checkpointing=True, callbacks=[again], logger=logger)
        model = cls(4, 2, hidden_channels=8, norm=[BatchNorm], num_layers=3, dropout=0.0)
        trainer.fit(model, datamodule=Tiny(), ckpt_path=tmp_path / cls.__name__ / "epoch=2.ckpt", weights_only=True)
        return trainer.global_step, trainer.current_epoch, by_step(logger)

    assert resumed(NodeClassifier) == resumed(Plain)


@pytest.mark.parametrize("hook", ["on_validation_start", "on_validation_batch_end", "on_validation_epoch_end"])
def test_a_callback_that_looks_inside_a_validation_is_called(make_trainer, hook):
    calls = []
    fit(make_trainer, epochs=3, callbacks=[LambdaCallback(**{hook: lambda *_, **__: calls.append(hook)})])
    assert len(calls) == 3


def test_the_end_of_a_validation_finds_the_model_as_it_was_evaluated(make_trainer):
    seen = []

    class End(Callback):
        def on_validation_end(self, trainer, module):
            seen.append((trainer.current_epoch, module.training, torch.is_grad_enabled(), trainer.validating))
            assert "val/loss" in trainer.callback_metrics

    fit(make_trainer, epochs=2, callbacks=[End()])
    assert seen == [(0, False, False, True), (1, False, False, True)]


def test_data_of_another_kind_is_validated_by_lightnings_loop(make_trainer, monkeypatch):
    class Other(Tiny):
        def val_dataloader(self):
            return Several(self, 1)

    monkeypatch.setattr(OneBatchValidation, "_batch_on_device", lambda self: pytest.fail("no full batch"))
    rows, _, _ = fit(make_trainer, data=Other())
    assert all("val/acc" in row for row in rows.values())


def test_a_full_batch_beside_several_in_training_is_validated_by_lightnings_loop(make_trainer):
    class Mixed(Tiny):
        def train_dataloader(self):
            return Several(self, 3)

    rows, _, _ = fit(make_trainer, data=Mixed(), epochs=2)
    assert all({"val/acc", "train/acc"} <= set(row) for row in rows.values())
    assert len(rows) == 2


class Odd(nn.Module):
    """Stays in evaluation mode whatever it is told, and counts."""

    def __init__(self):
        super().__init__()
        self.told = []

    def train(self, mode=True):
        self.told.append(mode)
        return super().train(False)


def test_evaluation_mode_is_that_of_eval_and_ends_as_it_began():
    shared = nn.Dropout()
    model = nn.Sequential(nn.Sequential(shared, nn.BatchNorm1d(2)), shared, nn.Linear(2, 2))
    model[0][1].eval()
    before = [module.training for module in model.modules()]
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
        assert torch.equal(model[1](torch.ones(9)), torch.ones(9))
    assert [module.training for module in model.modules()] == before


def test_a_module_with_a_mode_of_its_own_is_told():
    model = nn.Sequential(nn.Linear(2, 2), Odd())
    with evaluation_mode(model):
        assert model[1].told == [False]
        assert not model.training
    assert model.training


def test_evaluation_mode_ends_after_an_error_too():
    model = nn.Linear(2, 2)
    with pytest.raises(ZeroDivisionError), evaluation_mode(model):
        raise ZeroDivisionError
    assert model.training
