"""Released code is run unchanged but for what is stated, and its numbers are kept run by run."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch_geometric.utils import to_undirected

from gnn_depth import DeepGNN
from gnn_depth.data import NodeBatch
from gnn_depth.graph import Graph
from gnn_depth.registry import as_written
from gnn_depth.sweeps.grid import read_grid
from tools.authors import __main__ as authors
from tools.authors import balance, gcnii, lipschitz, stand_ins
from tools.authors.curves import Curves
from tools.authors.released import Released, run_script
from tools.authors.same_function import compare
from tools.measured import FOLDER

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
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


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_the_stand_in_for_scatter_reduces_the_rows_of_every_group(reduce):
    src, index = torch.randn(20, 3), torch.randint(5, (20,))
    found = stand_ins.scatter(src, index, dim=0, dim_size=6, reduce=reduce)
    reductions = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
    for group in index.unique():
        torch.testing.assert_close(found[group], reductions[reduce](src[index == group], 0))
    assert not found[5].any()  # a group without rows


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


def test_a_script_runs_with_stand_ins_and_stated_changes_and_leaves_no_trace(clone, tmp_path):
    script = clone[0] / "train.py"
    before = (list(sys.path), list(sys.argv))
    found = run_script(script, ["--a", "1"], tmp_path, [('"cuda"', '"cpu"')], "b = 2")
    assert (found["device"], found["test"][1], found["words"]) == ("cpu", 0.625, ["--a", "1"])
    assert (found["b"], found["scatter"]) == (2, stand_ins.scatter)
    assert (sys.path, sys.argv) == before
    assert not {"helper", "torch_scatter"} & set(sys.modules)
    with pytest.raises(ValueError, match="has 2 places with 'scatter'"):
        run_script(script, [], tmp_path, [("scatter", "other")])
    assert "words" not in run_script(script, [], tmp_path, until="words = ")


def test_every_run_is_kept_when_it_ends_and_not_repeated(clone, tmp_path, monkeypatch):
    folder, released = clone
    monkeypatch.setenv("GNN_DEPTH_DATA", str(tmp_path))
    monkeypatch.setattr(gcnii, "RELEASED", released)
    seeds = []

    def run(folder, data, workdir, at, options, seed):
        seeds.append(seed)
        if seed == 2:
            raise KeyboardInterrupt
        return Curves([1.0], [0.5 + seed / 10])

    monkeypatch.setattr(gcnii, "run", run)
    cell = {"item": "gcnii", "folder": folder, "cell": ["data=Cora", "depth=8"]}

    def measure(*wanted, changed=()):
        given = cell | {"seeds": wanted, "set": changed, "results": tmp_path / "results"}
        return list(authors.measure(argparse.Namespace(**given)))

    with pytest.raises(KeyboardInterrupt):
        measure(0, 1, 2)
    measure(0, 1, 3)
    measure(0, changed=["layer=4"])  # another claim
    assert seeds == [0, 1, 2, 3, 0]
    content = json.loads((tmp_path / "results/gcnii.json").read_text())
    assert [claim["values"] for claim in content["claims"]] == [[50.0, 60.0, 80.0], [50.0]]
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


#: The option of the released code that stands for one of ours.
OPTIONS = {
    lipschitz: {"num_layers": "num_layers", "lr": "lr", "max_epochs": "nepoch"},
    balance: {
        "num_layers": "numLayers",
        "lr": "initialLR",
        "heads": "attnHeads",
        "activation": "activation",
        "weight_decay": "wghtDecay",
        "share_weights": "weightSharing",
    },
}
CELLS = {
    "lipschitz/table1": 18,
    "lipschitz/depth": 180,
    "balance/table2": 120,
    "balance/table3": 36,
    "balance/table4": 36,
    "balance/table6": 12,
}


@pytest.mark.parametrize("item", list(CELLS))
def test_the_released_code_gets_the_options_of_our_runs(item):
    code, common = authors.ITEMS[item]
    path = SWEEPS / f"{item.replace('/', '_')}.yaml"
    grid = read_grid(yaml.safe_load(path.read_text()), path.name)
    compared = 0
    for combination in grid.combinations():
        at = {axis: as_written(label) for axis, label in combination.labels.items()}
        try:
            theirs = code.settings(at | common)
        except ValueError:
            continue
        compared += 1
        for name, value in options_of(combination).items():
            if name in OPTIONS[code]:
                assert as_number(theirs[OPTIONS[code][name]]) == as_number(value), (at, name)
    assert compared == CELLS[item]


def options_of(combination):
    """The options of a run by the last part of their names, with the learning rate of its file."""
    found = {}
    for settings in combination.settings:
        if "config" in settings:
            model = yaml.safe_load((SWEEPS / settings["config"]).read_text())["model"]
            found.setdefault("lr", model["optimizer"]["init_args"]["lr"])
        found |= {option.rpartition(".")[2]: value for option, value in settings.items()}
    return found


def as_number(value):
    try:
        return float(value)
    except ValueError:
        return value


def test_cells_that_the_released_code_does_not_train_are_refused():
    for layer, norm in (("GT", "layer"), ("GCN", "none")):
        at = {"data": "Cora", "layer": layer, "norm": norm, "depth": "2"}
        with pytest.raises(ValueError, match="the released code has GAT, GT"):
            lipschitz.settings(at)
    with pytest.raises(ValueError, match="'LipschitzNorm' is not trained by this code: Xav, "):
        balance.settings({"data": "Cora", "depth": "2", "method": "LipschitzNorm"})
    with pytest.raises(ValueError, match="no rate of Adam for 40 layers on CiteSeer"):
        balance.settings({"data": "CiteSeer", "depth": "40", "init": "BalO", "optimizer": "Adam"})


def test_both_schedules_of_lipschitznorm_follow_the_missing_features():
    table = {"method": "GAT-Lip", "data": "PubMed"}
    patience = [lipschitz.settings(table | {"missing": m})["lr_patience"] for m in ("0%", "100%")]
    assert patience == [50, 0]


BALANCE_SCRIPT = """
import pandas, torch
from pathlib import Path

rows = pandas.read_csv("TABLE", index_col="expId").to_dict()
ROWS
RUNS
recordAlphas = False
asked = dict(getAttnCoef=False)
known = Path("READ").exists()
assert asked["getAttnCoef"] and recordAlphas and known
valAcc = torch.tensor([0.25, 0.5, 0.5])
testAcc = torch.tensor([runIDs[0] / 10, rows["initialLR"][expIDs[0]], 0.0])
Path("RESULTS/kept").touch()
"""


@pytest.mark.parametrize(
    ("name", "script", "read"),
    [
        ("Texas", balance.HETEROPHILOUS_SCRIPT, "hetExp/data/Texas.npz"),
        ("CiteSeer", balance.PLANETOID_SCRIPT, "data/Planetoid/CiteSeer/raw"),
    ],
)
def test_the_script_of_balance_finds_its_row_its_seed_and_its_data(tmp_path, name, script, read):
    data, clone, workdir = (tmp_path / folder for folder in ("data", "clone", "work"))
    (data / "heterophilous").mkdir(parents=True)
    (data / "heterophilous" / "texas.npz").touch()
    (data / "CiteSeer" / "raw").mkdir(parents=True)
    workdir.mkdir()
    text = BALANCE_SCRIPT
    words = {"TABLE": script.table, "READ": read, "RESULTS": script.results}
    for word, value in (words | {"ROWS": script.rows, "RUNS": script.runs}).items():
        text = text.replace(word, value)
    (clone / script.path).parent.mkdir(parents=True)
    (clone / script.path).write_text(text)
    at = {"data": name, "depth": "10", "init": "BalO"}
    curves = balance.run(clone, data, workdir, at, balance.settings(at), seed=7)
    assert list(curves.test) == pytest.approx([0.7, 0.01 if name == "Texas" else 0.05, 0.0])
    assert (workdir / script.results / "kept").exists()


class Theirs(torch.nn.Module):
    """A layer of a GCN as a dense product, written without our code."""

    def __init__(self, adjacency):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(5, 3, dtype=torch.float64))
        self.adjacency = adjacency

    def forward(self, x):
        return self.adjacency @ x @ self.weight


def test_equal_weights_give_equal_outputs_and_gradients_in_equal_networks_only():
    nodes = 9
    children = torch.arange(1, nodes)
    one_way = torch.stack([children, children // 2])  # a tree, whose nodes differ in degree
    graph = Graph(to_undirected(one_way, num_nodes=nodes), nodes)
    adjacency = torch.eye(nodes, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    degrees = adjacency.sum(1)
    x = torch.randn(nodes, 5, dtype=torch.float64)
    mask = torch.ones(nodes, dtype=torch.bool)
    batch = NodeBatch(x, torch.arange(nodes) % 3, graph, mask, ~mask, ~mask)
    pairs = {"blocks.0.layer.lin.weight": ("weight", torch.t)}
    layer = {"name": "gcn", "bias": False}
    ours = DeepGNN(5, 3, layer, 1, encoder="none", decoder="none").double()
    same = Theirs(adjacency / (degrees[:, None] * degrees[None]).sqrt())
    assert max(compare(same, lambda one: one(x), ours, pairs, batch)) < 1e-12
    other = Theirs(adjacency / degrees[:, None])
    ours.zero_grad()
    assert min(compare(other, lambda one: one(x), ours, pairs, batch)) > 1e-3
