"""Whole runs through the command line: what they leave behind, and how they end."""

import re
from pathlib import Path
from typing import Any

import pytest

from gnn_depth.cli.errors import UsageError
from gnn_depth.runs import read_result
from tests.cli.conftest import DEEP, SHORT, SMALL

TWO = ["--trainer.max_epochs", "2"]


def test_a_fit_ends_with_its_answer_and_writes_only_below_its_folder(done, caplog):
    answer = done("fit", *SHORT, *TWO)
    (folder,) = Path("runs").glob("*/*")
    assert re.match(r"test accuracy \d+\.\d% at the best validation epoch, [12] of 2\n", answer.out)
    assert re.search(r"validation accuracy +0\.\d{4}", answer.out)
    assert f"run folder: {folder}" in answer.out
    assert "tensorboard --logdir runs" in answer.out
    assert read_result(folder)["status"] == "finished"
    for noise in ("Seed set", "GPU available", "Warning", "litlogger", "num_workers"):
        assert noise not in answer.err + answer.out + caplog.text
    assert [path.name for path in Path().iterdir()] == ["runs"]


def test_the_config_in_the_folder_repeats_the_run(done):
    words = ["fit", *SHORT, *TWO, *DEEP]
    printed = done(*words, "--print_config").out
    done(*words)
    (first,) = Path("runs").glob("*/*")
    assert (first / "config.yaml").read_text() == printed
    curves = []
    for name, seed in (("again", []), ("other", ["--seed_everything", "1"])):
        done("fit", "--config", str(first / "config.yaml"), "--run.name", name, *seed)
        (folder,) = Path("runs", name).iterdir()
        curves.append((folder / "metrics.csv").read_text())
    assert curves[0] == (first / "metrics.csv").read_text() != curves[1]
    assert read_result(folder)["seed"] == 1


@pytest.fixture
def named(gnn_depth, monkeypatch):
    """The name of the run of a command line, before anything is trained."""

    def of(*words: str) -> str:
        asked = []

        def find(*found: Any) -> None:
            asked.append(found[-1]())
            raise UsageError("enough")

        monkeypatch.setattr("gnn_depth.cli.assemble.checkpoints.find", find)
        gnn_depth("fit", *words, "--ckpt_path", "auto")
        return asked[0][0].name

    return of


def test_a_run_is_named_after_its_config_or_parts_and_changed_flags(
    named,
):
    Path("deep.yaml").write_text("model: {num_layers: 3, layer: gat}\n")
    for words, name in {
        "--config deep.yaml --trainer.max_epochs 3 --seed_everything 1": "deep",
        "--config deep.yaml --model.norm none": "deep-norm_none",
        "--config deep.yaml --model.norm [lipschitz,pair]": "deep-norm_lipschitz_pair",
        "--config deep.yaml --model.layer.heads 2 --data.seed=9": "deep-heads_2-seed_9",
        "--model.layer gat --model.layer.heads 2": "gat_2-heads_2",
        "--model.num_layers 4 --model.skip residual": "gcn_4-skip_residual",
        "--config deep.yaml --model.norm none --run.name mine": "mine",
    }.items():
        assert named(*words.split()) == name
    words = [*SHORT, "--model.dropout", "0.1", "--model.outer_dropout"]
    one, other = named(*words, "0.25"), named(*words, "0.26")
    assert one != other
    assert len(one) == len(other) < 120


@pytest.mark.parametrize(
    ("command", "asked", "difference"),
    [
        ("fit", ["--model.dropout", "0.9"], "model.dropout: 0.0 in the checkpoint, 0.9 requested"),
        ("test", ["--model.layer", "gcn"], "model.layer: gat in the checkpoint, gcn requested"),
        ("fit", ["--config", "{model: {norm: pair}}"], "model.norm"),
    ],
)
def test_what_contradicts_a_checkpoint_is_refused_with_both_values(
    refused, trained, command, asked, difference
):
    answer = refused(command, *SMALL, "--ckpt_path", str(trained / "checkpoints/last.ckpt"), *asked)
    assert difference in answer
