"""From an item to its table and figure."""

from pathlib import Path
from shlex import split

import pytest
import yaml

from gnn_depth import config_file
from tests.cli.test_sweep import BASE

GRID = {
    "base": "../base.yaml",
    "axes": {"depth": {"model.num_layers": [1, 2]}, "model.norm": ["none", "pair"]},
    "seeds": 2,
}
ITEM = {
    "title": "Accuracy against depth",
    "source": "Nobody, Nowhere 2020",
    "grid": "../../grid.yaml",
    "table": {"rows": ["depth"], "columns": ["norm"]},
    "figure": {"kind": "depth", "x": "depth"},
    "published": yaml.safe_load("""
        - {source: table 1, interval: std, where: {norm: pair}, over: depth,
           values: {1: 50 +- 60, 2: 900.0}}
    """),
}

PART = split("reproduce nobody/depth --workers 1 --subset norm=pair depth=2")

pytestmark = pytest.mark.usefixtures("pool_here")


@pytest.fixture
def item(tmp_path, monkeypatch):
    """An item named nobody/depth in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_file, "__file__", str(tmp_path / "gnn_depth/config_file.py"))
    folder = Path("configs/reproduce/nobody")
    folder.mkdir(parents=True)
    Path("base.yaml").write_text(yaml.safe_dump(BASE))
    Path("configs/grid.yaml").write_text(yaml.safe_dump(GRID))
    (folder / "depth.yaml").write_text(yaml.safe_dump(ITEM))


def test_an_item_is_run_shown_beside_the_published_numbers_and_run_only_once(done, item, gnn_depth):
    answer = done("reproduce", "nobody/depth", "--workers", "1")
    assert "done: 8 finished" in answer.out
    assert "1 outside, 1 undecided" in answer.out
    assert "Nobody, Nowhere 2020" in answer.out
    (folder,) = Path("runs/reproduced/nobody/depth").iterdir()
    pictures = {"figure.png", "figure.pdf", "figure.svg"}
    assert {path.name for path in folder.iterdir()} == {"table.md", "runs.csv"} | pictures
    assert len((folder / "runs.csv").read_text().splitlines()) == 1 + 8
    # The columns stand in the grid's order, not in the alphabet's.
    assert "| depth | none | pair |" in (folder / "table.md").read_text()

    results = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("result.json")}
    part = gnn_depth(*PART)
    assert "done: 2 finished" in part.out
    assert "1 outside" in part.out
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("result.json")} == results
    assert len(list(Path("runs/reproduced/nobody/depth").iterdir())) == 2


def test_the_list_has_every_item(item, done):
    answer = done("reproduce", "--list")
    assert answer.out == "nobody/depth: Accuracy against depth\n  Nobody, Nowhere 2020\n  8 runs\n"


def test_absent_data_is_counted_or_left_out(done, item, gnn_depth):
    away = {"data": {"class_path": "UserGraph", "init_args": {"path": "away.npz"}}}
    axes = GRID["axes"] | {"data": {"here": {}, "away": away}}
    Path("configs/grid.yaml").write_text(yaml.safe_dump(GRID | {"axes": axes}))
    answer = done(*PART, "--available")
    assert "data=away,depth=2,norm=pair: its data is not here" in answer.out
    assert "done: 2 finished" in answer.out
    nothing = gnn_depth(*PART, "data=away", "--available")
    assert (nothing.code, "no runs are left" in nothing.err) == (2, True)
    assert gnn_depth("reproduce", "nobody/depth", "--workers", "1").code == 2
