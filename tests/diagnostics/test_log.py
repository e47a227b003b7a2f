from functools import partial

import numpy as np
import pandas as pd
import pytest
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth import measurements
from gnn_depth.diagnostics import Balancedness, FirstFailure, GradientNorms, LipschitzConstants, log
from tests.diagnostics.conftest import TinyDouble, chain, loader, rows, values
from tests.diagnostics.made import MIXED, POSITIVE, SIGNED, Made
from tests.diagnostics.test_balancedness import model as balanced_model
from tests.training.conftest import Raise, scalars

HIDDEN, PARAMETERS = "gradient_norm_hidden", "gradient_norm_parameters"


def test_arrays_and_curves_in_the_runs_folder_are_what_was_measured(measure, board, tmp_path):
    callback = measure(logger=board, max_epochs=3)
    assert measurements.measure_names(tmp_path / "run") == [HIDDEN, PARAMETERS]
    for measured in callback.measure_log.measurements():
        saved = measurements.load_values(tmp_path / "run", measured.name)
        assert saved.steps.tolist() == [0, 1, 2]
        assert saved.layers.tolist() == [1, 2, 3, 4]
        assert saved.log10
        assert np.array_equal(saved.values, measured.values)
    steps, hidden, parameters = values(callback)
    found = scalars(tmp_path / "run", "gradient_norm/")
    assert len(found) == 2 * (4 + 5)
    for kind, expected in (("hidden", hidden), ("parameters", parameters)):
        curve = found[f"gradient_norm/{kind}_log10/layer_002"]
        assert [step for step, _ in curve] == steps.tolist()
        assert [value for _, value in curve] == pytest.approx(np.log10(expected[:, 1]), rel=1e-6)


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError("gone"), OSError), (KeyboardInterrupt(), SystemExit)]
)
def test_what_was_measured_before_an_exception_is_kept(measure, board, tmp_path, error, raised):
    module = chain()
    with pytest.raises(raised):
        measure(module, logger=board, max_epochs=9, callbacks=[Raise(error, 4)])
    for name in (HIDDEN, PARAMETERS):
        assert measurements.load_values(tmp_path / "run", name).steps.tolist() == [0, 1, 2, 3]
    assert len(scalars(tmp_path / "run")["gradient_norm/hidden_log10/layer_001"]) == 4
    assert not any(layer._forward_pre_hooks for layer in module.rounds)


def test_a_full_disk_does_not_hide_the_exception_before_it(measure, board, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(log, "save_values", full)
    with (
        pytest.warns(UserWarning, match="could not be saved: no space left"),
        pytest.raises(RuntimeError, match="the real one"),
    ):
        measure(logger=board, callbacks=[Raise(RuntimeError("the real one"), 1)])


def test_a_long_training_is_written_before_it_ends_and_drawn_when_it_has_grown(
    measure, board, monkeypatch
):
    written, drawn = [], []
    monkeypatch.setattr(log, "SECONDS", -1)
    monkeypatch.setattr(log, "SAVE_SECONDS", -1)
    monkeypatch.setattr(log, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(log, "save_values", lambda folder, one: written.append(len(one.steps)))
    monkeypatch.setattr(log, "log_heat_maps", lambda *args: drawn.append(len(args[2][0].steps)))
    measure(logger=board, max_epochs=18)
    assert written[::2] == [*range(1, 19), 18]
    assert drawn == [1, 2, 3, 4, 5, 7, 9, 12, 15, 18]


@pytest.mark.parametrize(
    "make",
    [
        GradientNorms,
        partial(LipschitzConstants, every_n_epochs=2),
        partial(FirstFailure, smoothed=0.999),
        partial(Balancedness, neurons=True),
    ],
)
def test_a_resumed_training_has_the_values_of_one_that_was_not_stopped(
    make, make_trainer, tmp_path
):
    def found(epochs, path=None):
        callback = make()
        trainer = make_trainer([callback], max_epochs=epochs)
        model, data = balanced_model(encoder="linear"), TinyDouble()
        trainer.fit(model, datamodule=data, ckpt_path=path, weights_only=False)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        neurons = callback.neuron_log.measurements() if hasattr(callback, "neuron_log") else []
        return callback.frame(), [one.values for one in neurons]

    whole, neurons = found(6)
    found(3)
    resumed, of_resumed = found(6, tmp_path / "last.ckpt")
    assert len(whole)
    pd.testing.assert_frame_equal(resumed, whole, rtol=1e-12)
    for ours, expected in zip(of_resumed, neurons, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_two_callbacks_that_would_write_the_same_files_are_refused(make_trainer):
    trainer = make_trainer([GradientNorms("rounds.*"), GradientNorms("enter")])
    with pytest.raises(MisconfigurationException, match=r"'rounds\.\*' and 'enter', would write"):
        trainer.fit(chain(), loader(rows(), 20))
    with pytest.raises(MisconfigurationException, match="is called '5'"):
        make_trainer([GradientNorms(5)]).fit(chain(), loader(rows(), 20))


def test_a_curve_has_no_point_where_a_value_is_not_finite(fit, board, tmp_path):
    fit(Made(MIXED, SIGNED, POSITIVE), logger=board, max_epochs=2)
    signed = measurements.load_values(tmp_path / "run", "signed")
    np.testing.assert_array_equal(signed.values, np.array(MIXED)[:, 0])
    curves = scalars(tmp_path / "run", "made/")
    for tag, steps in {
        "made/signed/layer_001": [0, 1],
        "made/signed/layer_003": [1],
        "made/signed/last": [1],
        "made/size_log10/layer_001": [1],
        "made/size_log10/layer_002": [0],
        "made/size_log10/middle": [0],
        "made/size_log10/max": [0, 1],
    }.items():
        assert [step for step, _ in curves[tag]] == steps, tag
    edges = [[value for _, value in curves[f"made/signed/{edge}"]] for edge in ("min", "max")]
    assert edges == [[-2.0, pytest.approx(-1e-30)], [0.0, 5.0]]  # of the layers with a finite value
