"""Random numbers of a step that depend on nothing before it."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gnn_depth.data.base import FullBatch
from gnn_depth.training.resume import SeededSteps, reseed


def test_random_numbers_depend_on_seed_step_and_process_alone():
    def drawn(*where):
        reseed(*where, torch.device("cpu"))
        return torch.rand(()).item(), random.random(), float(np.random.rand())

    first = drawn(0, 5, 1)
    torch.rand(100)
    assert drawn(0, 5, 1) == first
    others = [drawn(*where) for where in ((1, 5, 1), (0, 6, 1), (0, 5, 0))]
    assert all(len({first[place], *(other[place] for other in others)}) == 4 for place in range(3))


@pytest.mark.parametrize("shares", [True, False])
def test_processes_draw_the_same_numbers_where_they_share_a_full_batch_and_only_there(tiny, shares):
    def drawn(rank):
        trainer = SimpleNamespace(
            global_rank=rank,
            num_training_batches=1,
            train_dataloader=FullBatch(tiny.batch) if shares else [tiny.batch],
            fit_loop=SimpleNamespace(total_batch_idx=5),
            lightning_module=SimpleNamespace(device=torch.device("cpu")),
        )
        steps = SeededSteps()
        steps.load_state_dict({"seed": 3})
        steps.on_train_batch_start(trainer, trainer.lightning_module, None, 0)
        return torch.rand(()).item()

    assert (drawn(0) == drawn(1)) == shares
