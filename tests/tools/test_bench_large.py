"""The benchmark of large graphs measures what it says."""

import pytest

from tools.bench.large import measure

STEPS = ("build", "parts", "epoch", "evaluation")


@pytest.mark.slow  # a run of the tool by hand
def test_a_measurement_has_every_step():
    found = measure(400, "gcn", "random")
    assert found["edges"] == 4000
    for step in STEPS:
        assert found[f"{step}_peak"] > 1e7
        assert found[f"{step}_cpu_seconds"] >= 0
    assert 0 < found["accuracy"] < 1
