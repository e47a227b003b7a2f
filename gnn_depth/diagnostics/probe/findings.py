"""Findings: the failure modes that a stack's layers show, and the layer where each begins."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnn_depth.diagnostics.first_failure import EXPANDED, SMOOTHED
from gnn_depth.diagnostics.probe.layer_values import LayerValues

SMALLEST, LARGEST = -45.0, 38.5  # the range of float32, as powers of ten

# Growth, and shrinking by its inverse, after which no learning rate suits both ends of the stack.
GROWN = EXPANDED
LEVELLED = 1e-2  # share of the norm in which nodes still differ
ONE_DIRECTION = 1.5  # effective rank: nearer to one direction than to two
DEAD = 0.5  # share of the nodes
# Growth of a Lipschitz constant with its input; with bounded scores it does not grow.
STEEPER = 10.0
# Layers: 2 train as well out of balance as in balance, and 5 do not (Mustafa et al. 2023, table 2).
SHALLOW = 4
UNBALANCED = 0.6  # |c| as a share of all squares: one side of a neuron has four times the other's


#: Failure modes of deep stacks, in words.
FAILURE_MODES: dict[str, str] = {
    "non_finite": "numbers overflow",
    "dying_signal": "the signal dies",
    "equal_rows": "all nodes become equal",
    "rank_collapse": "all nodes point in one direction",
    "exploding_signal": "the signal explodes",
    "vanishing_gradients": "gradients vanish",
    "expanding_gradients": "gradients expand",
    "smoothed_gradients": "all nodes get the same gradient",
    "unbounded_attention": "attention is not bounded",
    "imbalance": "neurons are out of balance",
}


@dataclass(frozen=True)
class Finding:
    """A failure mode that the values of the layers show.

    Attributes:
        mode: The failure mode.
        symbol: The quantity that shows it, as in the table.
        layer: The first layer that shows it; for gradients the first on the way back.
        worst: The layer that shows it most.
        value: The value there.
        text: A sentence for users.
    """

    mode: str
    symbol: str
    layer: int
    worst: int
    value: float
    text: str


Values = Callable[[Sequence[LayerValues]], list[float | None]]


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

    mode: str
    symbol: str
    of: Values
    limit: float
    text: str
    below: bool = False
    backwards: bool = False
    is_product: bool = False

    def finding(self, layers: Sequence[LayerValues]) -> Finding | None:
        """The finding in the layers of a stack; None if no layer is beyond the threshold."""
        values = self.of(layers)
        beyond = []
        for place, known in enumerate(values):
            if known is not None and self.is_beyond(known):
                beyond.append(place)
        if not beyond:
            return None
        first = beyond[-1] if self.backwards else beyond[0]  # where the pass comes to it first
        value = self.worst_value(layers)
        assert value is not None
        worst = values.index(value)
        shown = digits(value)
        if shown == f"{self.limit:g}":  # 1.4996 is not "1.5, below 1.5"
            shown = repr(value)
        first, at = layers[first].number, layers[worst].number
        text = self.text.format(layer=first, worst=at, value=shown, limit=f"{self.limit:g}") + "."
        if self.is_product:
            text += _pace(layers, values, worst, self.backwards)
        return Finding(self.mode, self.symbol, first, at, value, text)

    def worst_value(self, layers: Sequence[LayerValues]) -> float | None:
        """The value of the worst layer; None if no layer has one."""
        known = []
        for value in self.of(layers):
            if value is not None and not math.isnan(value):
                known.append(value)
        if not known:
            return None
        return min(known) if self.below else max(known)

    def excess(self, layers: Sequence[LayerValues]) -> float:
        """Powers of ten by which the worst layer exceeds the threshold; negative if no layer
        does."""
        value = self.worst_value(layers)
        if value is None:
            return 0.0
        if not value > 0:  # zero is infinitely many powers of ten below the threshold
            return math.inf if self.below else 0.0
        excess = math.log10(value) - math.log10(self.limit)
        return -excess if self.below else excess

    def is_beyond(self, value: float) -> bool:
        """True if a value shows the failure mode."""
        return value < self.limit if self.below else value > self.limit


def find_problems(layers: Sequence[LayerValues]) -> list[Finding]:
    """All findings, in the order of :data:`CRITERIA`; empty if there are none."""
    broken = _non_finite(layers)
    if broken is not None:  # all that follows it is not finite either
        return [broken]
    found = []
    for criterion in CRITERIA:
        finding = criterion.finding(layers)
        if finding is not None:
            found.append(finding)
    return found


def _non_finite(layers: Sequence[LayerValues]) -> Finding | None:
    """The first layer whose input or output is not finite; if there is none, the last whose
    gradient is not finite."""
    places: list[tuple[LayerValues, str, float | None]] = []
    for layer in layers:
        places += [(layer, "the input of", layer.norm), (layer, "the output of", layer.out)]
    for layer in reversed(layers):
        places.append((layer, "the gradient of the input of", layer.gradient))
    for layer, what, value in places:
        if value is not None and not math.isfinite(value):
            text = f"{what} layer {layer.number} is not finite."
            return Finding("non_finite", "", layer.number, layer.number, value, text)
    return None


def _relative(of: Callable[[LayerValues], float | None], backwards: bool) -> Values:
    """Each value divided by the value at the layer where the pass begins."""

    def multiples(layers: Sequence[LayerValues]) -> list[float | None]:
        values = list(map(of, layers))
        in_order = reversed(values) if backwards else values
        start = next(filter(None, in_order), None)  # a state of zeros has no multiples
        if start is None:
            return [None] * len(values)
        return [None if value is None else value / start for value in values]

    return multiples


def _each(of: Callable[[LayerValues], float | None]) -> Values:
    return lambda layers: list(map(of, layers))


def _cut_off(layers: Sequence[LayerValues]) -> list[float | None]:
    """Relative gradient norms; all None if shortcuts bring gradients to the first layer, which can
    then train."""
    values = GRADIENT(layers)
    first = next((value for value in values if value is not None), None)
    if first is None or first >= 1 / GROWN:
        return [None] * len(values)
    return values


def _imbalance(layers: Sequence[LayerValues]) -> list[float | None]:
    if len(layers) <= SHALLOW:
        return [None] * len(layers)
    return [layer.imbalance for layer in layers]


def _growth_with_scale(layer: LayerValues) -> float | None:
    """The largest growth of the Lipschitz constant at multiples of the input."""
    if not layer.stretch or not layer.scaled:
        return None
    return max(value / layer.stretch for _, value in layer.scaled)


def _pace(
    layers: Sequence[LayerValues], values: Sequence[float | None], worst: int, backwards: bool
) -> str:
    """A sentence with the factor per layer, and the depth at which float32 runs out of range."""
    start = len(layers) - 1 if backwards else 0
    value, distance = values[worst], abs(worst - start)
    if not value or distance < 2:
        return ""
    slope = math.log10(value) / distance
    begin = layers[start].gradient if backwards else layers[start].norm
    verb, end, edge = "grows", "overflow", LARGEST
    if slope < 0:
        verb, end, edge = "shrinks", "underflow", SMALLEST
    left = edge - math.log10(begin or 1.0)
    return (
        f" It {verb} by a factor of {10**slope:.2g} per layer; float32 would {end} after "
        f"{left / slope:.0f} layers."
    )


def digits(value: float | None) -> str:
    """A number with three digits, or with two digits and a power of ten (the same width)."""
    if value is None:
        return "-"
    text = f"{value:.3g}"
    return f"{value:.1e}" if "e" in text else text


NORM = _relative(lambda r: r.norm, backwards=False)
GRADIENT = _relative(lambda r: r.gradient, backwards=True)
MU = _relative(lambda r: r.gradient_mu, backwards=True)
# In the order of the passes: what goes wrong forwards is often the reason of what follows it.
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
        "other: |c| is {value} of all squares",
    ),
)
