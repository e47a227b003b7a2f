"""Released code is run unchanged but for what is stated, and its numbers are kept run by run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch_geometric.utils import scatter, to_undirected

from gnn_depth import DeepGNN, Graph
from gnn_depth.data import NodeBatch
from gnn_depth.registry import as_written
from gnn_depth.sweeps.grid import read_grid
from tools.authors import __main__ as authors
from tools.authors import balance, gcnii, lipschitz
from tools.authors.released import Released, from_curves, run_script
from tools.authors.same_function import compare

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
SCRIPT = """
import helper
from torch_scatter import scatter
import torch, sys

device = "cuda"
number = helper.NUMBER
words = sys.argv[1:]
print("a line for each epoch")
"""


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


def test_a_clone_of_another_commit_or_with_changed_code_is_refused(clone):
    folder, released = clone
    released.check(folder)
    with pytest.raises(ValueError, match="checkout 0123"):
        Released("owner/name", "0123", "A 2020").check(folder)
    (folder / "helper.py").write_text("NUMBER = 0.75\n")
    with pytest.raises(ValueError, match="differs from its commit"):
        released.check(folder)


def test_a_script_runs_with_stand_ins_and_stated_changes_and_leaves_no_trace(clone, tmp_path):
    folder, name = clone[0], "train.py"
    before = (list(sys.path), list(sys.argv))
    found = run_script(folder, name, tmp_path, ["--a"], [('"cuda"', '"cpu"')], "b = 2")
    assert (found["device"], found["number"], found["words"]) == ("cpu", 0.625, ["--a"])
    assert (found["b"], found["scatter"]) == (2, scatter)
    assert (sys.path, sys.argv) == before
    assert not {"helper", "torch_scatter"} & set(sys.modules)
    with pytest.raises(ValueError, match="has 2 places with 'scatter'"):
        run_script(folder, name, tmp_path, changes=[("scatter", "other")])
    assert "words" not in run_script(folder, name, tmp_path, until="words = ")


def test_every_run_is_kept_when_it_ends_and_not_repeated(clone, tmp_path, monkeypatch):
    folder, released = clone
    monkeypatch.setattr(authors, "RESULTS", tmp_path)
    monkeypatch.setattr(gcnii, "RELEASED", released)
    seeds = []

    def run(training):
        seeds.append(training.seed)
        if training.seed == 2:
            raise KeyboardInterrupt
        return from_curves([0.5, 1.0, 1.0], [0.0, 0.5 + training.seed / 10, 0.9])

    monkeypatch.setattr(gcnii, "run", run)

    def measure(*more):
        authors.main(["gcnii", str(folder), "--cell", "data=Cora", "depth=8", *more])

    with pytest.raises(KeyboardInterrupt):
        measure("--seeds", "0", "1", "2")
    measure("--seeds", "0", "1", "3")
    measure("--set", "layer=4")  # another claim
    assert seeds == [0, 1, 2, 3, 0]
    claims = json.loads((tmp_path / "gcnii.json").read_text())["claims"]
    assert [claim["values"] for claim in claims] == [[50.0, 60.0, 80.0], [50.0]]
    assert (claims[0]["best_epochs"], claims[0]["largest"]) == ([2, 2, 2], [90.0, 90.0, 90.0])
    with pytest.raises(SystemExit):
        measure("--set", "layers=4")


RESULTS = sorted(authors.RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_kept_numbers_are_of_the_stated_commit_and_one_for_each_seed(path):
    content = json.loads(path.read_text())
    code, _ = authors.ITEMS[content["item"]]
    assert (content["repository"], content["commit"]) == (code.RELEASED.name, code.RELEASED.commit)
    for claim in content["claims"]:
        assert len(set(claim["seeds"])) == len(claim["seeds"]) > 0
        for key in authors.PER_RUN:
            assert len(claim[key]) == len(claim["seeds"])


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
#: Cells of a grid that the released code trains; it refuses the others.
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
    names = {"blocks.0.layer.lin.weight": "weight"}
    layer = {"name": "gcn", "bias": False}
    ours = DeepGNN(5, 3, layer, 1, encoder="none", decoder="none")
    same = Theirs(adjacency / (degrees[:, None] * degrees[None]).sqrt())
    assert max(compare(same, [x], ours, names, batch, names)) < 1e-12
    other = Theirs(adjacency / degrees[:, None])
    ours.zero_grad()
    assert min(compare(other, [x], ours, names, batch, names)) > 1e-3
