"""Numbers on real data, minutes each: ``pytest -m slow``."""

import json
from pathlib import Path

import pytest

from gnn_depth.cli import main

pytestmark = pytest.mark.slow
CONFIGS = Path(__file__).parent.parent / "configs"


def metrics(name, tmp_path, real_data):
    words = [
        "fit",
        "--config",
        str(CONFIGS / f"{name}.yaml"),
        f"--data.root={real_data}",
        f"--run.root={tmp_path}",
    ]
    assert main([*words, "--trainer.enable_progress_bar=false"]) == 0
    (result,) = (tmp_path / name).rglob("result.json")
    return json.loads(result.read_text())["metrics"]


def test_thirty_layers_of_a_gat_train_and_stay_trained(tmp_path, real_data):
    found = metrics("gat_lip_30", tmp_path, real_data)
    assert found["test_acc_at_best_val"] > 0.75
    assert found["test/acc"] > found["test_acc_at_best_val"] - 0.03


def test_the_two_layer_gcn_reaches_its_papers_accuracy(tmp_path, real_data):
    # Kipf & Welling, ICLR 2017: 81.5; single seeds scatter by about a point.
    assert metrics("gcn_2", tmp_path, real_data)["test_acc_at_best_val"] == pytest.approx(
        0.815, abs=0.02
    )
