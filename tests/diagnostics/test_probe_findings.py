"""Every finding of a probe, from made-up readings."""

import math
import re
from dataclasses import replace

import pytest

from gnn_depth.diagnostics.first_failure import SMOOTHED
from gnn_depth.diagnostics.probe.findings import CRITERIA, FAILURE_MODES, find_problems
from gnn_depth.diagnostics.probe.layer_values import LayerValues
from gnn_depth.diagnostics.probe.report import product_text

WELL = LayerValues(
    1,
    norm=5.0,
    mu=3.0,
    zeros=0.0,
    rank=20.0,
    out=5.0,
    gradient=1.0,
    gradient_mu=0.9,
    stretch=1.5,
    imbalance=0.1,
)


def stack(layers: int = 10, **of_layer) -> list[LayerValues]:
    """Readings of layers that are well but for some numbers, each a function of the layer's
    number."""
    return [
        replace(WELL, number=n, **{name: value(n) for name, value in of_layer.items()})
        for n in range(1, layers + 1)
    ]


def only(readings: list[LayerValues]):
    """The finding, if it is the only one."""
    findings = find_problems(readings)
    assert len(findings) == 1, findings
    return findings[0]


def test_of_a_stack_that_is_well_nothing_is_said():
    assert find_problems(stack()) == []
    assert find_problems([]) == []
    assert find_problems([LayerValues(1)]) == [], "nothing was measured"


def test_every_failure_mode_has_a_criterion_and_a_title():
    assert {criterion.mode for criterion in CRITERIA} | {"non_finite"} == set(FAILURE_MODES)


@pytest.mark.parametrize(
    ("mode", "layer", "worst", "words", "readings"),
    [
        # From 5 to float32's smallest, 1e-45.
        (
            "dying_signal",
            5,
            10,
            r"layer 5 on .*factor of 0\.1 .*46 layers",
            {"norm": lambda n: 50 * 0.1**n},
        ),
        ("dying_signal", 6, 10, "zero in every channel", {"zeros": lambda n: n / 10}),
        (
            "exploding_signal",
            6,
            10,
            "grows by a factor of 4",
            {"norm": lambda n: 5.0 * 4.0 ** (n - 1)},
        ),
        ("equal_rows", 7, 10, "mu", {"mu": lambda n: 5.0 * 10 ** (-n / 3)}),
        ("rank_collapse", 5, 10, "rank", {"rank": lambda n: 1 + 8.0 / n**2}),
        (
            "vanishing_gradients",
            6,
            1,
            "from layer 6 back",
            {"gradient": lambda n: 10.0 ** (n - 10)},
        ),
        ("expanding_gradients", 3, 1, "mu", {"gradient": lambda n: 3.0 ** (10 - n)}),
        (
            "smoothed_gradients",
            4,
            1,
            "mu",
            {"gradient_mu": lambda n: 0.9 if n > 4 else 0.5 * SMOOTHED},
        ),
        (
            "unbounded_attention",
            1,
            1,
            "factor of 20",
            {"scaled": lambda n: ((10.0, 3.0), (100.0, 30.0))},
        ),
        ("imbalance", 3, 3, "layer 3", {"imbalance": lambda n: 0.8 if n == 3 else 0.05}),
    ],
)
def test_a_failure_mode_is_found_at_its_first_and_at_its_worst_layer(
    mode, layer, worst, words, readings
):
    if "norm" in readings:
        readings["mu"] = lambda n: 0.6 * readings["norm"](n)
    if "gradient" in readings:
        readings["gradient_mu"] = lambda n: 0.9 * readings["gradient"](n)
    found = only(stack(**readings))
    assert (found.mode, found.layer, found.worst) == (mode, layer, worst)
    assert re.search(words, found.text)


def test_what_is_no_failure_is_not_found():
    assert find_problems(stack(rank=lambda n: 0.0)) == [], "the rank of zeros"
    assert find_problems(stack(scaled=lambda n: ((10.0, 3.0), (100.0, 3.1)))) == [], (
        "bounded scores"
    )
    assert find_problems(stack(imbalance=lambda n: None)) == [], "no law"
    assert find_problems(stack(4, imbalance=lambda n: 0.8)) == [], "a shallow stack"


def test_gradients_that_a_shortcut_brings_to_the_first_layer_have_not_vanished():
    def of_ends(n: int) -> float:
        return 1.0 if n in (1, 10) else 1e-4

    assert find_problems(stack(gradient=of_ends, gradient_mu=lambda n: 0.9 * of_ends(n))) == []
    assert (
        find_problems(
            stack(gradient=lambda n: 0.0 if n > 8 else 1.0, gradient_mu=lambda n: 0.9 * (n <= 8))
        )
        == []
    )


@pytest.mark.parametrize(
    ("field", "layer", "said"),
    [
        ("norm", 4, "input of layer 4"),
        ("out", 4, "output of layer 4"),
        ("gradient", 7, "gradient of the input of layer 7"),
    ],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_of_numbers_that_are_not_finite_the_first_is_named_and_nothing_else(
    field, layer, said, value
):
    def broken(n: int) -> float:
        return value if (n >= 4 if field != "gradient" else n <= 7) else 5.0

    found = only(stack(**{field: broken}))
    assert (found.mode, found.layer) == ("non_finite", layer)
    assert said in found.text


def test_a_criterion_measures_by_how_many_powers_of_ten_its_limit_is_exceeded():
    dying = next(
        criterion for criterion in CRITERIA if criterion.symbol == "||X||" and criterion.below
    )
    assert dying.excess(stack(norm=lambda n: 5.0 if n < 10 else 5e-5)) == pytest.approx(2)
    assert dying.excess(stack()) == pytest.approx(-3)
    assert dying.worst_value([LayerValues(1)]) is None


def test_the_product_of_all_layers_is_told_at_any_size():
    assert product_text([2.0, 3.0]) == "6"
    assert product_text([1e200, 1e200]) == "10^400.00"
    assert product_text([1.0, None]) == "unknown"
    assert product_text([0.0, 1.0]) == "0"
