"""Every shipped config trains, on a tiny graph."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

from gnn_depth.cli import main, reproduce
from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver, line_of
from gnn_depth.cli.sweep import load_grid
from gnn_depth.registry import as_written
from gnn_depth.reports.figures import check_options
from gnn_depth.reports.published import parse_published

FOLDER = Path(__file__).parent.parent / "configs"
GRIDS, ITEMS = (sorted((FOLDER / name).rglob("*.yaml")) for name in ("sweeps", "reproduce"))
CONFIGS = sorted({*FOLDER.rglob("*.yaml")} - {*GRIDS, *ITEMS})
SIZES = shlex.split("""num_nodes=120 num_edges=240 num_features=30 num_train_per_class=4
    num_val=30 num_test=30""")
SMALL = [
    "--trainer.max_epochs=1",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
]


#: Trained in every run: with callbacks, with the most parts, and on each other kind of data.
TRAINED = (
    "balance/watched.yaml",
    "expansion/res_gat_spectral.yaml",
    "lipschitz/missing.yaml",
    "lipschitz/trees.yaml",
)


def name_of(path):
    return str(path.relative_to(FOLDER))


def tiny(path):
    """Words that give a config data that is as small as can be, of its kind."""
    text = path.read_text()
    if "TreeNeighborsMatch" in text:
        return ["--data.depth=2", "--data.passes=1"]
    key = "--data.source" if "MissingFeatures" in text else "--data"
    return [key, "SyntheticCitation", *(f"{key}.{size}" for size in SIZES)]


@pytest.fixture(scope="module")
def resolver():
    return Resolver([])


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_a_shipped_config_can_be_trained(path, resolver):
    words = ["--config", str(path), *tiny(path), *SMALL]
    resolver.check(resolver.resolve(read_arguments(words)))


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] * (name_of(p) not in TRAINED)) for p in CONFIGS],
    ids=name_of,
)
def test_a_shipped_config_trains(path, tmp_path, monkeypatch):
    # To draw the measures takes longer than to train.
    monkeypatch.setattr("gnn_depth.diagnostics.log.log_heat_maps", lambda *_: None)
    assert main(["fit", "--config", str(path), *tiny(path), *SMALL, f"--run.root={tmp_path}"]) == 0
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["status"] == "finished"


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_a_shipped_grid_asks_for_what_there_is(path, resolver):
    grid = load_grid(str(path))
    assert path.read_text().startswith("# ")
    combinations = list(grid.combinations())
    for combination in (combinations[0], combinations[-1]):
        config = resolver.resolve(line_of(combination, grid, read_arguments([])))
        assert config["model"]


@pytest.mark.parametrize("path", ITEMS, ids=lambda path: path.stem)
def test_a_shipped_item_has_published_numbers_of_runs_that_its_grid_has(path):
    item = reproduce.load_item(path.relative_to(FOLDER / "reproduce").with_suffix("").as_posix())
    grid = load_grid(str(item.grid))
    labels = {axis: set(map(as_written, values)) for axis, values in grid.axes.items()}
    assert item.source
    for entry in parse_published(item.published):
        for axis, label in entry.where.items():
            assert label in labels[axis]
    assert {*item.table["rows"], *item.table.get("columns", [])} <= set(labels)
    check_options(item.figure.get("kind", "depth"), item.figure.keys() - {"kind"})


# The configs, grids and items of the LipschitzNorm paper say what the paper says.

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


def test_every_cell_of_the_table_has_its_data_and_the_depth_that_the_paper_gives_it(resolver):
    path = FOLDER / "sweeps" / "lipschitz_table1.yaml"
    grid = load_grid(str(path))
    cells = list(grid.combinations())
    assert len(cells) == 30
    for cell in cells:
        found = resolver.resolve(line_of(cell, grid, read_arguments([])))
        labels = cell.labels
        method, data, missing = labels["method"], labels["data"], labels["missing"]
        source = found["data"]["init_args"]["source"]["init_args"]
        assert (source["name"], source["normalize_features"]) == (data, False)
        assert found["data"]["init_args"]["rate"] == (missing == "100%")
        assert found["model"]["num_layers"] == DEPTHS[method][DATA.index(data)][missing == "100%"]
