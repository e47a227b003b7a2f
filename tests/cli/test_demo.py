"""``gnn-depth demo``, with networks of three layers and two epochs in place of its own."""

from pathlib import Path
from shlex import split

import pytest

from gnn_depth.cli import demo
from gnn_depth.runs import read_result
from tests.cli.conftest import SMALL

TINY = split("--model.num_layers 3 --model.hidden_channels 8 --trainer.max_epochs 2")


@pytest.fixture(autouse=True)
def tiny_networks(monkeypatch):
    for name, (text, options) in demo.NETWORKS.items():
        monkeypatch.setitem(demo.NETWORKS, name, (text, (*options, *SMALL, *TINY)))
    monkeypatch.setattr(demo, "DEEP", (*demo.DEEP, *SMALL, *TINY))


def test_a_demo_trains_four_networks_and_shows_a_table_and_a_picture(gnn_depth):
    answer = gnn_depth("demo")
    assert (answer.code, answer.err) == (0, "")
    (folder,) = Path().glob("runs/demo/*")
    for name in demo.NETWORKS:
        (run,) = folder.glob(f"{name}/*")
        assert read_result(run)["status"] == "finished"
        assert f"--run.name {name}" in answer.out
    assert (folder / "gradients.png").read_bytes().startswith(b"\x89PNG")
