"""Released code is run unchanged but for what is stated, and its numbers are kept run by run."""

import argparse
import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.authors import __main__ as authors
from tools.authors import balance, gcnii, lipschitz, stand_ins, trees
from tools.authors.curves import Curves
from tools.authors.released import Released, run_script
from tools.measured import FOLDER

SCRIPT = """
import helper
from torch_scatter import scatter
import torch, sys

device = "cuda"
val = [0.5, 0.75, 0.75]
test = [0.1, helper.NUMBER, 0.9]
words = sys.argv[1:]
print("a line for each epoch")
"""


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["sum", "mean", "max", "min"]))
def test_the_stand_in_for_scatter_reduces_the_rows_of_every_group(seed, reduce):
    draw = torch.Generator().manual_seed(seed)
    src = torch.randn(7, 3, dtype=torch.float64, generator=draw, requires_grad=True)
    index = torch.randint(5, (7,), generator=draw)
    found = stand_ins.scatter(src, index, dim=0, dim_size=6, reduce=reduce)
    rows = []
    for group in range(6):
        members = src[index == group]
        if len(members) == 0:
            rows.append(torch.zeros(3, dtype=torch.float64))
        elif reduce in ("sum", "mean"):
            rows.append(getattr(members, reduce)(0))
        else:
            rows.append(getattr(members, reduce)(0).values)
    expected = torch.stack(rows)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(6, 3, dtype=torch.float64, generator=draw)
    gradients = [torch.autograd.grad((out * weights).sum(), src)[0] for out in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_without_a_size_there_are_as_many_groups_as_the_largest_index_says():
    assert stand_ins.scatter(torch.ones(3), torch.tensor([0, 4, 4])).tolist() == [1, 0, 0, 0, 2]


@pytest.fixture
def clone(tmp_path):
    """A repository with a script and a module beside it, and what is known of it."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("NUMBER = 0.625\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return folder, Released("owner/name", done.stdout.strip(), "A 2020")


def test_a_clone_of_another_commit_or_with_changed_code_is_refused(clone, tmp_path):
    folder, released = clone
    released.check(folder)
    with pytest.raises(ValueError, match="checkout 0123"):
        Released("owner/name", "0123", "A 2020").check(folder)
    with pytest.raises(ValueError, match="at commit none"):
        released.check(tmp_path)
    (folder / "notes.txt").write_text("a file that is not code")
    released.check(folder)
    (folder / "helper.py").write_text("NUMBER = 0.75\n")
    with pytest.raises(ValueError, match="differs from its commit"):
        released.check(folder)


def test_a_script_runs_with_stand_ins_and_stated_changes_and_leaves_no_trace(
    clone, tmp_path, capsys
):
    folder, _ = clone
    before = (list(sys.path), list(sys.argv), set(sys.modules))
    found = run_script(folder / "train.py", ["--a", "1"], tmp_path, [('"cuda"', '"cpu"')], "b = 2")
    assert (found["device"], found["test"][1], found["words"]) == ("cpu", 0.625, ["--a", "1"])
    assert found["b"] == 2
    assert found["scatter"] is stand_ins.scatter
    assert (sys.path, sys.argv) == before[:2]
    assert not {"helper", "torch_scatter"} & set(sys.modules)
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="has 2 places with 'scatter'"):
        run_script(folder / "train.py", [], tmp_path, [("scatter", "other")])


def test_the_best_epoch_is_the_first_with_the_best_validation_accuracy():
    found = Curves([0.5, 0.75, 0.75, 0.6], [0.1, 0.625, 0.9, 0.4]).numbers()
    assert found == {"values": 62.5, "last": 40.0, "largest": 90.0, "best_epochs": 2, "epochs": 4}


def test_every_run_is_kept_when_it_ends_and_not_repeated(clone, tmp_path, monkeypatch):
    folder, released = clone
    monkeypatch.setenv("GNN_DEPTH_DATA", str(tmp_path))
    monkeypatch.setattr(gcnii, "RELEASED", released)
    seeds = []

    def run(folder, data, workdir, at, options, seed):
        seeds.append((seed, options["layer"]))
        if seed == 2:
            raise KeyboardInterrupt
        return Curves([1.0], [0.5 + seed / 10])

    monkeypatch.setattr(gcnii, "run", run)

    def measure(*wanted, changed=()):
        return list(
            authors.measure(
                argparse.Namespace(
                    item="gcnii",
                    folder=folder,
                    cell=["data=Cora", "depth=8"],
                    seeds=list(wanted),
                    set=list(changed),
                    results=tmp_path / "results",
                )
            )
        )

    with pytest.raises(KeyboardInterrupt):
        measure(0, 1, 2)
    assert len(measure(0, 1, 3)) == 1
    measure(0, changed=["layer=4"])
    assert seeds == [(0, "8"), (1, "8"), (2, "8"), (3, "8"), (0, 4)]
    content = json.loads((tmp_path / "results/gcnii.json").read_text())
    assert [claim["values"] for claim in content["claims"]] == [[50.0, 60.0, 80.0], [50.0]]
    assert content["commit"] == released.commit
    with pytest.raises(ValueError, match="'layers' is no option here"):
        measure(0, changed=["layers=4"])


def test_cells_that_the_released_code_does_not_have_are_refused():
    with pytest.raises(ValueError, match="not 'GGNN'"):
        lipschitz.settings({"method": "GGNN", "data": "Cora", "missing": "0%"})
    with pytest.raises(ValueError, match="not 'pair'"):
        trees.settings({"method": "GAT", "depth": "3", "norm": "pair"})


@pytest.mark.parametrize("path", sorted((FOLDER / "authors").glob("*.json")), ids=lambda p: p.stem)
def test_kept_numbers_are_of_the_stated_commit_and_one_for_each_seed(path):
    content = json.loads(path.read_text())
    code, _ = authors.ITEMS[content["item"]]
    assert (content["repository"], content["commit"]) == (code.RELEASED.name, code.RELEASED.commit)
    for claim in content["claims"]:
        assert len(set(claim["seeds"])) == len(claim["seeds"]) > 0
        for key in authors.PER_RUN:
            assert len(claim[key]) == len(claim["seeds"])
        for largest, best in zip(claim["largest"], claim["values"], strict=True):
            assert largest >= best


def test_the_settings_of_a_balanced_cell_are_a_row_of_the_authors_table():
    at = {"variation": "8 heads", "depth": "10", "init": "BalO", "optimizer": "Adam"}
    row = balance.settings(at)
    assert (row["attnHeads"], row["initialLR"], row["optimizer"]) == (8, 0.0005, "Adam")
    assert (row["initScheme"], row["scalHP"]) == ("LLortho", "2|0|1")
