import json

import lightning as L
import numpy as np
import pytest
import torch

from gnn_depth.diagnostics import FirstFailure, GradientSimilarity
from gnn_depth.diagnostics.first_failure import first_failures
from gnn_depth.training import NodeClassifier
from gnn_depth.training.divergence import Diverged
from gnn_depth.training.recorder import RunRecorder
from tests.diagnostics.conftest import values
from tests.training.conftest import BreakWeights, Tiny

# Rows, mu and norm of gradients, their distance from the limit, norm of the parameters' gradients.
GOOD = np.array([[[9.0] * 4, [1.0] * 4, [2.0] * 4, [0.5] * 4, [1.0] * 4]])


def found_in(*steps, layers=(1, 2, 3, 4), **limits):
    failures = first_failures(range(len(steps)), np.stack(steps), layers, **limits)
    return {kind: (finding["layer"], finding["step"]) for kind, finding in failures.items()}


def changed(quantity, place, value):
    step = GOOD[0].copy()
    step[quantity, place] = value
    return step


def test_the_first_step_is_found_and_in_it_the_first_layer_on_the_way_back():
    late = changed(2, [0, 2], np.nan)
    assert found_in(GOOD[0], GOOD[0], late, changed(2, 3, np.nan)) == {"non_finite": (3, 2)}
    assert found_in(GOOD[0], changed(1, [0, 1], 1e-6)) == {"smoothed": (2, 1)}
    assert found_in(GOOD[0], changed(3, [0, 1], 1e-3)) == {"smoothed": (2, 1)}
    assert found_in(GOOD[0], changed(4, [0, 2], 1e-4)) == {"stalled": (3, 1)}
    assert found_in(changed(4, 0, 1e-4)) == {}  # most layers train
    assert found_in(changed(3, [0, 1, 2, 3], np.nan)) == {}  # the limit is not known
    assert found_in(changed(1, [0, 2], 2e3), layers=(3, 5, 7, 9)) == {"expanded": (7, 0)}
    assert found_in(GOOD[0]) == {}


def test_what_is_not_there_has_not_failed():
    unseen = changed(0, 1, 0)
    unseen[1:, 1] = np.nan
    zero = GOOD[0].copy()
    zero[[1, 2, 4], 1] = 0  # no gradients are not equal gradients
    zero[3, 1] = np.nan
    nothing = np.zeros((5, 4))
    nothing[3] = np.nan
    one_row = changed(0, 2, 1)
    one_row[1, 2] = 0
    for step in (unseen, zero, one_row, nothing):
        assert found_in(step) == {}


def test_growth_is_from_the_last_layer_that_differs():
    step = changed(1, 3, 0)
    step[1, 0] = 2e3
    assert found_in(step, smoothed=1e-12) == {"expanded": (1, 0)}


def test_equal_gradients_of_a_readout_are_not_smoothed():
    step = changed(1, [0, 1, 2, 3], 0)
    assert found_in(step) == {}
    step[1, 3] = 1.0  # the last layer's differ
    assert found_in(step) == {"smoothed": (3, 0)}


def test_failures_of_a_training_have_the_values_that_are_measured(measure, capsys):
    # Another callback raised before any step.
    unmeasured = FirstFailure()
    unmeasured.measure_log.close(L.Trainer(logger=False))
    assert "no failure" not in capsys.readouterr().err
    assert "layer" in unmeasured.frame()
    measure(kind=FirstFailure, max_epochs=1)
    assert "FirstFailure: no failure in the measured steps." in capsys.readouterr().err
    callback = FirstFailure("rounds.*", smoothed=0.55, expanded=1.001)
    similarity = measure(kind=GradientSimilarity, callbacks=[callback], max_epochs=4)
    steps, mus, shares = values(similarity)
    found = callback.findings()
    for kind, expected in (("smoothed", shares), ("expanded", mus / mus[:, -1:])):
        step, layer, value = (found[kind][name] for name in ("step", "layer", "value"))
        assert value == pytest.approx(expected[step, layer - 1], rel=1e-10)
    assert step == steps[(expected > 1.001).any(1)][0]
    assert found["expanded"]["text"].startswith(
        f"gradients expanded at layer {layer} in step {step}: mu"
    )
    json.dumps(found)
    assert callback.frame().loc["expanded", "layer"] == layer


# The recorder comes first, and so writes before the other callback hears of the exception.
def test_what_was_found_is_in_the_result_of_a_training_that_diverges(tmp_path, make_trainer):
    recorder = RunRecorder(root=str(tmp_path / "runs"), name="tiny")
    callbacks = [recorder, FirstFailure(smoothed=0.95), BreakWeights()]
    trainer = make_trainer(callbacks, logger=recorder.open({}, "x"), max_epochs=6)
    torch.manual_seed(0)
    with pytest.raises(Diverged):
        trainer.fit(NodeClassifier(4, 2, num_layers=3, hidden_channels=8), datamodule=Tiny())
    (path,) = tmp_path.rglob("result.json")
    result = json.loads(path.read_text())
    assert result["status"] == "diverged"
    assert "smoothed" in result["findings"]["FirstFailure"]
