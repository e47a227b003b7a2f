"""The report of a probe: a table of the layers, the problems found and their remedies, as text."""

import math
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import pandas as pd
from lightning.pytorch.loggers import Logger

from gnn_depth.diagnostics.loggers import log_findings
from gnn_depth.diagnostics.probe.findings import CRITERIA, FAILURE_MODES, Finding, digits
from gnn_depth.diagnostics.probe.layer_values import COLUMNS, LayerValues
from gnn_depth.diagnostics.probe.remedies import Remedy, RemedyProbe

MOST_ROWS = 14  # of a table that fits on a terminal's screen
LEGEND = (
    "X: input of layer F. G: gradient of the training loss with respect to X. dW: gradient of the "
    "layer's parameters. Dropout is off.",
    "mu: distance of the rows from their mean. E: Dirichlet energy. rank: effective rank.",
    "constant: Lipschitz constant, the largest singular value of the layer's Jacobian at X. bound: "
    "upper limit of the constant for any input.",
)
BALANCE_LEGEND = (
    "|c|: how far the neurons of X are from balance: squared weights in minus squared weights out, "
    "as a share of their sum (median). delta: 0 if the gradient leaves c unchanged, which theory "
    "says it does."
)
TRIALS_LEGEND = (
    "Each model was probed once, at initialisation. Values are those of the worst layer: ||X|| "
    "relative to the first layer, ||G|| and mu(G) relative to the last. * beyond the limit."
)
NO_PROBLEM = (
    "No problem found in a single forward and backward pass. Training can fail all the same: one "
    "pass does not show a learning rate that does not fit, states that grow alike while the "
    "weights change, or overfitting."
)
NO_REMEDY = "no registered part that fits this model is known as a remedy for this."
JOIN = "\N{NO-BREAK SPACE}"  # keeps the words of an option on one line


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a probe; ``print`` shows it, and so does a notebook.

    Attributes:
        title: Model and data.
        loss: The training loss.
        layers: The values of every layer.
        findings: The problems found.
        remedies: Parts that help against some of them; None if none were looked for.
        tried: The model as it is and with each remedy; None if they were not tried.
        notes: Remarks on values that are missing.
    """

    title: str
    loss: float
    layers: Sequence[LayerValues]
    findings: Sequence[Finding]
    remedies: Sequence[Remedy] | None = None
    tried: Sequence[RemedyProbe] | None = None
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return self.text()

    def text(self, every: bool = False, width: int | None = None) -> str:
        """The report as text: the table first, and the problems at its end.

        Args:
            every: Show all layers, not only some.
            width: Characters in a line; those of the terminal by default.
        """
        width = width or shutil.get_terminal_size().columns
        shown = self.layers if every else self._some()
        notes = self._legend()
        if len(shown) < len(self.layers):
            notes.append(
                f"{len(shown)} of {len(self.layers)} layers are shown; --layers all (in Python: "
                "text(every=True)) shows the others too."
            )
        blocks = [
            self.title,
            self._table(shown).to_string(line_width=width),
            _filled(notes, width),
            _filled(self._conclusions(), width, indent="   "),
        ]
        if self.tried:
            blocks += [self._trials().to_string(line_width=width), _filled([TRIALS_LEGEND], width)]
        return "\n\n".join(blocks)

    def frame(self) -> pd.DataFrame:
        """The numbers of all layers: a row for each layer, a column for each of the table; NaN for
        no value."""
        rows = []
        for layer in self.layers:
            rows.append([layer.value(head) for head in COLUMNS])
        numbers = pd.Index([layer.number for layer in self.layers], name="layer")
        frame = pd.DataFrame(rows, numbers, list(COLUMNS), dtype=float)
        return frame.dropna(axis=1, how="all")

    def log(self, *loggers: Logger) -> None:
        """Send the findings to loggers of Lightning: as text, tags or a summary, whichever they
        have."""
        findings = {}
        for number, finding in enumerate(self.findings, start=1):
            # Numbered, as a mode may be found twice.
            findings[f"{number}_{finding.mode}"] = asdict(finding)
        log_findings(loggers, "probe", findings)

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
            measures = "" if self.tried else "; --try measures whether they do"
            yield f"Parts that are meant to help{measures}:"
        treated: set[int] = set()
        for against, arguments in groups.items():
            numbers = [str(place + 1) for place in against]
            yield f"{', '.join(numbers)}: {', '.join(arguments)}"
            treated.update(against)
        for place in range(len(self.findings)):
            if place not in treated:
                yield f"{place + 1}: {NO_REMEDY}"

    def _table(self, layers: Sequence[LayerValues]) -> pd.DataFrame:
        """A row for each layer, with the columns that have values."""
        # Which columns there are does not depend on the layers that are shown.
        columns: dict[str, list[float | None]] = {}
        for head in COLUMNS:
            if any(layer.value(head) is not None for layer in self.layers):
                columns[head] = [layer.value(head) for layer in layers]
        for scale in dict.fromkeys(scale for layer in self.layers for scale, _ in layer.scaled):
            columns[f"at {scale:g} X"] = [dict(layer.scaled).get(scale) for layer in layers]
        numbers = [layer.number for layer in layers]
        cells = {head: list(map(digits, values)) for head, values in columns.items()}
        return pd.DataFrame(cells, numbers).rename_axis(columns="layer")

    def _legend(self) -> list[str]:
        lines = list(LEGEND)
        if any(layer.imbalance is not None for layer in self.layers):
            lines.append(BALANCE_LEGEND)
        constants = product_text([layer.stretch for layer in self.layers])
        bounds = product_text([layer.bound for layer in self.layers])
        lines.append(f"Product over all layers: constants {constants}, bounds {bounds}.")
        return [*lines, *self.notes]

    def _some(self) -> Sequence[LayerValues]:
        """A limited number of layers: the first, the last, those of the findings, and some
        between."""
        if len(self.layers) <= MOST_ROWS:
            return self.layers
        last = len(self.layers) - 1
        failing = {finding.layer for finding in self.findings}
        wanted = {place for place, layer in enumerate(self.layers) if layer.number in failing}
        wanted |= {0, last}
        free = max(MOST_ROWS - len(wanted), 2)
        wanted.update(round(step * last / (free + 1)) for step in range(1, free + 1))
        return [self.layers[place] for place in sorted(wanted)]

    def _trials(self) -> pd.DataFrame:
        """The number of problems with each remedy, and the worst layer's values."""
        tried = self.tried or ()
        fields = {"problems": [str(len(trial.findings)) for trial in tried]}
        symbols: set[str] = set()  # of the problems that any of them has
        for trial in tried:
            symbols.update(finding.symbol for finding in trial.findings)
        for criterion in CRITERIA:
            if criterion.symbol not in symbols:
                continue
            cells = []
            for trial in tried:
                value = criterion.worst_value(trial.layers)
                is_beyond = value is not None and criterion.is_beyond(value)
                mark = "*" if is_beyond else " "  # a blank, so that numbers stay aligned
                cells.append(digits(value) + mark)
            sign = "<" if criterion.below else ">"
            fields[f"{criterion.symbol} {sign} {criterion.limit:g}"] = cells
        rows = [trial.arguments or "as it is" for trial in tried]
        return pd.DataFrame(fields, rows).rename_axis(columns="with")


def product_text(values: Sequence[float | None]) -> str:
    """The product of a value over all layers as text, of any magnitude; unknown if one factor
    is."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "unknown"
    if any(math.isnan(value) for value in known):
        return "nan"
    if 0 in known:
        return "0"
    # Of hundreds of layers the product itself is beyond the range of floats.
    exponent = sum(map(math.log10, known))
    return f"10^{exponent:.2f}" if abs(exponent) > 3 else f"{10**exponent:.3g}"


def _filled(lines: Iterator[str] | Sequence[str], width: int, indent: str = "") -> str:
    """Lines wrapped at a width; the words of an option stay together."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent=indent)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return "\n".join(map(wrapper.fill, lines)).replace(JOIN, " ")
