"""Every shipped config trains, on a tiny graph."""

import json
from pathlib import Path

import pytest
import yaml

from gnn_depth.cli import main

FOLDER = Path(__file__).parent.parent / "configs"
CONFIGS = sorted(FOLDER.rglob("*.yaml"))
TINY = ["--data", "SyntheticCitation", "--data.num_nodes=120", "--data.num_edges=240", "--data.num_features=30"]
TINY += ["--data.num_train_per_class=4", "--data.num_val=30", "--data.num_test=30"]
SMALL = ["--trainer.max_epochs=2", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_shipped_config_trains(path, tmp_path):
    assert main(["fit", "--config", str(path), *TINY, *SMALL, f"--run.root={tmp_path}"]) == 0
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["status"] == "finished"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_shipped_config_says_where_it_comes_from_and_nothing_twice(path):
    assert path.read_text().startswith("# ")
    assert set(yaml.safe_load(path.read_text())) <= {"data", "model", "trainer", "seed_everything"}


def test_gat_30_is_gat_lip_30_without_the_norm():
    plain, normed = (yaml.safe_load((FOLDER / name).read_text()) for name in ("gat_30.yaml", "gat_lip_30.yaml"))
    assert normed["model"].pop("norm") == "lipschitz"
    assert plain == normed
