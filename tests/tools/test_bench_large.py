"""The benchmarks of large graphs and of the loop measure what they say."""

from tools.bench.large import measure
from tools.bench.loop import time_bare, time_fit

STEPS = ("build", "parts", "epoch", "evaluation")


def test_a_measurement_has_every_step():
    found = measure(400, "gcn", "random")
    assert found["edges"] == 4000
    for step in STEPS:
        assert found[f"{step}_peak"] > 1e7
        assert found[f"{step}_cpu_seconds"] >= 0
    assert 0 < found["accuracy"] < 1


def test_an_epoch_takes_longer_with_loggers_and_metrics():
    assert time_fit(20) > time_bare(20) > 0
