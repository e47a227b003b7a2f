"""Claims as data: the page follows from the files, and every claim can be run again."""

import json

import pytest

from gnn_depth.cli.reproduce import load_item
from gnn_depth.cli.sweep import load_grid
from tools import measured
from tools.measured import PAGE, ROOT, Claim, load, page, save, take

STATED = load()
AT = {"data": "Cora", "depth": 2}


@pytest.mark.parametrize("path", measured.PAGES, ids=lambda path: path.name)
def test_a_page_is_what_the_results_give(path):
    text = path.read_text(encoding="utf-8")
    assert page(text, STATED) == text  # else run python -m tools.measured
    shown = {match[2] for match in measured.BLOCK.finditer(text)}
    if path == PAGE:
        stated = {results.path.stem for results in STATED}
        assert shown == {"counts", "authors", "papers", *stated}
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


def made(folder, *claims):
    folder.mkdir()
    save(folder / "made.json", {"rows": ["depth"], "spread": "std", "claims": claims})


@pytest.mark.parametrize("theirs", [80.1, 80.2])
def test_means_that_differ_by_no_more_than_one_node_are_equal(theirs):
    ours = Claim({"at": {}, "values": [80, 80]}, "std")
    authors = measured.Authors("A", "x", {"at": {}, "values": [theirs] * 2}, ours, None)
    assert (authors.verdict == "as the authors' code") == (theirs == 80.1)


def finished(folder, *runs, options=()):
    """Results of finished runs: a seed and a metric each."""
    for seed, value in runs:
        (folder / f"seed_{seed}").mkdir(parents=True)
        command = ["gnn-depth", "sweep", "made.yaml", "--seeds", "2", *options, "--root", "runs"]
        result = {"status": "finished", "sweep": "made", "axes": AT, "seed": seed}
        result |= {"git": {"commit": "0123456789"}, "command": command}
        result["metrics"] = {"test_acc_at_best_val": value}
        (folder / f"seed_{seed}/result.json").write_text(json.dumps(result))


def test_finished_runs_take_the_place_of_an_older_claim_unless_it_has_more_seeds(tmp_path):
    made(tmp_path / "results", {"at": AT, "mean": 80.5, "commit": "old"})
    finished(tmp_path / "runs", (1, 0.79), (0, 0.81))
    assert list(take(tmp_path / "runs", tmp_path / "results")) == ["made.json: Cora, 2: 80.0 ± 1.4"]
    (claim,) = load(tmp_path / "results")[0].claims
    assert claim.data == {"at": AT, "values": [81.0, 79.0], "seeds": [0, 1], "commit": "0123456"}
    finished(tmp_path / "one", (0, 0.7))
    assert not list(take(tmp_path / "one", tmp_path / "results"))
    assert load(tmp_path / "results")[0].claims[0].values == [0.81, 0.79]


@pytest.mark.parametrize("first", ["short", "whole"])
def test_runs_of_fewer_epochs_do_not_mix_with_whole_ones_nor_take_their_place(tmp_path, first):
    finished(tmp_path / "short", (0, 0.5), options=["--trainer.max_epochs", "60"])
    finished(tmp_path / "whole", (0, 0.8))
    made(tmp_path / "results")
    for folder in (first, "whole", "short"):
        list(take(tmp_path / folder, tmp_path / "results"))
    (claim,) = load(tmp_path / "results")[0].claims
    assert (claim.values, claim.shorter) == ([0.8], [])
