"""Random numbers of a step that depend on nothing before it."""

import random

import numpy as np
import torch

from gnn_depth.training.resume import reseed


def test_a_step_draws_the_same_numbers_whatever_was_drawn_before_and_others_in_other_steps_and_processes():
    def drawn(*where: int) -> tuple[float, ...]:
        reseed(*where, torch.device("cpu"))
        return torch.rand(()).item(), random.random(), float(np.random.rand())

    first = drawn(0, 5, 1)
    torch.rand(100)
    assert drawn(0, 5, 1) == first
    others = [drawn(*where) for where in ((1, 5, 1), (0, 6, 1), (0, 5, 0))]
    assert all(len({first[place], *(other[place] for other in others)}) == 4 for place in range(3))
