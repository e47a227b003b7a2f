"""The documentation runs: every block of code of every page, in the order and the folder that a
reader has."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks

PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: Epochs of every fit of a page, 1 by default: numbers that are printed are not compared. A few
#: more of first_run.md, so that the best epoch is not the last one.
EPOCHS = {"tutorials/first_run.md": 6, "tutorials/own_graph.md": 2}
THREE_WAYS = ROOT / "docs/tutorials/three_ways.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_does_what_the_page_says(page, readers_folder):
    epochs = EPOCHS.get(str(page.relative_to(ROOT / "docs")), 1)
    for block in blocks(page):
        readers_folder.take(block, options=[f"--trainer.max_epochs={epochs}"])
    if left := [block.where for block in blocks(page) if block.lacks_data]:
        pytest.skip(f"all but {', '.join(left)}: GNN_DEPTH_DATA names no folder of data sets")


def test_command_function_and_own_loop_end_with_the_number_of_the_page(readers_folder):
    found = []
    for block in blocks(THREE_WAYS):
        readers_folder.take(block)
        if block.language == "text":
            found += re.findall(r"test accuracy \d+\.\d%", block.text + readers_folder.printed)
    assert found == ["test accuracy 73.8%"] * 6


@pytest.mark.skipif(
    "GNN_DEPTH_DATA" not in os.environ, reason="GNN_DEPTH_DATA names no folder of data sets"
)
@pytest.mark.filterwarnings("ignore")  # PyTorch Geometric's loading
def test_the_script_of_the_tutorial_on_cora_runs(tmp_path, monkeypatch, capsys):
    shutil.copytree(
        Path(os.environ["GNN_DEPTH_DATA"]) / "Cora" / "raw", tmp_path / "data" / "Cora" / "raw"
    )
    monkeypatch.chdir(tmp_path)
    (script,) = (
        block for block in blocks(ROOT / "docs/tutorials/watch_your_model.md") if block.title
    )
    exec(script.text.replace("epochs=60", "epochs=1"), {"__name__": "gat_cora"})
    assert "8 layers: test accuracy" in capsys.readouterr().out
    assert (tmp_path / "watched.png").exists()
