"""What the package takes for granted about Lightning's private parts. A new Lightning that changes
them fails here."""

from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import (
    Callback,
    EMAWeightAveraging,
    ModelCheckpoint,
    WeightAveraging,
)
from lightning.pytorch.cli import ReduceLROnPlateau
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from gnn_depth.nn.norms import BatchNorm
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import read_checkpoint
from gnn_depth.training.lightning_internals import (
    evaluation_mode,
    keep_order_of_gradients,
)
from gnn_depth.training.recorder import RunRecorder
from tests.training.conftest import Several, Tiny
from tests.training.test_loggers import Rows


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


def fit(make_trainer, cls=NodeClassifier, epochs=6, callbacks=(), data=None, options=(), **trainer):
    torch.manual_seed(0)
    model = cls(
        4, 2, hidden_channels=8, norm=[BatchNorm], num_layers=3, dropout=0.5, **dict(options)
    )
    logger = Rows()
    trainer = make_trainer(epochs, logger=logger, callbacks=list(callbacks), **trainer)
    trainer.fit(model, datamodule=data or Tiny())
    return by_step(logger), trainer, model


def plateau(monitor):
    schedule = partial(ReduceLROnPlateau, monitor=monitor, patience=0, threshold=1e-2)
    return {"scheduler": schedule, "optimizer": partial(torch.optim.SGD, lr=1.0)}


@pytest.mark.parametrize(
    ("precision", "every", "task", "model"),
    [
        ("32-true", 1, "multiclass", plateau("val/loss")),
        ("bf16-mixed", 5, "multiclass", plateau("train/loss")),
        ("64-true", 1, "binary", {"task": "binary"}),
    ],
)
def test_the_rows_are_those_of_lightnings_own_loop(make_trainer, precision, every, task, model):
    options = {"check_val_every_n_epoch": every, "precision": precision, "options": model}
    options["data"] = Tiny(task)
    ours, _, own = fit(make_trainer, **options)
    theirs, _, plain = fit(make_trainer, Plain, **options)
    assert plain.own_loop
    assert ours == theirs
    assert sum("val/acc" in row for row in ours.values()) == 6 // every
    assert any("test/auroc" in row for row in ours.values()) == (task == "binary")
    rates = {row["train/lr"] for row in ours.values()}
    assert (len(rates) > 1) == ("scheduler" in model)
    for name, value in own.state_dict().items():
        assert torch.equal(value, plain.state_dict()[name])


class TwoBatches(Tiny):
    def train_dataloader(self):
        return Several(self, 2)


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_a_run_goes_on_from_a_checkpoint_of_the_validation_as_from_lightnings(
    make_trainer, tmp_path
):
    def resumed(cls):
        kinds = {"monitor": "val/loss", "save_top_k": -1, "filename": "{epoch}"}
        kinds["save_on_train_epoch_end"] = False
        save = ModelCheckpoint(tmp_path / cls.__name__, **kinds)
        fit(make_trainer, cls, epochs=4, callbacks=[save], enable_checkpointing=True)
        again, logger = ModelCheckpoint(tmp_path / f"{cls.__name__}_again", **kinds), Rows()
        trainer = make_trainer(6, enable_checkpointing=True, callbacks=[again], logger=logger)
        model = cls(4, 2, hidden_channels=8, norm=[BatchNorm], num_layers=3, dropout=0.0)
        path = tmp_path / cls.__name__ / "epoch=2.ckpt"
        trainer.fit(model, datamodule=Tiny(), ckpt_path=path, weights_only=True)
        return trainer.global_step, trainer.current_epoch, by_step(logger)

    assert resumed(NodeClassifier) == resumed(Plain)


def test_evaluation_mode_is_that_of_eval_and_ends_as_it_began():
    shared = nn.Dropout()
    model = nn.Sequential(nn.Sequential(shared, nn.BatchNorm1d(2)), shared, nn.Linear(2, 2))
    model[0][1].eval()
    before = [module.training for module in model.modules()]

    def evaluate():
        with evaluation_mode(model):
            assert not any(module.training for module in model.modules())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()
    assert [module.training for module in model.modules()] == before


def test_three_processes_pack_their_gradients_in_the_order_of_the_first_step():
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=3)
    try:
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(4)))
        packed = DistributedDataParallel(model)
        keep_order_of_gradients(packed)
        seen = []

        def hook(_, bucket):
            seen.append([id(parameter) for parameter in bucket.parameters()])
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        packed.register_comm_hook(None, hook)
        for _ in range(3):
            packed(torch.ones(1, 2)).sum().backward()
        assert len(seen) == 3
        assert seen[0] == seen[1] == seen[2]
    finally:
        distributed.destroy_process_group()


class Swapped(Callback):
    """Averages by hand: other weights for the validation, put back in a hook of choice."""

    def __init__(self, start, end):
        for hook in (start, end):
            setattr(self, hook, self.exchange)
        self.other = None

    def exchange(self, trainer, model, *_):
        now = {name: weight.clone() for name, weight in model.state_dict().items()}
        other = self.other or {name: 0.5 * weight for name, weight in now.items()}
        model.load_state_dict(other)
        self.other = None if self.other else now


AVERAGES = {
    "average": WeightAveraging,
    "exponential": partial(EMAWeightAveraging, decay=0.5),
    "by hand": partial(Swapped, "on_validation_start", "on_validation_epoch_end"),
    "after": partial(Swapped, "on_train_batch_end", "on_validation_end"),
    "in a batch": partial(Swapped, "on_validation_batch_start", "on_validation_batch_end"),
}


@pytest.mark.parametrize(
    ("kind", "batches"), [*((kind, 1) for kind in AVERAGES), ("average", 2), ("by hand", 2)]
)
def test_metrics_and_the_best_weights_are_of_the_weights_that_were_validated(
    make_trainer, tmp_path, caplog, kind, batches
):
    data = Tiny if batches == 1 else TwoBatches
    recorder = RunRecorder(str(tmp_path))
    recorder.open({}, "run")
    trainer = make_trainer(4, callbacks=[AVERAGES[kind](), recorder])
    trainer.fit(NodeClassifier(4, 2, hidden_channels=8, best_metric="loss"), data())
    saved = read_checkpoint(recorder.folder / "checkpoints/best.ckpt")["state_dict"]
    best = NodeClassifier(4, 2, hidden_channels=8)
    best.load_state_dict(saved)
    measured = make_trainer().validate(best, Tiny(), verbose=False)[0]
    for name in ("val/loss", "val/acc", "test/acc"):
        assert measured[name] == pytest.approx(recorder.best.metrics[name]), name
    assert caplog.text.count("a callback exchanges the weights for the validation") == 1


def test_a_sanity_check_does_not_change_the_best_weights(make_trainer, tmp_path):
    best = []
    for checks in (0, 2):
        torch.manual_seed(0)
        recorder = RunRecorder(str(tmp_path))
        recorder.open({}, "run")
        trainer = make_trainer(3, callbacks=[recorder], num_sanity_val_steps=checks)
        trainer.fit(NodeClassifier(4, 2, best_metric="loss"), Tiny())
        best.append(recorder.best.weights)
    torch.testing.assert_close(*best, rtol=0, atol=0)


def test_a_longer_training_goes_on_from_the_weights_before_averaging(make_trainer, tmp_path):
    def train(epochs, ckpt_path=None):
        torch.manual_seed(0)
        model, recorder = NodeClassifier(4, 2, hidden_channels=8), RunRecorder(str(tmp_path))
        recorder.open({}, "run")
        trainer = make_trainer(epochs, callbacks=[WeightAveraging(), recorder])
        trainer.fit(model, Tiny(), ckpt_path=ckpt_path, weights_only=True)
        return recorder.folder / "checkpoints/last.ckpt"

    whole, longer = (read_checkpoint(path) for path in (train(6), train(6, train(3))))
    for key in ("state_dict", "current_model_state"):
        for name, weight in whole[key].items():
            assert torch.equal(weight, longer[key][name])
