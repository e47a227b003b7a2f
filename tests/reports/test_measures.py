import numpy as np
import pandas as pd
import pytest

from gnn_depth.measurements import Measurement
from gnn_depth.reports import ReportError, load, measures
from tests.reports.made import balance, make_run, similarity


def test_every_value_has_its_run_step_and_layer(tmp_path):
    made = {seed: similarity("mu", seed, steps=3 + seed) for seed in range(2)}
    for seed, measure in made.items():
        make_run(tmp_path, {"norm": "gat"}, seed, measures=[measure])
    make_run(tmp_path, {"norm": "lip"}, 0)
    frame = load(tmp_path)
    table = measures(frame, "mu")
    found = table.join(frame["seed"], on="run")
    expected = [
        (seed, step, layer, one.values[row, column])
        for seed, one in made.items()
        for row, step in enumerate(one.steps)
        for column, layer in enumerate(one.layers)
    ]
    assert sorted(found[["seed", "step", "layer", "value"]].itertuples(index=False, name=None)) == sorted(expected)
    assert table.attrs == {"unit": "mu", "log10": True}


def test_neurons_have_a_column(tmp_path):
    make_run(tmp_path, {"init": "xavier"}, measures=[balance()])
    found = measures(load(tmp_path), "balance")
    assert list(found.columns) == ["run", "step", "layer", "neuron", "value"]
    for row in found.iloc[::17].itertuples():
        assert row.value == balance().values[row.step, row.layer - 1, row.neuron]
    assert len(found) == balance().values.size


def test_what_is_not_finite_is_kept(tmp_path):
    values = np.array([[-np.inf, np.nan, np.inf]])
    make_run(tmp_path, {"depth": 3}, measures=[Measurement("mu", np.array([0]), values, log10=True)])
    np.testing.assert_array_equal(measures(load(tmp_path), "mu")["value"], values[0])


def test_a_training_that_measured_nothing_has_no_rows(tmp_path):
    make_run(tmp_path, {"depth": 3}, measures=[Measurement("mu", np.empty(0, dtype=int), np.empty((0, 3)))])
    assert measures(load(tmp_path), "mu").empty


def test_a_table_survives_parquet(tmp_path):
    make_run(tmp_path, {"norm": "gat"}, measures=[similarity("mu")])
    found = measures(load(tmp_path), "mu")
    found.to_parquet(tmp_path / "mu.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "mu.parquet"), found)


def test_a_measure_that_no_run_has_is_answered_with_those_there_are(tmp_path):
    make_run(tmp_path, {"norm": "gat"}, measures=[similarity("gradient_similarity")])
    with pytest.raises(ReportError, match=r"unknown measure 'gradient_similrity'\. Did you mean 'gradient_similarity'"):
        measures(load(tmp_path), "gradient_similrity")


def test_runs_whose_measure_is_another_thing_are_not_mixed(tmp_path):
    make_run(tmp_path, {"norm": "gat"}, 0, measures=[similarity("mu")])
    make_run(tmp_path, {"norm": "gat"}, 1, measures=[Measurement("mu", np.arange(2), np.ones((2, 5)), "mu")])
    with pytest.raises(ReportError, match="not the same thing in all runs: 'mu', 'mu' as log10"):
        measures(load(tmp_path), "mu")


def test_a_damaged_file_is_named(tmp_path):
    folder = make_run(tmp_path, {"norm": "gat"}, measures=[similarity("mu")])
    (folder / "measures" / "mu.npz").write_bytes(b"PK")
    with pytest.raises(ReportError, match=r"mu\.npz.* is no measurement, or is damaged"):
        measures(load(tmp_path), "mu")
