"""Released code is run unchanged but for what is stated, and its numbers are kept run by run."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from torch_geometric.utils import to_undirected

from gnn_depth import DeepGNN, Graph
from gnn_depth.data import NodeBatch
from gnn_depth.registry import as_written
from gnn_depth.sweeps.grid import read_grid
from tools.authors import __main__ as authors
from tools.authors import balance, gcnii, lipschitz
from tools.authors.released import Released, from_curves
from tools.authors.same_function import compare

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"


def test_every_run_is_kept_when_it_ends_and_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(authors, "RESULTS", tmp_path)
    monkeypatch.setattr(Released, "check", lambda self, folder: None)
    seeds = []

    def run(training):
        seeds.append(training.seed)
        if training.seed == 2:
            raise KeyboardInterrupt
        return from_curves([0.5, 1.0, 1.0], [0.0, 0.5 + training.seed / 10, 0.9])

    monkeypatch.setattr(gcnii, "run", run)

    def measure(*more):
        authors.main(["gcnii", str(tmp_path), "--cell", "data=Cora", "depth=8", *more])

    with pytest.raises(KeyboardInterrupt):
        measure("--seeds", "0", "2")
    measure("--seeds", "0", "3")
    measure("--set", "layer=4")  # another claim
    assert seeds == [0, 2, 3, 0]
    claims = json.loads((tmp_path / "gcnii.json").read_text())["claims"]
    assert [claim["values"] for claim in claims] == [[50.0, 80.0], [50.0]]
    assert (claims[0]["best_epochs"], claims[0]["largest"]) == ([2, 2], [90.0, 90.0])


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
    children = torch.arange(1, 9)
    one_way = torch.stack([children, children // 2])  # a tree, whose nodes differ in degree
    graph = Graph(to_undirected(one_way, num_nodes=9), 9)
    adjacency = torch.eye(9, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    degrees, x = adjacency.sum(1), torch.randn(9, 5, dtype=torch.float64)
    mask = torch.ones(9, dtype=torch.bool)
    batch = NodeBatch(x, torch.arange(9) % 3, graph, mask, ~mask, ~mask)
    names = {"blocks.0.layer.lin.weight": "weight"}
    layer = {"name": "gcn", "bias": False}
    ours = DeepGNN(5, 3, layer, 1, encoder="none", decoder="none")
    same = Theirs(adjacency / (degrees[:, None] * degrees[None]).sqrt())
    assert max(compare(same, [x], ours, names, batch, names)) < 1e-12
    ours.zero_grad()
    other = Theirs(adjacency / degrees[:, None])
    assert min(compare(other, [x], ours, names, batch, names)) > 1e-3
