"""Folders of runs for the tests of reports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnn_depth.reports.cells import Cell, Run

METRIC = "test_acc_at_best_val"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """``run(0.8, seed=1, depth=2)`` writes the folder of a run of a sweep with these axes, and returns it.

    What ``result`` holds is laid over ``result.json``; None as the value is a run without metrics.
    """
    count = 0

    def write(
        value: Any = 0.5, seed: int | None = 0, status: str = "finished", result: Any = None, **axes: Any
    ) -> Path:
        nonlocal count
        count += 1
        hparams = {f"model.{name}": axes[name] for name in axes if axes[name] is not None}
        group = ",".join(f"{name}={text}" for name, text in axes.items()) or "all"
        folder = tmp_path / "runs" / "grid" / group / f"seed_{seed}-{count:08x}"
        folder.mkdir(parents=True)
        content = {
            "format": 1,
            "status": status,
            "name": "grid",
            "seed": seed,
            "started": f"2026-11-21T08:{count // 60:02}:{count % 60:02}+00:00",
            "config_sha256": f"{count:064x}",
            "identity": f"{count:064x}",
            "packages": {"gnn-depth": "0.1.0"},
            "sweep": "grid",
            "axes": axes,
            "hparams": {"model.layer": "gat", "seed_everything": seed, **hparams},
            "metrics": {} if value is None else {METRIC: value, "val/loss": 1.0},
        }
        (folder / "result.json").write_text(json.dumps(content | (result or {})))
        return folder

    return write


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The folder that `run` writes to."""
    return tmp_path / "runs"


def cell(*values: float, first_seed: int = 0, **settings: str) -> Cell:
    """A cell of finished runs with consecutive seeds."""
    return Cell(
        tuple(Run(seed, "finished", value, "folder") for seed, value in enumerate(values, start=first_seed)), settings
    )
