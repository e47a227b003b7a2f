"""GCNII's released code: ``train.py`` of Chen et al. 2020."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.authors.curves import BestAccuracy
from tools.authors.released import Released, run_script

RELEASED = Released("chennnM/GCNII", "ca91f5686c4cd09cc1c6f98431a5d5b7e36acc92", "Chen et al. 2020")


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of our GCNII table: the authors' defaults at a number of layers."""
    return {"data": at["data"].lower(), "layer": at["depth"]}


def run(
    folder: Path,
    data: Path,
    workdir: Path,
    at: Mapping[str, str],
    options: dict[str, Any],
    seed: int,
) -> BestAccuracy:
    """Train once; the accuracy is that of the epoch with the lowest validation loss."""
    (workdir / "data").symlink_to(data / at["data"] / "raw")
    (workdir / "pretrained").mkdir()
    words = ["--test", "--seed", str(seed)]
    for option, value in options.items():
        words += [f"--{option}", str(value)]
    changes = [('cudaid = "cuda:"+str(args.dev)', 'cudaid = "cpu"')]
    found = run_script(folder / "train.py", words, workdir, changes)
    return BestAccuracy(found["acc"], found["best_epoch"] + 1, found["epoch"] + 1)
