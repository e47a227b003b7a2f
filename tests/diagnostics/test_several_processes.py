"""What several real processes measure is what one measures on the examples of all."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from gnn_depth.diagnostics import MEASURES
from tests.diagnostics.several import SCENARIOS, TASKS, balanced, measured, metrics
from tests.processes import SAID, call_in_fresh_process, in_processes


def measure(processes, rank):
    for name in SCENARIOS:
        np.savez(f"{name}_{rank}.npz", **measured(name, devices=processes, strategy="ddp"))
    np.savez(f"metrics_{rank}.npz", **metrics(processes, rank))
    if processes == 2:  # one for each class
        np.savez(f"balancedness_{rank}.npz", **balanced(devices=2, strategy="ddp"))
    measured("nodes", devices=processes, strategy="ddp", fail=processes - 1)


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def several(request, tmp_path_factory):
    """A folder of what each process measured, how many there were, and what they said. In the end
    one of them fails, and so do all."""
    folder = tmp_path_factory.mktemp("several")
    with pytest.raises(RuntimeError):
        call_in_fresh_process(folder, in_processes, request.param, partial(measure, request.param))
    return folder, request.param, (folder / SAID).read_text()


@pytest.mark.filterwarnings("ignore:.*called without an edge_index")
@pytest.mark.parametrize("name", SCENARIOS)
def test_processes_measure_what_one_does(several, name):
    folder, processes, said = several
    expected = measured(name, parts=processes)
    assert len(expected) == (len(MEASURES) if name.startswith("watched") else 13)
    for rank in range(processes):
        path = folder / f"{name}_{rank}.npz"
        assert path.exists(), said
        found = np.load(path)
        for quantity, values in expected.items():
            of_edges = quantity in ("dirichlet_energy", "mean_average_distance")
            assert np.isfinite(values).any() != (of_edges and name in ("rows", "shared")), quantity
            np.testing.assert_allclose(found[quantity], values, rtol=1e-6, err_msg=quantity)


def test_processes_with_unequal_parts_have_the_metrics_of_one_for_every_task(several):
    folder, processes, _ = several
    expected = metrics(processes)
    assert len(expected) == 41
    assert {name.split()[0] for name in expected} == set(TASKS)
    for rank in range(processes):
        found = dict(np.load(folder / f"metrics_{rank}.npz"))
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
def test_two_processes_with_the_training_nodes_of_a_class_each_have_the_balancedness_of_one(
    several,
):
    folder, processes, _ = several
    expected = balanced() if processes == 2 else {}
    for rank, (name, values) in product(range(2), expected.items()):
        found = np.load(folder / f"balancedness_{rank}.npz")[name]
        assert found == pytest.approx(values, rel=1e-9, abs=1e-14, nan_ok=True), name


def test_a_process_that_fails_ends_the_others_and_is_heard(several):
    _, processes, said = several
    assert f"process {processes - 1} has had enough" in said
