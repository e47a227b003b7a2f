import pytest

from gnn_depth.diagnostics import GradientNorms
from tests.diagnostics.conftest import chain, is_hooked, values


@pytest.mark.parametrize(
    ("cadence", "batch_size", "options", "expected"),
    [
        ({}, 20, {"max_epochs": 3}, [0, 1, 2]),
        ({"every_n_steps": 3}, 20, {"max_epochs": 8}, [0, 3, 6, 7]),
        ({"every_n_steps": 100}, 5, {"max_epochs": -1, "max_steps": 6}, [0, 5]),
        ({"every_n_epochs": 2}, 10, {"max_epochs": 4}, [0, 4, 7]),
    ],
)
def test_steps_are_measured_at_the_cadence_and_always_the_first_and_the_last(
    measure, cadence, batch_size, options, expected
):
    module = chain()
    steps, _, _ = values(measure(module, batch_size=batch_size, cadence=cadence, **options))
    assert steps.tolist() == expected
    # Hooks are there in these steps alone, and none when the training is over.
    assert [step for step, hooked in enumerate(module.hooked) if hooked] == expected
    assert not is_hooked(module)


def test_a_step_of_accumulated_batches_is_measured_as_one(measure):
    module = chain()
    options = {"cadence": {"every_n_steps": 2}, "accumulate_grad_batches": 2, "max_epochs": 2}
    assert values(measure(module, batch_size=5, **options))[0].tolist() == [0, 2, 3]
    assert module.hooked == [True, True, False, False, True, True, True, True]


def test_there_is_one_cadence():
    with pytest.raises(
        ValueError, match=r"use every_n_steps \(5\) or every_n_epochs \(2\), not both"
    ):
        GradientNorms(every_n_steps=5, every_n_epochs=2)
