"""Released code is run unchanged but for what is stated, and its numbers are kept run by run."""

import argparse
import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth import DeepGNN
from gnn_depth.data import NodeBatch
from gnn_depth.data.base import coalesce
from gnn_depth.graph import Graph
from tools.authors import __main__ as authors
from tools.authors import gcnii, stand_ins
from tools.authors.curves import Curves
from tools.authors.released import Released, run_script
from tools.authors.same_function import compare
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
    assert "words" not in run_script(folder / "train.py", [], tmp_path, until="words = ")


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
            assert largest is None or largest >= best


class Theirs(torch.nn.Module):
    """Two layers of a GCN as a dense product, written without our code."""

    def __init__(self, adjacency):
        super().__init__()
        self.first = torch.nn.Parameter(torch.empty(5, 8, dtype=torch.float64))
        self.second = torch.nn.Parameter(torch.empty(8, 3, dtype=torch.float64))
        self.adjacency = adjacency

    def forward(self, x):
        hidden = (self.adjacency @ x @ self.first).relu()
        return self.adjacency @ hidden @ self.second


def test_equal_weights_give_equal_outputs_and_gradients_in_equal_networks_only():
    nodes = 9
    ring = torch.arange(nodes)
    one_way = torch.stack([ring, (ring * 2 + 1) % nodes])
    graph = Graph(coalesce(one_way, nodes, undirected=True), nodes)
    adjacency = torch.eye(nodes, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    degrees = adjacency.sum(1)
    adjacency = adjacency / (degrees[:, None] * degrees[None]).sqrt()
    x = torch.randn(nodes, 5, dtype=torch.float64)
    mask = torch.ones(nodes, dtype=torch.bool)
    batch = NodeBatch(x, torch.arange(nodes) % 3, graph, mask, ~mask, ~mask)
    pairs = {}
    for number, name in enumerate(("first", "second")):
        pairs[f"blocks.{number}.layer.lin.weight"] = (name, lambda weight: weight.T)
    found = []
    for activation in ("relu", "elu"):
        ours = DeepGNN(
            5,
            3,
            {"name": "gcn", "bias": False},
            hidden_channels=8,
            activation=activation,
            encoder="none",
            decoder="none",
        ).double()
        theirs = Theirs(adjacency)
        found.append(compare(theirs, lambda one: one(x), ours, pairs, batch))
    assert max(found[0]) < 1e-12
    assert min(found[1]) > 1e-3
