"""The configs, grids and items of the LipschitzNorm paper say what the paper says."""

from pathlib import Path

import pytest
import yaml

from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver, line_of
from gnn_depth.cli.sweep import load_grid

FOLDER = Path(__file__).parent.parent / "configs"
DATA = ("Cora", "CiteSeer", "PubMed")
# The slides: the best depth of each method with 0% and with 100% missing features, for each data
# set.
DEPTHS = {
    "GCN": ((2, 2), (2, 2), (2, 2)),
    "GGNN": ((2, 6), (3, 5), (4, 4)),
    "GAT": ((2, 4), (2, 4), (6, 4)),
    "GAT-Pn": ((4, 12), (4, 10), (8, 12)),
    "GAT-Lip": ((5, 11), (3, 9), (5, 15)),
}
# What the methods' names say, of the GAT or the Graph Transformer that they are made of.
NORMS = {
    "gat_lip": {"norm": "lipschitz", "num_layers": 5},
    "gat_pn": {"norm": "pair", "norm_after_skip": True, "num_layers": 4},
    "gt_lip": {"norm": "lipschitz"},
    "gt_ln": {"norm": "layer"},
    "gt_pn": {"norm": "pair", "norm_after_skip": True},
    "gt_lip_ln": {"norm": ["lipschitz", "layer"]},
}


def config(name):
    return yaml.safe_load((FOLDER / "lipschitz" / f"{name}.yaml").read_text())


def resolved(name, **values):
    """Labels and resolved config of every combination of a grid, or of some values of its axes."""
    path, resolver = FOLDER / "sweeps" / f"lipschitz_{name}.yaml", Resolver([])
    grid = load_grid(str(path)).subset(values)
    for combination in grid.combinations():
        line = line_of(combination, grid.base, path.parent, read_arguments([]))
        yield combination.labels, resolver.resolve(line)


@pytest.mark.parametrize("name", NORMS)
def test_a_normed_model_is_the_plain_one_with_its_norm(name):
    plain, normed = config(name.partition("_")[0]), config(name)
    assert plain["model"] | NORMS[name] == normed["model"]
    assert (plain["data"], plain["trainer"]) == (normed["data"], normed["trainer"])


def test_the_graph_transformer_is_trained_as_the_gat_is():
    gat, gt = config("gat"), config("gt")
    layer = gat["model"]["layer"] | {"name": "transformer"}
    assert gat["model"] | {"layer": layer, "dropout": 0.5} == gt["model"]
    assert (gat["data"], gat["trainer"]) == (gt["data"], gt["trainer"])


def test_every_cell_of_the_table_has_its_data_and_the_depth_that_the_paper_gives_it():
    cells = list(resolved("table1"))
    assert len(cells) == 30
    for labels, found in cells:
        method, data, missing = labels["method"], labels["data"], labels["missing"]
        source = found["data"]["init_args"]["source"]["init_args"]
        assert (source["name"], source["normalize_features"]) == (data, False)
        assert found["data"]["init_args"]["rate"] == (missing == "100%")
        assert found["model"]["num_layers"] == DEPTHS[method][DATA.index(data)][missing == "100%"]
