"""Findings: the failure modes that a stack's readings show, and the layer where each begins."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnn_depth.diagnostics.first_failure import EXPANDED, SMOOTHED
from gnn_depth.diagnostics.probe.readings import Reading
from gnn_depth.nn.parts import FailureMode

SMALLEST, LARGEST = -45.0, 38.5  # the range of float32, as powers of ten

GROWN = EXPANDED  # growth, and shrinking by its inverse, after which no learning rate suits both ends of the stack
LEVELLED = 1e-2  # share of the norm in which nodes still differ
ONE_DIRECTION = 1.5  # effective rank: nearer to one direction than to two
DEAD = 0.5  # share of the nodes
STEEPER = (
    10.0  # growth of a Lipschitz constant with its input; with bounded scores it does not grow
)
SHALLOW = 4  # layers: 2 train as well out of balance as in balance, and 5 do not (Mustafa et al. 2023, table 2)
UNBALANCED = 0.6  # |c| as a share of all squares: one side of a neuron has four times the other's


@dataclass(frozen=True)
class Finding:
    """A failure mode that the readings show.

    Attributes:
        mode: The failure mode.
        symbol: The quantity that shows it, as in the table.
        layer: The first layer that shows it; for gradients the first on the way back.
        worst: The layer that shows it most.
        value: The value there.
        text: A sentence for users.
    """

    mode: FailureMode
    symbol: str
    layer: int
    worst: int
    value: float
    text: str


Values = Callable[[Sequence[Reading]], list[float | None]]


@dataclass(frozen=True)
class Criterion:
    """A threshold of a quantity beyond which a failure mode is present.

    Attributes:
        mode: The failure mode.
        symbol: The quantity, as in the table.
        of: Its value in every layer; None where there is none.
        limit: The threshold.
        text: The sentence for users, with {layer}, {value}, {worst} and {limit}.
        below: True if values below the threshold show the failure mode.
        backwards: True for gradients, which start at the last layer.
        is_product: True if each layer multiplies the value; the sentence then gives the factor per
            layer.
    """

    mode: FailureMode
    symbol: str
    of: Values
    limit: float
    text: str
    below: bool = False
    backwards: bool = False
    is_product: bool = False

    def finding(self, readings: Sequence[Reading]) -> Finding | None:
        """The finding in the readings of a stack; None if no layer is beyond the threshold."""
        values = self.of(readings)
        there = [
            place
            for place, value in enumerate(values)
            if value is not None and self.is_beyond(value)
        ]
        if not there:
            return None
        first = there[-1] if self.backwards else there[0]
        worst = self._worst(values)
        value = values[worst]
        assert value is not None
        layer, at = readings[first].number, readings[worst].number
        shown = (
            digits(value) if digits(value) != f"{self.limit:g}" else repr(value)
        )  # 1.4996 is not "1.5, below 1.5"
        text = self.text.format(layer=layer, worst=at, value=shown, limit=f"{self.limit:g}")
        pace = _pace(readings, values, worst, self.backwards) if self.is_product else ""
        return Finding(self.mode, self.symbol, layer, at, value, f"{text}.{pace}")

    def worst_value(self, readings: Sequence[Reading]) -> float | None:
        """The value of the worst layer; None if no layer has one."""
        values = self.of(readings)
        known = any(value is not None and not math.isnan(value) for value in values)
        return values[self._worst(values)] if known else None

    def excess(self, readings: Sequence[Reading]) -> float:
        """Powers of ten by which the worst layer exceeds the threshold; negative if no layer
        does."""
        value = self.worst_value(readings)
        if value is None or not value > 0:
            return 0.0 if value is None or not self.below else math.inf
        return (math.log10(self.limit) - math.log10(value)) * (1 if self.below else -1)

    def is_beyond(self, value: float) -> bool:
        """True if a value shows the failure mode."""
        return value < self.limit if self.below else value > self.limit

    def _worst(self, values: Sequence[float | None]) -> int:
        known = [
            (value, place)
            for place, value in enumerate(values)
            if value is not None and not math.isnan(value)
        ]
        extreme = (
            min(value for value, _ in known) if self.below else max(value for value, _ in known)
        )
        return next(place for value, place in known if value == extreme)


def find_problems(readings: Sequence[Reading]) -> list[Finding]:
    """All findings, in the order of :data:`CRITERIA`; empty if there are none."""
    if broken := _non_finite(readings):
        return [broken]
    return [
        finding for criterion in CRITERIA if (finding := criterion.finding(readings)) is not None
    ]


def _non_finite(readings: Sequence[Reading]) -> Finding | None:
    """The first layer whose input or output is not finite; if there is none, the last whose
    gradient is not finite."""
    places = [
        (r, what, v)
        for r in readings
        for what, v in (("the input of", r.norm), ("the output of", r.out))
    ]
    places += [(r, "the gradient of the input of", r.gradient) for r in reversed(readings)]
    for reading, what, value in places:
        if value is not None and not math.isfinite(value):
            text = f"{what} layer {reading.number} is not finite."
            return Finding("non_finite", "", reading.number, reading.number, value, text)
    return None


def _relative(of: Callable[[Reading], float | None], backwards: bool) -> Values:
    """Each value divided by the value at the layer where the pass begins."""

    def multiples(readings: Sequence[Reading]) -> list[float | None]:
        values = [of(reading) for reading in readings]
        start = next((v for v in (values[::-1] if backwards else values) if v), None)
        return [None if value is None or start is None else value / start for value in values]

    return multiples


def _each(of: Callable[[Reading], float | None]) -> Values:
    return lambda readings: [of(reading) for reading in readings]


def _cut_off(readings: Sequence[Reading]) -> list[float | None]:
    """Relative gradient norms; all None if shortcuts bring gradients to the first layer, which can
    then train."""
    values = GRADIENT(readings)
    first = next((value for value in values if value is not None), None)
    return values if first is not None and first < 1 / GROWN else [None] * len(values)


def _imbalance(readings: Sequence[Reading]) -> list[float | None]:
    return [reading.imbalance if len(readings) > SHALLOW else None for reading in readings]


def _growth_with_scale(reading: Reading) -> float | None:
    """The largest growth of the Lipschitz constant at multiples of the input."""
    if not reading.stretch or not reading.scaled:
        return None
    return max(value / reading.stretch for _, value in reading.scaled)


def _pace(
    readings: Sequence[Reading], values: Sequence[float | None], worst: int, backwards: bool
) -> str:
    """A sentence with the factor per layer, and the depth at which float32 runs out of range."""
    start = len(readings) - 1 if backwards else 0
    value, layers = values[worst], abs(worst - start)
    if not value or layers < 2:
        return ""
    slope = math.log10(value) / layers
    begin = readings[start].gradient if backwards else readings[start].norm
    left = (SMALLEST if slope < 0 else LARGEST) - math.log10(begin or 1.0)
    verb, end = ("shrinks", "underflow") if slope < 0 else ("grows", "overflow")
    return f" It {verb} by a factor of {10**slope:.2g} per layer; float32 would {end} after {left / slope:.0f} layers."


def digits(value: float | None) -> str:
    """A number with three digits, or with two digits and a power of ten (the same width)."""
    if value is None:
        return "-"
    text = f"{value:.3g}"
    return f"{value:.1e}" if "e" in text else text


NORM = _relative(lambda r: r.norm, backwards=False)
GRADIENT = _relative(lambda r: r.gradient, backwards=True)
MU = _relative(lambda r: r.gradient_mu, backwards=True)
CRITERIA = (
    Criterion(
        "dying_signal",
        "zeros",
        _each(lambda r: r.zeros),
        DEAD,
        "from layer {layer} on most nodes are zero in every channel: {value} of them in layer "
        "{worst}",
    ),
    Criterion(
        "dying_signal",
        "||X||",
        NORM,
        1 / GROWN,
        "from layer {layer} on ||X|| is less than {limit} times that of the first layer: "
        "{value} times in layer {worst}",
        below=True,
        is_product=True,
    ),
    Criterion(
        "exploding_signal",
        "||X||",
        NORM,
        GROWN,
        "from layer {layer} on ||X|| is more than {limit} times that of the first layer: "
        "{value} times in layer {worst}",
        is_product=True,
    ),
    Criterion(
        "equal_rows",
        "mu/||X||",
        _each(lambda r: r.share),
        LEVELLED,
        "from layer {layer} on mu(X)/||X|| is below {limit}: {value} in layer {worst}",
        below=True,
    ),
    Criterion(
        "rank_collapse",
        "rank(X)",
        _each(lambda r: r.rank or None),  # the rank of zeros is another finding
        ONE_DIRECTION,
        "from layer {layer} on the effective rank of X is below {limit}: {value} in layer {worst}",
        below=True,
    ),
    Criterion(
        "vanishing_gradients",
        "||G||",
        _cut_off,
        1 / GROWN,
        "from layer {layer} back ||G|| is less than {limit} times that of the last layer: "
        "{value} times in layer {worst}",
        below=True,
        backwards=True,
        is_product=True,
    ),
    Criterion(
        "expanding_gradients",
        "mu(G)",
        MU,
        GROWN,
        "from layer {layer} back mu(G) is more than {limit} times that of the last layer: "
        "{value} times in layer {worst}",
        backwards=True,
        is_product=True,
    ),
    Criterion(
        "smoothed_gradients",
        "mu/||G||",
        _each(lambda r: r.gradient_share),
        SMOOTHED,
        "from layer {layer} back mu(G)/||G|| is below {limit}: {value} in layer {worst}",
        below=True,
        backwards=True,
    ),
    Criterion(
        "unbounded_attention",
        "growth",
        _each(_growth_with_scale),
        STEEPER,
        "the Lipschitz constant of layer {worst} grows by a factor of {value} with its input, and "
        "no norm bounds it",
    ),
    Criterion(
        "imbalance",
        "|c|",
        _imbalance,
        UNBALANCED,
        "the weights on one side of the neurons that enter layer {worst} outweigh those on the "
        "other: "
        "|c| is {value} of all squares",
    ),
)
