"""GCNII's released code: ``train.py`` of Chen et al. 2020."""

from collections.abc import Mapping
from typing import Any

from tools.authors.released import Numbers, Released, Training, percent, run_script

RELEASED = Released("chennnM/GCNII", "ca91f5686c4cd09cc1c6f98431a5d5b7e36acc92", "Chen et al. 2020")


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of our GCNII table: the authors' defaults at a number of layers."""
    return {"data": at["data"].lower(), "layer": at["depth"]}


def run(training: Training) -> Numbers:
    """Train once; the accuracy is that of the epoch with the lowest validation loss."""
    (training.workdir / "data").symlink_to(training.data / training.at["data"] / "raw")
    (training.workdir / "pretrained").mkdir()
    words = ["--test", "--seed", str(training.seed)]
    for option, value in training.options.items():
        words += [f"--{option}", str(value)]
    changes = [('cudaid = "cuda:"+str(args.dev)', 'cudaid = "cpu"')]
    found = run_script(training.folder, "train.py", training.workdir, words, changes)
    return {
        "values": percent(found["acc"]),
        "best_epochs": found["best_epoch"] + 1,
        "epochs": found["epoch"] + 1,
    }
