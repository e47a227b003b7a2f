"""Norms of two real processes are those of one on the same examples."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.diagnostics.conftest import chain, rows, values

SCRIPT = """
import sys
from pathlib import Path

import lightning as L
import numpy as np
import torch

from gnn_depth.diagnostics import GradientNorms
from tests.diagnostics.conftest import chain, loader, rows, values


class Shared:
    shared = True

    def __iter__(self):
        return iter([[rows()]])

    def __len__(self):
        return 1


for name, batches in (("shards", loader(rows(), 5)), ("shared", Shared())):
    callback = GradientNorms("rounds.*")
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
    L.Trainer(
        callbacks=[callback], accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, **quiet,
        accumulate_grad_batches=2 if name == "shards" else 1,
    ).fit(chain(), batches)
    steps, hidden, parameters = values(callback)
    rank = torch.distributed.get_rank()
    np.savez(Path(sys.argv[1]) / f"{name}_{rank}.npz", steps=steps, hidden=hidden, parameters=parameters)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    (folder / "two.py").write_text(SCRIPT)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "ignore", str(folder / "two.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return folder


# Of parts each process sees every second row, five at a time, and two such batches make a step: all twenty rows.
@pytest.mark.parametrize("name", ["shards", "shared"])
def test_two_processes_measure_what_one_does(folder, measure, name):
    torch.manual_seed(0)
    steps, hidden, parameters = values(measure(chain(), rows(), max_epochs=2))
    for rank in (0, 1):
        found = np.load(folder / f"{name}_{rank}.npz")
        assert found["steps"].tolist() == steps.tolist() == [0, 1]
        assert found["hidden"] == pytest.approx(hidden, rel=1e-10)
        assert found["parameters"] == pytest.approx(parameters, rel=1e-10)
