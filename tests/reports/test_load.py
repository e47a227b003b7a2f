import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_depth.reports import ReportError, ReportWarning, curves, load
from gnn_depth.runs import COLUMNS
from tests.reports.conftest import METRIC


def test_a_row_holds_what_the_run_left_behind(run: Callable, runs: Path):
    folder = run(0.75, seed=3, depth=10, norm=None, result={"seconds": 1.5, "epochs": 20, "best_epoch": None})
    frame = load(runs)
    row = frame.iloc[0]
    assert list(frame.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert (row["folder"], row["status"], row["seed"], row["seconds"]) == (str(folder), "finished", 3, 1.5)
    assert (row["sweep"], row["version"], row[METRIC]) == ("grid", "0.1.0", 0.75)
    assert (row["depth"], row["norm"], row["model.layer"]) == (10, "null", "gat")
    assert math.isnan(row["best_epoch"])
    assert frame.attrs == {
        "metrics": [METRIC, "val/loss"],
        "hparams": ["model.layer", "seed_everything", "model.depth"],
        "axes": ["depth", "norm"],
    }


def test_every_result_is_read_once_wherever_it_lies(run: Callable, runs: Path):
    folders = [run(seed=seed, depth=depth) for depth in (2, 10) for seed in range(3)]
    assert sorted(load(runs)["folder"]) == sorted(map(str, folders))
    assert len(load(runs, runs / "grid", folders[0])) == 6
    assert list(load(folders[4])["folder"]) == [str(folders[4])]


def test_an_axis_wins_over_a_hyperparameter_of_its_name(run: Callable, runs: Path):
    run(result={"axes": {"model.norm": "pair"}, "hparams": {"model.norm": "gnn_depth.nn.norms.PairNorm"}})
    assert list(load(runs)["model.norm"]) == ["pair"]


def test_a_value_that_is_no_scalar_is_its_text(run: Callable, runs: Path):
    run(result={"hparams": {"model.norm": ["lipschitz", "layer"]}})
    assert list(load(runs)["model.norm"]) == ["['lipschitz', 'layer']"]


def test_names_of_numbers_that_are_not_finite_become_such_numbers(run: Callable, runs: Path):
    run("nan", result={"metrics": {METRIC: "nan", "train/loss": "inf", "val/loss": "-inf"}})
    row = load(runs).iloc[0]
    assert math.isnan(row[METRIC])
    assert (row["train/loss"], row["val/loss"]) == (math.inf, -math.inf)


def test_archived_runs_are_skipped_unless_asked_for(run: Callable, runs: Path):
    kept, archived = run(seed=0), run(seed=1)
    (runs / "archive").mkdir()
    archived.rename(runs / "archive" / "old")
    assert list(load(runs)["folder"]) == [str(kept)]
    assert list(load(runs / "archive")["folder"]) == [str(runs / "archive" / "old")]


def test_results_of_the_first_version_are_read(tmp_path: Path):
    old = {"status": "finished", "name": "gcn_2", "seed": 0, "metrics": {METRIC: 0.8}}
    (tmp_path / "result.json").write_text(json.dumps(old))
    frame = load(tmp_path)
    assert frame[METRIC].tolist() == [0.8]
    assert frame["sweep"].isna().all()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"status": "finis', "truncated or damaged"),
        ("", "truncated or damaged"),
        ("\ud800", "truncated or damaged"),
        ("[1, 2]", "no result of a run"),
        ('{"name": "x"}', "no result of a run"),
        ('{"status": "finished", "format": 2}', r"format 2, of another gnn-depth \(this one reads up to 1\)"),
        ('{"status": "finished", "format": "new"}', "format 'new'"),
        ('{"status": "finished", "metrics": [1]}', "metrics that are no table"),
        ('{"status": "finished", "axes": {"status": 1}}', "axis 'status', which is the name of a column"),
    ],
)
def test_a_result_that_cannot_be_read_is_skipped_with_a_warning_that_names_it(
    run: Callable, runs: Path, content: str, reason: str
):
    run(0.5)
    bad = run(0.9) / "result.json"
    bad.write_bytes(content.encode(errors="surrogatepass"))
    with pytest.warns(ReportWarning, match=f"{bad}' .*{reason}"):
        assert load(runs)[METRIC].tolist() == [0.5]


def test_a_warning_names_few_files_and_counts_the_others(run: Callable, runs: Path):
    run()
    for seed in range(8):
        (run(seed=seed, depth=2) / "result.json").write_text("{")
    with pytest.warns(ReportWarning, match="and 3 more") as caught:
        load(runs)
    assert str(caught[0].message).count("result.json") == 5


@pytest.mark.filterwarnings("ignore::gnn_depth.reports.ReportWarning")
def test_a_folder_without_results_is_an_error_that_names_it(runs: Path, run: Callable):
    with pytest.raises(ReportError, match=r"there is no folder '.*runs'"):
        load(runs)
    (runs / "empty").mkdir(parents=True)
    with pytest.raises(ReportError, match=r"no result of a run below '.*runs'"):
        load(runs)
    (run() / "result.json").write_text("{")
    with pytest.raises(ReportError, match=r"no file result.json that can be read"):
        load(runs)


def test_of_runs_with_one_identity_the_newest_that_came_to_a_result_counts(run: Callable, runs: Path):
    same = {"identity": "a" * 64}
    run(0.1, result=same | {"started": "2026-01-01"})
    run(0.2, result=same | {"started": "2026-01-03"})
    run(0.3, result=same | {"started": "2026-01-02"})
    run(0.4, status="failed", result=same | {"started": "2026-01-04"})
    other = run(0.5, seed=1)
    with pytest.warns(ReportWarning, match="3 of 5 runs repeat others"):
        frame = load(runs)
    assert sorted(frame[METRIC]) == [0.2, 0.5]
    assert str(other) in set(frame["folder"])


def test_single_fits_repeat_each_other_by_config_and_seed(run: Callable, runs: Path):
    for seed in (0, 0, 1):
        run(seed=seed, result={"identity": None, "config_sha256": "c"})
    with pytest.warns(ReportWarning, match="1 of 3 runs"):
        assert sorted(load(runs)["seed"]) == [0, 1]


def test_runs_of_several_versions_are_warned_of(run: Callable, runs: Path):
    run(seed=0)
    run(seed=1)
    run(seed=2, result={"packages": {"gnn-depth": "0.2.0"}})
    with pytest.warns(ReportWarning, match=r"0.1.0 \(2 runs\), 0.2.0 \(1 runs\)"):
        assert len(load(runs)) == 3


def test_curves_hold_every_epoch_that_has_the_metric(run: Callable, runs: Path):
    first, second, _ = run(seed=0), run(seed=1), run(seed=2)
    (first / "metrics.csv").write_text("epoch,step,train/loss,val/acc\n0,0,2.0,0.5\n1,1,nan,\n2,2,1.0,0.75\n")
    (second / "metrics.csv").write_text("epoch,step,val/acc\n0,0,0.25\n")
    frame = load(runs)
    assert curves(frame, "val/acc").values.tolist() == [[0, 0, 0.5], [0, 2, 0.75], [1, 0, 0.25]]
    losses = curves(frame, "train/loss")
    assert losses["epoch"].tolist() == [0, 1, 2]
    assert losses["value"].isna().tolist() == [False, True, False]
    assert curves(frame, "val/acc").join(frame["seed"], on="run")["seed"].tolist() == [0, 0, 1]


def test_a_row_that_was_cut_off_in_the_writing_is_no_epoch(run: Callable, runs: Path):
    (run() / "metrics.csv").write_text("epoch,step,val/acc\n0,0,0.5\n1,1,0.7")
    assert curves(load(runs), "val/acc")["value"].tolist() == [0.5]


@pytest.mark.parametrize("text", ["epoch,step,val/acc\n0,0,O.5\n", "step,val/acc\n0,0.5\n"])
def test_damaged_curves_are_skipped_with_a_warning_that_names_them(run: Callable, runs: Path, text: str):
    bad = run(seed=0) / "metrics.csv"
    bad.write_text(text)
    (run(seed=1) / "metrics.csv").write_text("epoch,step,val/acc\n0,0,0.5\n")
    with pytest.warns(ReportWarning, match=f"skipped '{bad}'"):
        assert curves(load(runs), "val/acc")["value"].tolist() == [0.5]


def test_a_metric_that_no_curve_has_is_answered_with_the_nearest(run: Callable, runs: Path):
    (run() / "metrics.csv").write_text("epoch,step,val/acc,val/loss\n0,0,0.5,1.0\n")
    with pytest.raises(ReportError, match=r"unknown metric 'val/ac'. Did you mean 'val/acc'"):
        curves(load(runs), "val/ac")


def test_a_clean_folder_is_read_without_warnings(run: Callable, runs: Path):
    run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(runs)
