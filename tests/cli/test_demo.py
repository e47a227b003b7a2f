"""``gnn-depth demo``, with networks of three layers and two epochs in place of its own."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gnn_depth.cli import demo
from gnn_depth.cli.demo import Trained, conclusion
from tests.cli.conftest import SMALL

TINY = [
    *SMALL,
    "--model.num_layers",
    "3",
    "--model.hidden_channels",
    "8",
    "--trainer.max_epochs",
    "2",
]
DEEP = Trained("residual GCN, 32 layers", Path(), 0.15, 1e4, "expanded at layer 5")
BOUNDED = replace(
    DEEP, heading="bounded GCN, 32 layers", accuracy=0.9, ratio=1.0, failures="no failure"
)


def test_a_demo_trains_four_networks_and_shows_them_in_one_table_and_one_picture(
    gnn_depth: Callable, capsys: pytest.CaptureFixture[str]
):
    demo.show("runs/demo", TINY)
    out, err = capsys.readouterr()
    assert err == ""
    (folder,) = Path().glob("runs/demo/*")
    for name in ("shallow", "deep", "bounded", "gat_lip_30"):
        (result,) = folder.glob(f"{name}/*/result.json")
        assert json.loads(result.read_text())["status"] == "finished"
    assert (folder / "gradients.png").read_bytes().startswith(b"\x89PNG")
    assert str(folder / "gradients.png") in out
    assert len(out.splitlines()) <= 50
    for row in ("residual GCN, 3 layers", "bounded GCN, 3 layers", "gat_lip_30, 3 layers"):
        assert row in out
    assert gnn_depth("table", str(folder), "--rows", "name", "--where", "name=deep").code == 0


def test_a_demo_leaves_the_one_before_as_it_is(
    gnn_depth: Callable, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_probe", interrupted)
    assert [gnn_depth("demo", "--output", "out").code for _ in range(2)] == [130, 130]
    assert len(list(Path("out").iterdir())) == 2


def test_a_folder_that_cannot_be_made_is_refused(refused: Callable):
    Path("file").touch()
    assert "--output file/x" in refused("demo", "--output", "file/x")


@pytest.mark.parametrize(
    ("deep", "remedied", "said"),
    [
        (0.15, 0.90, ["learns nothing", "15.0%", "14.3%", "reaches 90.0%"]),
        (0.85, 0.86, ["reaches 85.0%", "did not help", "86.0%"]),
        (float("nan"), 0.90, ["learns nothing", "reaches 90.0%"]),
        (0.15, float("nan"), ["did not help"]),
    ],
)
def test_the_conclusion_is_what_was_measured(deep: float, remedied: float, said: list[str]):
    text = conclusion(replace(DEEP, accuracy=deep), replace(BOUNDED, accuracy=remedied), 1 / 7)
    assert all(part in text for part in said), text
