import lightning as L
import pytest
from lightning.pytorch.callbacks import EarlyStopping

from gnn_depth.diagnostics.callbacks import Schedule
from tests.diagnostics.conftest import chain, values


class Worse(L.Callback):
    """A metric that gets worse in every epoch but some."""

    def __init__(self, better=()):
        self.better = better

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.log("worse", trainer.current_epoch - 100.0 * (trainer.current_epoch in self.better))


@pytest.mark.parametrize(
    ("cadence", "batch_size", "epochs", "expected"),
    [
        ({}, 20, 4, [0, 1, 2, 3]),
        ({"every_n_steps": 3}, 20, 8, [0, 3, 6, 7]),
        ({"every_n_steps": 3}, 20, 7, [0, 3, 6]),
        ({"every_n_steps": 100}, 5, 2, [0, 7]),
        ({"every_n_epochs": 2}, 20, 6, [0, 2, 4, 5]),
        ({"every_n_epochs": 2}, 10, 4, [0, 4, 7]),
        ({"every_n_epochs": 9}, 20, 1, [0]),
    ],
)
def test_steps_are_measured_at_the_cadence_and_always_the_first_and_the_last(
    measure, cadence, batch_size, epochs, expected
):
    module = chain()
    steps, _, _ = values(measure(module, batch_size=batch_size, cadence=cadence, max_epochs=epochs))
    assert steps.tolist() == expected
    # Hooks are there in these steps alone, and none when the training is over.
    assert [step for step, hooked in enumerate(module.hooked) if hooked] == expected
    assert not any(layer._forward_pre_hooks for layer in module.rounds)


def test_the_last_of_max_steps_is_measured(measure):
    callback = measure(batch_size=5, cadence={"every_n_steps": 100}, max_epochs=-1, max_steps=6)
    assert values(callback)[0].tolist() == [0, 5]


def test_a_step_of_accumulated_batches_is_measured_as_one(measure):
    module = chain()
    options = {"cadence": {"every_n_steps": 2}, "accumulate_grad_batches": 2, "max_epochs": 2}
    assert values(measure(module, batch_size=5, **options))[0].tolist() == [0, 2, 3]
    assert module.hooked == [True, True, False, False, True, True, True, True]


def test_the_step_before_patience_runs_out_is_measured(measure):
    stop = EarlyStopping("worse", patience=3, check_on_train_epoch_end=True)
    module = chain()
    callback = measure(module, cadence={"every_n_steps": 100}, callbacks=[Worse(better=[3]), stop], max_epochs=50)
    assert values(callback)[0].tolist() == [0, 6]
    # Patience nearly ran out once before; that measurement is forgotten.
    assert [step for step, hooked in enumerate(module.hooked) if hooked] == [0, 3, 6]


def test_there_is_one_cadence():
    with pytest.raises(ValueError, match=r"use every_n_steps \(5\) or every_n_epochs \(2\), not both"):
        Schedule(every_n_steps=5, every_n_epochs=2)
