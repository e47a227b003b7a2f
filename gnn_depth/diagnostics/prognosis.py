"""What the readings of a stack say will go wrong, and from which layer on: a pure judgement of numbers."""

import math
from collections.abc import Callable, Sequence

from gnn_depth.diagnostics.first_failure import EXPANDED, SMOOTHED
from gnn_depth.diagnostics.reading import Reading
from gnn_depth.diagnostics.signs import Finding, Sign

GROWN = EXPANDED  # and shrunk, by its inverse: a rate that suits one end of the stack leaves the other where it is
LEVELLED = 1e-2  # share of the norm: a hundredth of what the decoder reads tells the nodes apart
ONE_DIRECTION = 1.5  # effective rank: nearer to one direction than to two
DEAD = 0.5  # share of the nodes
STEEPER = 10.0  # growth of a constant with its input; where scores are bounded it does not grow
SHALLOW = 4  # layers: 2 train as well out of balance as in balance, and 5 do not (Mustafa et al. 2023, table 2)
UNBALANCED = 0.6  # |c| as a share of all squares: one side of a neuron weighs four times as much as the other


def prognosis(readings: Sequence[Reading]) -> list[Finding]:
    """All that will go wrong, the worst kinds first; empty where nothing shows."""
    if broken := _non_finite(readings):
        return [broken]
    return [finding for sign in SIGNS if (finding := sign.finding(readings)) is not None]


def _non_finite(readings: Sequence[Reading]) -> Finding | None:
    """The first layer on the way forwards, and where all is well there on the way back."""
    forwards = [(r, what, value) for r in readings for what, value in (("enters", r.norm), ("leaves", r.out))]
    for reading, what, value in forwards:
        if value is not None and not math.isfinite(value):
            text = f"what {what} layer {reading.number} is not finite."
            return Finding("non_finite", "", reading.number, reading.number, value, text)
    for reading in reversed(readings):
        if reading.gradient is not None and not math.isfinite(reading.gradient):
            text = f"the gradient of what enters layer {reading.number} is not finite."
            return Finding("non_finite", "", reading.number, reading.number, reading.gradient, text)
    return None


def _relative(
    of: Callable[[Reading], float | None], backwards: bool
) -> Callable[[Sequence[Reading]], list[float | None]]:
    """Each value as a multiple of that of the layer where the way begins."""

    def multiples(readings: Sequence[Reading]) -> list[float | None]:
        values = [of(reading) for reading in readings]
        start = next((v for v in (values[::-1] if backwards else values) if v), None)
        return [None if value is None or start is None else value / start for value in values]

    return multiples


def _each(of: Callable[[Reading], float | None]) -> Callable[[Sequence[Reading]], list[float | None]]:
    return lambda readings: [of(reading) for reading in readings]


def _cut_off(readings: Sequence[Reading]) -> list[float | None]:
    """The size of gradients, unless skips or jumps bring them past the other layers to the first one, which trains."""
    values = GRADIENT(readings)
    first = next((value for value in values if value is not None), None)
    return values if first is not None and first < 1 / GROWN else [None] * len(values)


def _imbalance(readings: Sequence[Reading]) -> list[float | None]:
    return [reading.imbalance if len(readings) > SHALLOW else None for reading in readings]


def _growth_with_scale(reading: Reading) -> float | None:
    """By how much the constant grows when its input does, at most."""
    if not reading.stretch or not reading.scaled:
        return None
    return max(value / reading.stretch for _, value in reading.scaled)


NORM, GRADIENT, MU = (
    _relative(lambda r: r.norm, backwards=False),
    _relative(lambda r: r.gradient, backwards=True),
    _relative(lambda r: r.gradient_mu, backwards=True),
)
SIGNS = (
    Sign(
        "dying_signal",
        "zeros",
        _each(lambda r: r.zeros),
        DEAD,
        words="from layer {layer} on most nodes are zero in every channel: {value} of them in layer {worst}",
    ),
    Sign(
        "dying_signal",
        "||X||",
        NORM,
        1 / GROWN,
        below=True,
        words="from layer {layer} on ||X|| is below {limit} of the first layer's: {value} in layer {worst}",
        is_product=True,
    ),
    Sign(
        "exploding_signal",
        "||X||",
        NORM,
        GROWN,
        words="from layer {layer} on ||X|| is above {limit} times the first layer's: {value} in layer {worst}",
        is_product=True,
    ),
    Sign(
        "equal_rows",
        "mu/||X||",
        _each(lambda r: r.share),
        LEVELLED,
        below=True,
        words="from layer {layer} on mu(X)/||X|| is below {limit}: {value} in layer {worst}",
    ),
    Sign(
        "rank_collapse",
        "rank(X)",
        _each(lambda r: r.rank or None),  # of zeros another finding tells
        ONE_DIRECTION,
        below=True,
        words="from layer {layer} on the effective rank of X is below {limit}: {value} in layer {worst}",
    ),
    Sign(
        "vanishing_gradients",
        "||G||",
        _cut_off,
        1 / GROWN,
        below=True,
        backwards=True,
        words="from layer {layer} back ||G|| is below {limit} of the last layer's: {value} in layer {worst}",
        is_product=True,
    ),
    Sign(
        "expanding_gradients",
        "mu(G)",
        MU,
        GROWN,
        backwards=True,
        words="from layer {layer} back mu(G) is above {limit} times the last layer's: {value} in layer {worst}",
        is_product=True,
    ),
    Sign(
        "smoothed_gradients",
        "mu/||G||",
        _each(lambda r: r.gradient_share),
        SMOOTHED,
        below=True,
        backwards=True,
        words="from layer {layer} back mu(G)/||G|| is below {limit}: {value} in layer {worst}",
    ),
    Sign(
        "unbounded_attention",
        "growth",
        _each(_growth_with_scale),
        STEEPER,
        words="the constant of layer {worst} is {value} times as large at larger inputs, and nothing bounds it",
    ),
    Sign(
        "imbalance",
        "|c|",
        _imbalance,
        UNBALANCED,
        words="of the neurons that enter layer {worst} one side outweighs the other: |c| is {value} of both",
    ),
)
