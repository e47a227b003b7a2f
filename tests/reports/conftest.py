"""Folders of runs for the tests of tables."""

import numpy as np
import pandas as pd
import pytest

from gnn_depth.reports import read_runs
from gnn_depth.reports.table import Cell, tabulate
from tests.reports.made import METRIC, make_run


@pytest.fixture
def runs(tmp_path):
    """The folder that `run` writes to."""
    return tmp_path / "runs"


@pytest.fixture
def run(runs):
    """``run(0.8, seed=1, depth=2)`` writes the folder of a run of a sweep with these axes, and
    returns it: see `make_run`."""

    def write(value=0.5, seed=0, status="finished", result=None, **axes):
        return make_run(runs, axes, seed, value, status, result=result)

    return write


def cell(*values):
    """A cell of finished runs with consecutive seeds."""
    columns = {"seed": range(len(values)), "status": "finished", METRIC: np.array(values, float)}
    return Cell(pd.DataFrame(columns), METRIC)


@pytest.fixture
def table(run, runs):
    """Two depths and two norms with two seeds each, and in one cell a failed and a diverged run."""
    for depth in (2, 10):
        for norm in ("none", "a|b_c"):
            for seed in range(2):
                run(depth / 100 + seed / 10, seed, depth=depth, norm=norm)
    run(None, 2, "failed", depth=2, norm="none")
    run("nan", 3, "diverged", depth=2, norm="none")
    return tabulate(read_runs(runs), ["depth"], ["norm"])
