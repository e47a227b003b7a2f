"""The benchmark of large graphs: it measures what it says, and its table can be read."""

import pytest

from tools.bench.large import budget, measure, render

STEPS = ("build", "parts", "epoch", "evaluation")


def row(nodes, peak):
    steps = {f"{step}_{what}": value for step in STEPS for what, value in (("cpu_seconds", 1.5), ("peak", peak))}
    return {"nodes": nodes, "edges": 10 * nodes, **steps}


def test_a_row_of_the_table_has_time_and_memory_of_every_step():
    head, _, line = render([row(10_000, 2e9)]).splitlines()[:3]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["10,000", "100,000", *["1.5", "2.00"] * 4]
    assert all(step in head for step in STEPS)


@pytest.mark.parametrize(
    ("nodes", "peak", "words"),
    [
        (1_000_000, 7.9e9, "budget 8 GB: met"),
        (1_000_000, 8.1e9, "budget 8 GB: not met"),
        (10_000, 1e9, "the budget is 8 GB at 1,000,000 nodes"),
    ],
)
def test_the_budget_is_that_of_a_million_nodes(nodes, peak, words):
    assert words in budget(row(nodes, peak))


def test_a_measurement_has_every_step():
    found = measure(400, "gcn", "random")
    assert found["edges"] == 4000
    for step in STEPS:
        assert found[f"{step}_peak"] > 1e7
        assert found[f"{step}_cpu_seconds"] >= 0
    assert 0 < found["accuracy"] < 1
