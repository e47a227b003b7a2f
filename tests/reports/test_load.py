import math

import numpy as np
import pytest

from gnn_depth.measurements import MeasureValues, save_values
from gnn_depth.reports import ReportError, ReportWarning, read_measures, read_runs
from tests.reports.made import METRIC, make_run, similarity


def test_a_row_holds_what_the_run_left_behind(run, runs):
    left = {"seconds": 1.5, "epochs": 20, "best_epoch": None}
    folder = run(0.75, seed=3, depth=10, norm=None, result=left)
    frame = read_runs(runs)
    row = frame.iloc[0]
    assert (row["folder"], row["status"], row["seed"]) == (str(folder), "finished", 3)
    assert (row["seconds"], row["version"], row[METRIC]) == (1.5, "0.1.0", 0.75)
    assert (row["depth"], row["norm"], row["model.layer"]) == (10, "null", "gat")
    assert math.isnan(row["best_epoch"])
    assert frame.attrs["axes"] == ["depth", "norm"]


def test_every_result_is_read_once_wherever_it_lies(run, runs):
    folders = [run(seed=seed, depth=depth) for depth in (2, 10) for seed in range(3)]
    assert sorted(read_runs(runs)["folder"]) == sorted(map(str, folders))
    assert len(read_runs(runs, runs / "grid", folders[0])) == 6
    assert list(read_runs(folders[4])["folder"]) == [str(folders[4])]


def test_the_runs_of_a_sweep_are_in_the_order_of_its_grid(run, runs):
    for place, norm in ((2, "a"), (0, "none"), (1, "lipschitz")):
        run(norm=norm, result={"sweep": "grid", "place": place})
    assert list(read_runs(runs)["norm"]) == ["none", "lipschitz", "a"]


def test_an_axis_wins_over_a_hyperparameter_of_its_name(run, runs):
    run(result={"hparams": {"model.norm": ["lipschitz", "layer"]}})
    hparams = {"model.norm": "gnn_depth.nn.norms.PairNorm"}
    run(result={"axes": {"model.norm": "pair"}, "hparams": hparams})
    # Text, where it is not a scalar.
    assert list(read_runs(runs)["model.norm"]) == ["['lipschitz', 'layer']", "pair"]


def test_archived_runs_are_skipped_unless_asked_for(run, runs):
    kept, archived = run(seed=0), run(seed=1)
    (runs / "archive").mkdir()
    archived.rename(runs / "archive" / "old")
    assert list(read_runs(runs)["folder"]) == [str(kept)]
    assert list(read_runs(runs / "archive")["folder"]) == [str(runs / "archive" / "old")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"status": "finis', "truncated or damaged"),
        ('{"status": "finished", "format": 2}', "format 2 .* up to 1"),
        ('{"status": "finished", "metrics": {"val/acc": "high"}}', "metric 'val/acc' .* 'high'"),
    ],
)
def test_a_result_that_cannot_be_read_is_skipped_with_a_warning_that_names_it(
    run, runs, content, reason
):
    run(0.5)
    bad = run(0.9) / "result.json"
    bad.write_text(content)
    with pytest.warns(ReportWarning, match=f"{bad}' .*{reason}"):
        assert read_runs(runs)[METRIC].tolist() == [0.5]


def test_a_folder_with_measures_alone_is_a_run(tmp_path, run):
    ours, loop = run(0.5), tmp_path / "loop"
    loop.mkdir()
    save_values(loop, similarity("mu"))
    (loop / "inside" / "measures").mkdir(parents=True)
    frame = read_runs(loop)
    assert list(frame["folder"]) == list(frame["run"]) == [str(loop)]
    assert len(read_measures(frame, "mu")) == 6 * 5
    assert set(read_runs(tmp_path)["folder"]) == {str(loop), str(ours)}


def test_of_runs_with_one_identity_the_newest_that_came_to_a_result_counts(run, runs):
    same = {"identity": "a" * 64}
    run(0.1, result=same | {"started": "2026-01-01"})
    run(0.2, result=same | {"started": "2026-01-03"})
    run(0.3, result=same | {"started": "2026-01-02"})
    run(0.4, status="failed", result=same | {"started": "2026-01-04"})
    other = run(0.5, seed=1)
    with pytest.warns(ReportWarning, match=r"3 of 5 runs repeat others"):
        frame = read_runs(runs)
    assert sorted(frame[METRIC]) == [0.2, 0.5]
    assert str(other) in set(frame["folder"])


def test_of_a_sweep_run_again_with_an_edited_plugin_the_newest_runs_count(run, runs):
    for seed in (0, 1):
        run(0.1, seed=seed, result={"plugins": ["my_norm.py a"]})
    for seed in (0, 1):
        run(0.2, seed=seed, result={"plugins": ["my_norm.py b"]})
    apart = run(0.3, result={"data_sha256": "other"})
    with pytest.warns(ReportWarning, match=r"2 of 5 runs repeat others .+ some with older code"):
        frame = read_runs(runs)
    assert sorted(frame[METRIC]) == [0.2, 0.2, 0.3]
    assert str(apart) in set(frame["folder"])


def test_runs_whose_measure_is_another_thing_are_not_mixed(tmp_path):
    make_run(tmp_path, {"norm": "gat"}, 0, measures=[similarity("mu")])
    plain = MeasureValues("mu", np.arange(2), np.ones((2, 5)), "mu")
    make_run(tmp_path, {"norm": "gat"}, 1, measures=[plain])
    with pytest.raises(ReportError, match=r"'mu', 'mu' as log10"):
        read_measures(read_runs(tmp_path), "mu")


def test_runs_without_measures_say_what_writes_them(runs, run):
    run(0.1)
    with pytest.raises(ReportError, match="train with --trainer.callbacks GradientNorms"):
        read_measures(read_runs(runs), "gradient_norm")
