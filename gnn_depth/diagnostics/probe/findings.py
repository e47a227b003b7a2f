"""Findings: the failure modes that a stack's layers show, and the layer where each begins."""

import math
from dataclasses import dataclass

import pandas as pd

from gnn_depth.diagnostics.first_failure import EXPANDED, SMOOTHED, STALLED

# Growth, and shrinking by its inverse, after which no learning rate suits both ends of the stack.
GROWN = EXPANDED
# Remaining share of a state's norm. On five small graphs (docs/misleading_measures.md) no model of
# 2 to 4 layers falls below it after training, and before training only SAGE with 3 or 4 layers.
SMOOTHED_STATES = 1e-2
ONE_DIRECTION = 1.5  # effective rank: nearer to one direction than to two
DEAD = 0.5  # share of the nodes
# Growth of a Lipschitz constant with its input; with bounded scores it does not grow.
STEEPER = 10.0
# Layers: 2 train as well out of balance as in balance, and 5 do not (Mustafa et al. 2023, table 2).
SHALLOW = 4
UNBALANCED = 0.6  # |c| as a share of all squares: one side of a neuron has four times the other's


#: A short description of each failure mode.
FAILURE_MODES: dict[str, str] = {
    "non_finite": "numbers overflow",
    "dying_signal": "the signal dies",
    "smoothed": "propagation smooths the features",
    "rank_collapse": "all nodes point in one direction",
    "exploding_signal": "the signal explodes",
    "vanishing_gradients": "gradients vanish",
    "expanding_gradients": "gradients expand",
    "smoothed_gradients": "propagation smooths the gradients",
    "stalled": "only the last layers train",
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


@dataclass(frozen=True)
class Criterion:
    """A threshold of a quantity beyond which a failure mode is present.

    Attributes:
        mode: The failure mode.
        symbol: The quantity: a column of a probe's values.
        limit: The threshold.
        text: The sentence for users, with {layer}, {value}, {worst} and {limit}.
        below: True if values below the threshold show the failure mode.
        backwards: True for gradients, which start at the last layer.
        relative: True if each value is divided by that of the layer where the pass begins; the
            sentence then gives the factor per layer.
        at_end: True if the failure mode is present only if the first layer shows it, too.
        deeper_than: Stacks of at most this many layers cannot show the failure mode.
        beside: A second quantity; the smaller one is compared, or the only one known.
        on_the_way: True if it does not count when the pass already begins beyond the threshold.
        in_most: True if the failure mode is present only if half of the layers show it.
    """

    mode: str
    symbol: str
    limit: float
    text: str
    below: bool = False
    backwards: bool = False
    relative: bool = False
    at_end: bool = False
    deeper_than: int = 0
    beside: str = ""
    on_the_way: bool = False
    in_most: bool = False

    def finding(self, layers: pd.DataFrame) -> Finding | None:
        """The finding in the layers of a stack; None if no layer is beyond the threshold."""
        symbols = [symbol for symbol in (self.symbol, self.beside) if symbol in layers]
        if not symbols or len(layers) <= self.deeper_than:
            return None
        values = layers[symbols].min(axis=1).dropna()
        begin = -1 if self.backwards else 0  # the place where the pass begins
        sign = -1 if self.below else 1
        if self.relative:
            start = values[values != 0]  # a state of zeros has no multiples
            if start.empty:
                return None
            values = values / start.iloc[begin]
        beyond = values[sign * values > sign * self.limit]
        if self.in_most and 2 * len(beyond) < len(values):
            return None
        if self.on_the_way and values.index[begin] in beyond.index:
            return None
        # Shortcuts may bring gradients to the first layer, which can then train.
        if beyond.empty or (self.at_end and beyond.index[0] != values.index[0]):
            return None
        first, worst = int(beyond.index[begin]), int((sign * values).idxmax())
        value = float(values[worst])
        text = self.text.format(
            layer=first, worst=worst, value=digits(value), limit=f"{self.limit:g}"
        )
        distance = abs(layers.index.get_loc(worst) - begin % len(layers))
        if self.relative and value and distance > 1:
            verb = {1: "grows", -1: "shrinks"}[sign]
            text += f". It {verb} by a factor of {value ** (1 / distance):.2g} per layer"
        return Finding(self.mode, self.symbol, first, worst, value, f"{text}.")


def find_problems(layers: pd.DataFrame) -> list[Finding]:
    """All findings in the values of layers, in the order of :data:`CRITERIA`."""
    broken = _non_finite(layers)
    if broken is not None:  # all that follows it is not finite either
        return [broken]
    found = [criterion.finding(layers) for criterion in CRITERIA]
    return [finding for finding in found if finding is not None]


def _non_finite(layers: pd.DataFrame) -> Finding | None:
    """The first layer whose input or output is not finite; if there is none, the last whose
    gradient is not finite."""
    forwards = {"||X||": "the input of", "||F(X)||": "the output of"}
    backwards = {"||G||": "the gradient of the input of"}
    for symbols, in_order in ((forwards, layers), (backwards, layers[::-1])):
        for number, row in in_order.iterrows():
            for symbol, what in symbols.items():
                if row.get(symbol) == math.inf:
                    text = f"{what} layer {number} is not finite."
                    return Finding("non_finite", symbol, number, number, math.inf, text)
    return None


def digits(value: float) -> str:
    """A number with three digits, or with two digits and a power of ten (the same width)."""
    if math.isnan(value):
        return "-"
    text = f"{value:.3g}"
    return f"{value:.1e}" if "e" in text else text


# In the order of the passes: a problem in the forward pass often causes those after it.
CRITERIA = (
    Criterion(
        "dying_signal",
        "zeros",
        DEAD,
        "from layer {layer} on most nodes are zero in every channel: {value} of them in layer "
        "{worst}",
    ),
    Criterion(
        "dying_signal",
        "||X||",
        1 / GROWN,
        "from layer {layer} on ||X|| is less than {limit} times that of the first layer: "
        "{value} times in layer {worst}",
        below=True,
        relative=True,
    ),
    Criterion(
        "exploding_signal",
        "||X||",
        GROWN,
        "from layer {layer} on ||X|| is more than {limit} times that of the first layer: "
        "{value} times in layer {worst}",
        relative=True,
    ),
    Criterion(
        "smoothed",
        "d(X)",
        SMOOTHED_STATES,
        "from layer {layer} on X is nearly the limit of repeated propagation, or equal for all "
        "nodes: the smaller of d and mu/||X|| is below {limit}, {value} in layer {worst}",
        below=True,
        beside="mu/||X||",
    ),
    Criterion(
        "rank_collapse",
        "rank(X)",
        ONE_DIRECTION,
        "from layer {layer} on the effective rank of X is below {limit}: {value} in layer {worst}",
        below=True,
    ),
    Criterion(
        "vanishing_gradients",
        "||G||",
        1 / GROWN,
        "from layer {layer} back ||G|| is less than {limit} times that of the last layer: "
        "{value} times in layer {worst}",
        below=True,
        backwards=True,
        relative=True,
        at_end=True,
    ),
    Criterion(
        "expanding_gradients",
        "mu(G)",
        GROWN,
        "from layer {layer} back mu(G) is more than {limit} times that of the last layer: "
        "{value} times in layer {worst}",
        backwards=True,
        relative=True,
    ),
    Criterion(
        "smoothed_gradients",
        "d(G)",
        SMOOTHED,
        "from layer {layer} back G is nearly the limit of repeated propagation, or equal for all "
        "nodes: the smaller of d and mu/||G|| is below {limit}, {value} in layer {worst}",
        below=True,
        backwards=True,
        beside="mu/||G||",
        on_the_way=True,
    ),
    Criterion(
        "stalled",
        "||dW||",
        STALLED,
        "from layer {layer} back ||dW|| is less than {limit} times that of the last layer: "
        "{value} times in layer {worst}",
        below=True,
        backwards=True,
        relative=True,
        in_most=True,
    ),
    Criterion(
        "unbounded_attention",
        "growth",
        STEEPER,
        "the Lipschitz constant of layer {worst} grows by a factor of {value} with its input, and "
        "no norm bounds it",
    ),
    Criterion(
        "imbalance",
        "|c|",
        UNBALANCED,
        "the weights on one side of the neurons that enter layer {worst} outweigh those on the "
        "other: |c| is {value} of all squares",
        deeper_than=SHALLOW,
    ),
)
