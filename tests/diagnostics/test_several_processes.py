"""What several real processes measure is what one measures on the examples of all."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnn_depth.diagnostics import MEASURES
from tests.diagnostics.several import SCENARIOS, TASKS, balanced, measured, metrics

SCRIPT = """
import sys
from functools import partial
from pathlib import Path

import numpy as np

from tests.diagnostics.several import SCENARIOS, balanced, measured, metrics
from tests.processes import in_processes


def measure(folder, processes, rank):
    for name in SCENARIOS:
        np.savez(folder / f"{name}_{rank}.npz", **measured(name, devices=processes, strategy="ddp"))
    np.savez(folder / f"metrics_{rank}.npz", **metrics(processes, rank))
    if processes == 2:  # one for each class
        np.savez(folder / f"balancedness_{rank}.npz", **balanced(devices=2, strategy="ddp"))
    measured("nodes", devices=processes, strategy="ddp", fail=processes - 1)


folder, processes = Path(sys.argv[1]), int(sys.argv[2])
in_processes(processes, partial(measure, folder, processes))
"""


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def several(request, tmp_path_factory):
    """A folder of what each process measured, and how many there were. In the end one of them
    fails."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "several.py").write_text(SCRIPT)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(folder / "several.py"),
        str(folder),
        str(request.param),
    ]
    # A process that waits for one that failed would wait for half an hour.
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    return folder, request.param, done


@pytest.mark.parametrize("name", SCENARIOS)
def test_processes_measure_what_one_does(several, name):
    folder, processes, done = several
    expected = measured(name, parts=processes)
    assert len(expected) == (len(MEASURES) if name.startswith("watched") else 13)
    for rank in range(processes):
        path = folder / f"{name}_{rank}.npz"
        assert path.exists(), done.stderr
        found = np.load(path)
        for quantity, values in expected.items():
            without_edges = name in ("rows", "shared") and quantity in (
                "dirichlet_energy",
                "mean_average_distance",
            )
            assert np.isfinite(values).any() != without_edges, quantity
            np.testing.assert_allclose(
                found[quantity], values, rtol=1e-6, err_msg=f"{quantity} of process {rank}"
            )


def test_processes_with_unequal_parts_have_the_metrics_of_one_for_every_task(several):
    folder, processes, done = several
    expected = metrics(processes)
    assert len(expected) == 41
    assert {name.split()[0] for name in expected} == set(TASKS)
    for rank in range(processes):
        path = folder / f"metrics_{rank}.npz"
        assert path.exists(), done.stderr
        found = {name: float(value) for name, value in np.load(path).items()}
        assert found == pytest.approx(expected, rel=1e-6)


def test_two_processes_with_the_training_nodes_of_a_class_each_have_the_balancedness_of_one(
    several,
):
    folder, processes, done = several
    expected = balanced() if processes == 2 else {}
    for rank in range(2):
        for name, values in expected.items():
            path = folder / f"balancedness_{rank}.npz"
            assert path.exists(), done.stderr
            assert np.load(path)[name] == pytest.approx(values, rel=1e-9, abs=1e-14, nan_ok=True), (
                name
            )


def test_a_process_that_fails_ends_the_others_and_is_heard(several):
    _, processes, done = several
    assert done.returncode != 0
    assert f"process {processes - 1} has had enough" in done.stderr
