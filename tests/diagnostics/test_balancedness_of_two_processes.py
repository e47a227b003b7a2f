"""Two real processes with a part of the training nodes each measure what one does with all of them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnn_depth.diagnostics import Balancedness
from tests.diagnostics.test_balancedness import model, values
from tests.diagnostics.test_own_stacks import TinyDouble
from tests.training.conftest import Several

SCRIPT = """
import dataclasses
import sys
from pathlib import Path

import lightning as L
import numpy as np
import torch

from gnn_depth.diagnostics import Balancedness
from tests.diagnostics.test_balancedness import model, values
from tests.diagnostics.test_own_stacks import TinyDouble


class OwnClass:
    '''The training nodes of one class, another one in each process.'''

    def __iter__(self):
        batch = TinyDouble().batch
        own = batch.y == torch.distributed.get_rank()
        return iter([dataclasses.replace(batch, train_mask=batch.train_mask & own)])

    def __len__(self):
        return 1


callback = Balancedness()
quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
L.Trainer(
    callbacks=[callback], accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, gradient_clip_val=1e-2,
    num_sanity_val_steps=0, use_distributed_sampler=False, **quiet,
).fit(model(), OwnClass(), OwnClass())
np.savez(Path(sys.argv[1]) / f"{torch.distributed.get_rank()}.npz", **values(callback))
torch.distributed.destroy_process_group()
"""


def test_two_processes_measure_what_one_does(make_trainer, tmp_path):
    (tmp_path / "two.py").write_text(SCRIPT)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "ignore", str(tmp_path / "two.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    one = Balancedness()
    make_trainer([one], max_epochs=3, num_sanity_val_steps=0, gradient_clip_val=1e-2).fit(
        model(), Several(TinyDouble(), 1), Several(TinyDouble(), 1)
    )
    for rank in (0, 1):
        found = np.load(tmp_path / f"{rank}.npz")
        for name, expected in values(one).items():
            assert found[name] == pytest.approx(expected, rel=1e-9, abs=1e-14, nan_ok=True), name
