"""The report of a probe: a table of the layers, the problems found and their remedies, as text."""

import math
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
from lightning.pytorch.loggers import Logger

from gnn_depth.diagnostics.loggers import log_findings
from gnn_depth.diagnostics.probe.findings import FAILURE_MODES, Finding, digits
from gnn_depth.diagnostics.probe.layer_values import FLOOR_SYMBOLS
from gnn_depth.diagnostics.probe.remedies import Remedy

MOST_ROWS = 14  # of a table that fits on a terminal's screen
# Columns that only findings and remarks need.
NOT_SHOWN = ["zeros", "growth", *FLOOR_SYMBOLS]
LEGEND = (
    "X: input of layer F. G: gradient of the training loss with respect to X. dW: gradient of the "
    "layer's parameters. Dropout is off.",
    "mu: distance of the rows from their mean. d: distance from the limit of the layer's repeated "
    "propagation, as a share of the norm. E: Dirichlet energy. rank: effective rank.",
    "constant: Lipschitz constant, the largest singular value of the layer's Jacobian at X. bound: "
    "upper limit of the constant for any input, where one is known.",
)
BALANCE_LEGEND = (
    "|c|: how far the neurons of X are from balance: squared weights in minus squared weights out, "
    "as a share of their sum (median). delta: 0 if the gradient leaves c unchanged, which theory "
    "says it does."
)
NO_PROBLEM = (
    "No problem found in a single forward and backward pass. Training can fail all the same: one "
    "pass does not show a learning rate that does not fit, states that grow alike while the "
    "weights change, or overfitting."
)
STRONGER = (
    "One pass does not tell whether the model will learn: --steps 100 (in Python: steps=100) "
    "trains it, and the same model with 4 layers, for 100 steps."
)
NO_REMEDY = "no registered part that fits this model is known as a remedy for this."
JOIN = "\N{NO-BREAK SPACE}"  # keeps the words of an option on one line


@dataclass(frozen=True, repr=False, eq=False)
class Report:
    """The result of a probe; ``print`` shows it, and so does a notebook.

    Attributes:
        title: Model and data.
        loss: The training loss.
        values: The values of every layer.
        findings: The problems found.
        remedies: Parts that help against some of them; None if none were looked for.
        notes: Remarks on values that are missing.
        trainings: Loss and gradient in short trainings of the model and of its shallow form; None
            if there were none.
    """

    title: str
    loss: float
    values: pd.DataFrame
    findings: Sequence[Finding]
    remedies: Sequence[Remedy] | None = None
    notes: Sequence[str] = ()
    trainings: pd.DataFrame | None = None

    def __repr__(self) -> str:
        return self.text()

    def text(self, every: bool = False, width: int | None = None) -> str:
        """The report as text: the table first, and the problems at its end.

        Args:
            every: Show all layers, not only some.
            width: Characters in a line; those of the terminal by default.
        """
        width = width or shutil.get_terminal_size().columns
        shown, count = self.values, len(self.values)
        lines = list(LEGEND)
        if "|c|" in shown:
            lines.append(BALANCE_LEGEND)
        lines.append(
            "Product over all layers F, without skip connections: constants "
            f"{self._product('constant')}, bounds {self._product('bound')}."
        )
        for symbol in FLOOR_SYMBOLS:
            if symbol in shown:
                lowest = digits(shown[symbol].min())
                lines.append(f"The {symbol} on this graph, where d is 0: {lowest}.")
        lines += self.notes
        if count > MOST_ROWS and not every:
            # The layers of the findings, and others at equal distances.
            failing = shown.index.get_indexer([finding.layer for finding in self.findings])
            evenly = np.linspace(0, count - 1, max(MOST_ROWS - len(failing), 2))
            shown = shown.iloc[np.union1d(failing, evenly.round().astype(int))]
            lines.append(
                f"{len(shown)} of {count} layers are shown; --layers all (in Python: "
                "text(every=True)) shows the others too."
            )
        cells = shown.drop(columns=NOT_SHOWN, errors="ignore").map(digits)
        blocks = [
            self.title,
            cells.rename_axis(columns="layer").to_string(line_width=width),
            _filled(lines, width),
            _filled(self._conclusions(), width, indent="   "),
        ]
        if self.trainings is None:
            blocks.append(_filled([STRONGER], width))
        else:
            blocks.append(self.trainings.map(digits).to_string(line_width=width))
        return "\n\n".join(blocks)

    def frame(self) -> pd.DataFrame:
        """The values of all layers: a row for each layer, a column for each quantity; NaN for no
        value."""
        return self.values.rename_axis(index="layer")

    def log(self, *loggers: Logger) -> None:
        """Send the findings to loggers of Lightning: as text, tags or a summary, whichever they
        have."""
        # Numbered, as a mode may be found twice.
        numbered = enumerate(self.findings, start=1)
        findings = {f"{number}_{found.mode}": asdict(found) for number, found in numbered}
        log_findings(loggers, "probe", findings)

    def _product(self, symbol: str) -> str:
        """The product of a value over all layers as text, of any magnitude; unknown if one factor
        is."""
        factors = self.values.get(symbol)
        if factors is None or factors.isna().any():
            return "unknown"
        return f"{math.prod(map(Decimal, factors)):.3g}"

    def _conclusions(self) -> Iterator[str]:
        """The numbered problems, and the remedies of each."""
        if not self.findings:
            yield NO_PROBLEM
            return
        yield "Problems found:"
        for place, finding in enumerate(self.findings, start=1):
            yield f"{place}. {FAILURE_MODES[finding.mode].capitalize()}: {finding.text}"
        if self.remedies is None:
            return
        groups: dict[tuple[int, ...], list[str]] = {}
        for remedy in self.remedies:
            groups.setdefault(remedy.against, []).append(remedy.arguments.replace(" ", JOIN))
        if groups:
            yield "Parts that are meant to help:"
        for against, arguments in groups.items():
            numbers = [str(place + 1) for place in against]
            yield f"{', '.join(numbers)}: {', '.join(arguments)}"
        for place in range(len(self.findings)):
            if not any(place in against for against in groups):
                yield f"{place + 1}: {NO_REMEDY}"


def _filled(lines: Iterator[str] | Sequence[str], width: int, indent: str = "") -> str:
    """Lines wrapped at a width; the words of an option stay together."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent=indent)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return "\n".join(map(wrapper.fill, lines)).replace(JOIN, " ")
