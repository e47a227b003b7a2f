"""Every shipped config trains, on a tiny graph."""

import json
import shlex
from pathlib import Path

import pytest

from gnn_depth.cli import main, reproduce
from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver, line_of
from gnn_depth.cli.sweep import load_grid
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
        config = resolver.resolve(line_of(combination, grid.base, path.parent, read_arguments([])))
        assert config["model"]


@pytest.mark.parametrize("path", ITEMS, ids=lambda path: path.stem)
def test_a_shipped_item_has_published_numbers_of_runs_that_its_grid_has(path):
    item = reproduce.load_item(path.relative_to(FOLDER / "reproduce").with_suffix("").as_posix())
    grid = load_grid(str(item.grid))
    labels = {axis: set(grid.labels_of(axis)) for axis in grid.axes}
    assert item.source
    for entry in parse_published(item.published):
        assert set(entry.numbers) <= labels[entry.over]
        for axis, label in entry.where.items():
            assert label in labels[axis]
    assert {*item.table["rows"], *item.table.get("columns", [])} <= set(labels)
