"""How an ailment is seen in the readings of a stack, and how that is said."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnn_depth.diagnostics.reading import Reading
from gnn_depth.nn.parts import FailureMode

TINIEST, LARGEST = -45.0, 38.5  # logarithms of what float32 has room for


@dataclass(frozen=True)
class Finding:
    """Something that will go wrong.

    Attributes:
        ailment: What.
        symbol: Of the number that shows it, as tables have it.
        layer: Where it is met first: on the way forwards, of gradients on the way back.
        worst: The layer that shows it best.
        value: The number there.
        text: In words.
    """

    ailment: FailureMode
    symbol: str
    layer: int
    worst: int
    value: float
    text: str


@dataclass(frozen=True)
class Sign:
    """How an ailment is seen.

    Attributes:
        ailment: Which.
        symbol: Of the number that shows it, as tables have it.
        of: That number of every layer; None where there is none.
        limit: Beyond it the ailment is there.
        words: Of its text, with {layer}, {value}, {worst} and {limit}.
        below: Whether beyond is below.
        backwards: Whether it is met on the way back.
        is_product: Whether each layer multiplies the number; then the text says by how much.
    """

    ailment: FailureMode
    symbol: str
    of: Callable[[Sequence[Reading]], list[float | None]]
    limit: float
    words: str
    below: bool = False
    backwards: bool = False
    is_product: bool = False

    def finding(self, readings: Sequence[Reading]) -> Finding | None:
        """What it shows of a stack; None where it does not."""
        values = self.of(readings)
        there = [place for place, value in enumerate(values) if value is not None and self.is_beyond(value)]
        if not there:
            return None
        first = there[-1] if self.backwards else there[0]
        worst = self._worst(values)
        value = values[worst]
        assert value is not None
        layer, at = readings[first].number, readings[worst].number
        text = self.words.format(layer=layer, worst=at, value=say(value), limit=f"{self.limit:g}")
        pace = _pace(readings, values, worst, self.backwards) if self.is_product else ""
        return Finding(self.ailment, self.symbol, layer, at, value, text + pace + ".")

    def worst_value(self, readings: Sequence[Reading]) -> float | None:
        """The number of the layer that is worst off; None where no layer has one."""
        values = self.of(readings)
        known = any(value is not None and not math.isnan(value) for value in values)
        return values[self._worst(values)] if known else None

    def excess(self, readings: Sequence[Reading]) -> float:
        """By how many powers of ten the worst layer is beyond the limit: below zero where none is."""
        value = self.worst_value(readings)
        if value is None or not value > 0:
            return 0.0 if value is None or not self.below else math.inf
        return (math.log10(self.limit) - math.log10(value)) * (1 if self.below else -1)

    def is_beyond(self, value: float) -> bool:
        """Whether a number shows it."""
        return value < self.limit if self.below else value > self.limit

    def _worst(self, values: Sequence[float | None]) -> int:
        known = [p for p, value in enumerate(values) if value is not None and not math.isnan(value)]
        return min(known, key=lambda p: values[p] if self.below else -values[p])  # type: ignore[operator, arg-type, return-value]


def say(value: float | None) -> str:
    """Three digits; of a power of ten two, which are as wide."""
    if value is None:
        return "-"
    text = f"{value:.3g}"
    return f"{value:.1e}" if "e" in text else text


def _pace(readings: Sequence[Reading], values: Sequence[float | None], worst: int, backwards: bool) -> str:
    """By which factor a layer changes it on the way, and how deep a stack float32 has room for."""
    start = len(readings) - 1 if backwards else 0
    value, layers = values[worst], abs(worst - start)
    if not value or layers < 2:
        return ""
    slope = math.log10(value) / layers
    begin = readings[start].gradient if backwards else readings[start].norm
    room = (TINIEST if slope < 0 else LARGEST) - math.log10(begin or 1.0)
    return f", a factor of {10**slope:.2g} a layer: float32 has room for {room / slope:.0f} layers of that"


def product(values: Sequence[float | None]) -> str:
    """The product of a number of all layers, of any size; unknown where one is."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "unknown"
    if any(math.isnan(value) for value in known):
        return "nan"
    if 0 in known:
        return "0"
    exponent = sum(math.log10(value) for value in known)
    return f"10^{exponent:.2f}" if abs(exponent) > 3 else f"{10**exponent:.3g}"
