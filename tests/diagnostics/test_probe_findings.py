"""Every finding of a probe, from made-up values."""

import math

import pandas as pd
import pytest

from gnn_depth.diagnostics.first_failure import SMOOTHED
from gnn_depth.diagnostics.probe.findings import CRITERIA, FAILURE_MODES, find_problems

WELL = {
    "||X||": 5.0,
    "||F(X)||": 5.0,
    "mu/||X||": 0.6,
    "zeros": 0.0,
    "rank(X)": 20.0,
    "||G||": 1.0,
    "mu(G)": 0.9,
    "mu/||G||": 0.9,
    "growth": 1.1,
    "|c|": 0.1,
}


def stack(count=10, **changed):
    """The values of layers that are well but for some, each a function of the layer's number."""
    layers = pd.DataFrame(WELL, range(1, count + 1))
    for symbol, value in changed.items():
        layers[symbol] = [value(number) for number in layers.index]
    return layers


def test_every_failure_mode_has_a_criterion_and_a_title():
    assert {criterion.mode for criterion in CRITERIA} | {"non_finite"} == set(FAILURE_MODES)


@pytest.mark.parametrize(
    ("mode", "layer", "worst", "words", "symbol", "value"),
    [
        ("dying_signal", 5, 10, r"factor of 0.1 per", "||X||", lambda n: 50 * 0.1**n),
        ("dying_signal", 6, 10, "zero in every channel", "zeros", lambda n: n / 10),
        ("exploding_signal", 6, 10, "grows by a factor of 4", "||X||", lambda n: 4.0 ** (n - 1)),
        ("smoothed", 7, 10, "limit", "d(X)", lambda n: 10 ** (-n / 3)),
        ("smoothed", 7, 10, "mu", "mu/||X||", lambda n: 10 ** (-n / 3)),
        ("rank_collapse", 5, 10, "rank", "rank(X)", lambda n: 1 + 8.0 / n**2),
        ("vanishing_gradients", 6, 1, "layer 6 back", "||G||", lambda n: 10.0 ** (n - 10)),
        ("expanding_gradients", 3, 1, "mu", "mu(G)", lambda n: 3.0 ** (10 - n)),
        ("smoothed_gradients", 4, 1, "mu", "mu/||G||", lambda n: 0.9 if n > 4 else SMOOTHED / 2),
        ("stalled", 6, 1, "layer 6 back", "||dW||", lambda n: 1.0 if n > 6 else 1e-4),
        ("unbounded_attention", 1, 1, "factor of 20", "growth", lambda n: 20.0),
        ("imbalance", 3, 3, "layer 3", "|c|", lambda n: 0.8 if n == 3 else 0.05),
    ],
)
def test_a_failure_mode_is_found_at_its_first_and_at_its_worst_layer(
    mode, layer, worst, words, symbol, value
):
    (found,) = find_problems(stack(**{symbol: value}))
    assert (found.mode, found.layer, found.worst) == (mode, layer, worst)
    assert symbol in (found.symbol, found.symbol.replace("d(", "mu/||").replace(")", "||"))
    assert words in found.text


@pytest.mark.parametrize(
    "layers",
    [
        stack(),
        stack(0),
        stack()[["||X||"]],  # nothing else was measured
        stack(**{"rank(X)": lambda n: math.nan}),
        stack(4, **{"|c|": lambda n: 0.8}),  # a shallow stack
        # Shortcuts bring gradients to the first layer.
        stack(**{"||G||": lambda n: 1.0 if n in (1, 10) else 1e-4}),
        stack(**{"||G||": lambda n: 0.0 if n > 8 else 1.0}),
        stack(**{"||dW||": lambda n: 1.0 if n > 4 else 1e-4}),  # most layers train
        stack(**{"d(X)": lambda n: math.nan}),  # unknown
        stack(**{"d(G)": lambda n: 0.01}),  # the gradients of a readout begin equal
    ],
)
def test_what_is_no_failure_is_not_found(layers):
    assert find_problems(layers) == []


@pytest.mark.parametrize(("symbol", "layer"), [("||X||", 4), ("||F(X)||", 4), ("||G||", 7)])
def test_of_numbers_that_are_not_finite_the_first_is_named_and_nothing_else(symbol, layer):
    def broken(n):
        return math.inf if (n <= 7 if symbol == "||G||" else n >= 4) else 5.0

    (found,) = find_problems(stack(**{symbol: broken}))
    assert (found.mode, found.layer) == ("non_finite", layer)
