"""Claims as data: the page follows from the files, and every claim can be run again."""

import json
import random
import statistics

import pandas as pd
import pytest

from gnn_depth.cli.reproduce import load_item
from gnn_depth.cli.sweep import load_grid
from gnn_depth.reports.published import PublishedNumber, agreement_of
from gnn_depth.reports.table import Cell
from tools import measured, verify_numbers
from tools.measured import PAGE, ROOT, Claim, load, page, save, take

STATED = load()
OF_A = {"source": "A 2020, table 1", "interval": "std", "over": "depth"}
PUBLISHED = [OF_A | {"values": {"2": "80 +- 1"}}]


@pytest.mark.parametrize("path", measured.PAGES, ids=lambda path: path.name)
def test_a_page_is_what_the_results_give(path):
    text = path.read_text(encoding="utf-8")
    assert page(text, STATED) == text, "run python -m tools.measured"
    shown = {match[2] for match in measured.BLOCK.finditer(text)}
    if path == PAGE:
        stated = {results.path.stem for results in STATED}
        assert shown == {"counts", "authors", "variations", "papers", *stated}
    else:
        assert shown == {"papers"}


@pytest.mark.parametrize("results", STATED, ids=[results.path.stem for results in STATED])
def test_every_claim_is_of_one_combination_and_has_a_commit_and_a_value_for_each_seed(results):
    assert len({json.dumps(claim.at) for claim in results.claims}) == len(results.claims)
    for claim in results.claims:
        assert claim.data["commit"]
        assert not claim.values or len(claim.data["seeds"]) == len(claim.values)
    if "config" in results.head:
        assert (ROOT / "configs" / results.head["config"]).is_file()
        return
    grid = load_grid(str(load_item(results.head["item"]).grid), True)
    for claim in results.claims:
        axes = {axis: [value] for axis, value in claim.at.items()}
        assert len(list(grid.subset(axes).combinations())) == 1


@pytest.mark.parametrize("spread", ["std", "ci"])
def test_a_claim_is_compared_as_a_cell_of_the_same_runs(spread):
    values = [81.0, 79.5, 80.1, 82.2, 80.4]
    runs = pd.DataFrame({"status": "finished", "acc": [value / 100 for value in values]})
    cell = Cell(runs, "acc")
    half_width = cell.half_width(spread)
    assert Claim({"values": values}, "std").half_width(spread) == pytest.approx(half_width)
    stated = Claim({"mean": 100 * cell.mean, "spread": 100 * half_width, "n": 5}, spread)
    for other in ("std", "ci"):
        assert stated.half_width(other) == pytest.approx(cell.half_width(other))
    for number in (PublishedNumber(0.8), PublishedNumber(0.825, 0.01), PublishedNumber(0.9, 0.01)):
        assert agreement_of(stated, number, "std", 5) == agreement_of(cell, number, "std", 5)


def made(folder, claims, **head):
    folder.mkdir(exist_ok=True)
    own = {"config": "gcn_2.yaml", "rows": ["depth"], "columns": ["data"], "spread": "std"}
    save(folder / "made.json", own | head | {"claims": claims})
    return load(folder)[0]


def test_a_cell_counts_once_for_the_first_source_and_the_first_file(tmp_path):
    at = {"data": "Cora", "depth": 2}
    other = {"source": "B 2021, replication", "over": "depth", "values": {"2": 60}}
    claim = {"at": at, "mean": 80.5, "spread": 1, "n": 3, "commit": "abc"}
    results = made(tmp_path / "a", [claim], published=[*PUBLISHED, other], item="x")
    repeated = made(tmp_path / "b", [claim | {"mean": 50}], published=PUBLISHED, item="x")
    same_runs = made(tmp_path / "c", [claim], published=PUBLISHED, item="y")
    found = measured.counted([results, repeated, same_runs])
    assert found == {("A 2020", "x"): {"inside": 1}}


def ours_and_theirs(ours, theirs):
    def claim(values):
        return Claim({"at": {}, "values": values}, "std")

    return measured.Authors("A", "x", claim(theirs).data, claim(ours), None)


def test_the_noise_of_two_means_is_the_interval_of_the_two_sample_t_test():
    from scipy.stats import ttest_ind

    draw = random.Random(0)
    for _ in range(50):
        ours = [draw.gauss(80, 1) for _ in range(draw.choice([2, 3, 5]))]
        theirs = [draw.gauss(81, 1) for _ in range(draw.choice([2, 3]))]
        is_same = ours_and_theirs(ours, theirs).verdict == "as the authors' code"
        assert is_same == (ttest_ind(ours, theirs).pvalue >= 0.05)


def test_a_short_training_is_compared_only_with_one_as_short():
    ours = Claim({"at": {}, "values": [80, 81], "options": ["--trainer.max_steps", "9"]}, "std")
    theirs = {"at": {}, "values": [80, 82]}
    whole = measured.Authors("A", "x", theirs, ours, None)
    assert whole.verdict == measured.SHORT
    as_short = measured.Authors("A", "x", theirs | {"stopped": "as ours"}, ours, None)
    assert as_short.verdict == "as the authors' code"


def test_a_training_of_theirs_cut_off_while_it_learned_is_not_compared():
    ours, nepoch = Claim({"at": {}, "values": [80, 81]}, "std"), {"nepoch": 100}
    for changed, best, verdict in (
        (nepoch, 95, measured.SHORT),
        (nepoch, 40, "as the authors' code"),
        ({}, 95, "as the authors' code"),
    ):
        theirs = {"at": {}, "values": [80], "changed": changed}
        theirs |= {"best_epochs": [best], "epochs": [100]}
        assert measured.Authors("A", "x", theirs, ours, None).verdict == verdict


def finished(folder, at, *runs, options=()):
    """Results of finished runs: a seed and a metric each."""
    for seed, value in runs:
        (folder / f"seed_{seed}").mkdir(parents=True)
        command = ["gnn-depth", "sweep", "made.yaml", "--seeds", "2", *options, "--root", "runs"]
        result = {"status": "finished", "sweep": "made", "axes": at, "seed": seed}
        result |= {"git": {"commit": "0123456789"}, "command": command, "seconds": 3.0}
        result["metrics"] = {"test_acc_at_best_val": value}
        (folder / f"seed_{seed}/result.json").write_text(json.dumps(result))


def test_finished_runs_take_the_place_of_an_older_claim_unless_it_has_more_seeds(tmp_path):
    at = {"data": "Cora", "depth": 2}
    made(tmp_path / "results", [{"at": at, "mean": 80.5, "commit": "old", "stale": True}])
    finished(tmp_path / "runs", at, (1, 0.79), (0, 0.81))
    assert list(take(tmp_path / "runs", tmp_path / "results")) == ["made.json: Cora, 2: 80.0 ± 1.4"]
    (claim,) = load(tmp_path / "results")[0].claims
    assert claim.data == {
        "at": at,
        "values": [81.0, 79.0],
        "seeds": [0, 1],
        "commit": "0123456",
        "seconds": 3,
    }
    finished(tmp_path / "one", at, (0, 0.7))
    assert not list(take(tmp_path / "one", tmp_path / "results"))
    assert load(tmp_path / "results")[0].claims[0].values == [0.81, 0.79]


def test_options_that_change_the_config_are_part_of_a_claim_but_no_absolute_path(
    tmp_path, monkeypatch
):
    at = {"data": "PubMed", "depth": 2}
    options = ["--trainer.max_epochs=60", "--data.root", str(tmp_path / "PubMed")]
    finished(tmp_path / "runs", at, (0, 0.5), options=[*options, "--run.root", "runs"])
    made(tmp_path / "results", [])
    monkeypatch.delenv("GNN_DEPTH_DATA", raising=False)
    (line,) = take(tmp_path / "runs", tmp_path / "results")
    assert line.endswith("is not below the folder GNN_DEPTH_DATA")
    assert not load(tmp_path / "results")[0].claims
    monkeypatch.setenv("GNN_DEPTH_DATA", str(tmp_path))
    assert list(take(tmp_path / "runs", tmp_path / "results"))
    (claim,) = load(tmp_path / "results")[0].claims
    kept = ["--trainer.max_epochs", "60", "--data.root", "$GNN_DEPTH_DATA/PubMed"]
    assert claim.data["options"] == kept


@pytest.mark.parametrize("first", ["short", "whole"])
def test_runs_of_fewer_epochs_do_not_mix_with_whole_ones_nor_take_their_place(tmp_path, first):
    at = {"data": "Cora", "depth": 2}
    finished(tmp_path / "short", at, (0, 0.5), options=["--trainer.max_epochs", "60"])
    finished(tmp_path / "whole", at, (0, 0.8))
    made(tmp_path / "results", [])
    for folder in (first, "whole", "short"):
        list(take(tmp_path / folder, tmp_path / "results"))
    (claim,) = load(tmp_path / "results")[0].claims
    assert (claim.values, claim.shorter()) == ([0.8], [])
    made(tmp_path / "both", [])
    list(take(tmp_path, tmp_path / "both"))
    assert load(tmp_path / "both")[0].claims[0].values == [0.8]


def test_a_rerun_passes_if_it_is_equal_or_within_the_interval_of_one_more_run():
    claim = Claim({"values": [70.0, 80.0, 80.5, 81.0, 81.5, 79.5]}, "std")
    width = verify_numbers.half_width(claim)
    assert width > statistics.stdev(claim.values)
    assert verify_numbers.passes(claim, 0.70)
    assert verify_numbers.passes(claim, claim.mean - 0.99 * width)
    assert not verify_numbers.passes(claim, claim.mean - 1.01 * width)
    single = Claim({"mean": 80.0}, "std")
    assert verify_numbers.passes(single, 0.8099)
    assert not verify_numbers.passes(single, 0.82)


def test_verdicts_stand_in_the_table_and_runs_that_ended_early_are_counted_apart(tmp_path):
    claims = []
    for name, value, options in (("Cora", 80.5, []), ("CiteSeer", 70, []), ("PubMed", 80, ["9"])):
        steps = [word for number in options for word in ("--trainer.max_steps", number)]
        at = {"data": name, "depth": 2}
        claims.append({"at": at, "mean": value, "commit": "abc", "options": steps})
    results = made(tmp_path, claims, published=PUBLISHED)
    row = "| 2 | 80.5 (80.0 ± 1.0 inside) | 70.0 (80.0 ± 1.0 outside) | 80.0 (9 steps; 80.0 ± 1.0"
    assert row in results.table()
    assert "| A 2020 | made | 1 | 0 | 1 | 0 | 1 |" in measured.counts([results])
