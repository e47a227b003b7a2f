"""The benchmark of large graphs measures what it says."""

import pytest

from tools.bench import million
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


@pytest.mark.parametrize("side", million.SIDES)
def test_each_side_steps_on_a_large_random_graph(side):
    found = million.measure(side, 300, 900, 2)
    assert found["side"] == side
    assert all(found[number] > 0 for number in million.NUMBERS[:2])


def test_ratios_are_of_the_pairs_of_processes():
    numbers = [{"ours": (1.0, 3.0), "torch.sparse": (2.0, 4.0)} for _ in million.NUMBERS]
    rows = [
        {"side": side} | {n: of[side][k] for n, of in zip(million.NUMBERS, numbers, strict=True)}
        for k in range(2)
        for side in million.SIDES
    ]
    shown = million.render(rows)
    assert "0.62 (0.50-0.75)" in shown
    assert "2.00" in shown
    assert "3.00" in shown
