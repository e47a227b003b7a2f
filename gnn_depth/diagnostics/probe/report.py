"""The report of a probe: a table of the layers, the problems found and their remedies, as text and as a web page."""

import html
import io
import math
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth.diagnostics.probe.findings import CRITERIA, Finding, digits
from gnn_depth.diagnostics.probe.readings import Reading
from gnn_depth.diagnostics.probe.remedies import Remedy, Trial
from gnn_depth.nn.parts import FAILURE_MODES

MOST_ROWS = 14  # of a table that fits on a terminal's screen
COLUMNS: dict[str, Callable[[Reading], float | None]] = {
    "||X||": lambda r: r.norm,
    "||F(X)||": lambda r: r.out,
    "mu(X)": lambda r: r.mu,
    "mu/||X||": lambda r: r.share,
    "E(X)": lambda r: r.energy,
    "rank(X)": lambda r: r.rank,
    "||G||": lambda r: r.gradient,
    "mu(G)": lambda r: r.gradient_mu,
    "mu/||G||": lambda r: r.gradient_share,
    "||dW||": lambda r: r.weight_gradient,
    "constant": lambda r: r.stretch,
    "bound": lambda r: r.bound,
    "|c|": lambda r: r.imbalance,
    "delta": lambda r: r.defect,
}
LEGEND = (
    "X: input of layer F. G: gradient of the training loss with respect to X. dW: gradient of the layer's parameters. "
    "Dropout is off.",
    "mu: distance of the rows from their mean. E: Dirichlet energy. rank: effective rank.",
    "constant: Lipschitz constant, the largest singular value of the layer's Jacobian at X. bound: upper limit of the "
    "constant for any input.",
)
BALANCE_LEGEND = (
    "|c|: imbalance of the neurons of X as a share of all squared weights around them (median). delta: violation of "
    "the law that conserves c."
)
NO_PROBLEM = "No problem found in a single forward and backward pass."
NO_REMEDY = "no registered part that fits this model is declared as a remedy for this."
JOIN = "\N{NO-BREAK SPACE}"  # keeps the words of an option on one line
CHART_COLUMNS = 4
DECADES = 1.5  # positive values over a wider range get a logarithmic axis
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px; padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.3rem; }}
p {{ line-height: 1.45; margin: 0.35rem 0; overflow-wrap: anywhere; }}
code {{ white-space: nowrap; font-size: 0.95em; }}
svg {{ width: 100%; height: auto; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; margin: 1rem 0; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }}
thead th {{ border-bottom: 1px solid #444; }}
th:first-child {{ text-align: left; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class Report:
    """The result of a probe; ``print`` shows it.

    Attributes:
        title: Model and data.
        loss: The training loss.
        readings: A reading of every layer.
        findings: The problems found.
        remedies: Parts that treat some of them; None if none were looked for.
        trials: The model as it is and with each remedy; None if they were not tried.
        notes: Remarks on values that are missing.
    """

    title: str
    loss: float
    readings: Sequence[Reading]
    findings: Sequence[Finding]
    remedies: Sequence[Remedy] | None = None
    trials: Sequence[Trial] | None = None
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, every: bool = False, width: int | None = None) -> str:
        """The report as text: the table first, and the problems at its end.

        Args:
            every: Show all layers, not only some.
            width: Characters in a line; those of the terminal by default.
        """
        width = width or shutil.get_terminal_size().columns
        shown = self.readings if every else self._some()
        hidden = len(self.readings) - len(shown)
        notes = [f"{len(shown)} of {len(self.readings)} layers are shown; --layers all shows all."] if hidden else []
        blocks = [
            self.title,
            self._table(shown).to_string(line_width=width),
            _filled([*self._legend(), *notes], width),
            _filled(self._conclusions(), width, indent="   "),
        ]
        if self.trials:
            blocks += [self._trials().to_string(line_width=width), _filled([self._trials_legend()], width)]
        return "\n\n".join(blocks)

    def html(self, path: str | Path) -> None:
        """Write a self-contained web page: the problems, charts, and the table of all layers."""
        layers = [reading.number for reading in self.readings]
        charts = _charts(layers, {head: [of(r) for r in self.readings] for head, of in COLUMNS.items()})
        body = [_paragraph(line) for line in self._conclusions()]
        if self.trials:
            body += [f"<div>{self._trials().to_html(border=0)}</div>", _paragraph(self._trials_legend())]
        body += [charts, f"<div>{self._table(self.readings).to_html(border=0)}</div>"]
        body += [_paragraph(line) for line in self._legend()]
        Path(path).write_text(PAGE.format(title=html.escape(self.title), body="\n".join(body)), encoding="utf-8")

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
            groups.setdefault(remedy.treats, []).append(remedy.arguments.replace(" ", JOIN))
        if groups:
            yield "Remedies, as declared by the parts" + (":" if self.trials else "; --try measures their effect:")
        for treats, arguments in groups.items():
            yield f"{_listed([str(place + 1) for place in treats])}: {', '.join(arguments)}"
        treated = {place for treats in groups for place in treats}
        for place in range(len(self.findings)):
            if place not in treated:
                yield f"{place + 1}: {NO_REMEDY}"

    def _table(self, readings: Sequence[Reading]) -> pd.DataFrame:
        """A row for each reading, with the columns that have values."""
        scales = dict.fromkeys(scale for reading in self.readings for scale, _ in reading.scaled)
        columns = {head: of for head, of in COLUMNS.items() if any(of(r) is not None for r in self.readings)}
        fields = {head: [digits(of(r)) for r in readings] for head, of in columns.items()}
        fields |= {f"at {scale:g} X": [digits(dict(r.scaled).get(scale)) for r in readings] for scale in scales}
        return pd.DataFrame(fields, index=[r.number for r in readings]).rename_axis(columns="layer")

    def _legend(self) -> list[str]:
        balance = [BALANCE_LEGEND] if any(reading.imbalance is not None for reading in self.readings) else []
        constants, bounds = product([r.stretch for r in self.readings]), product([r.bound for r in self.readings])
        products = f"Product over all layers: constants {constants}, bounds {bounds}."
        return [*LEGEND, *balance, products, *self.notes]

    def _some(self) -> Sequence[Reading]:
        """A limited number of readings: the first, the last, those of the findings, and some between."""
        if len(self.readings) <= MOST_ROWS:
            return self.readings
        numbers = {reading.number: place for place, reading in enumerate(self.readings)}
        last = len(self.readings) - 1
        wanted = {0, last, *(numbers[finding.layer] for finding in self.findings)}
        free = max(MOST_ROWS - len(wanted), 2)
        wanted |= {round(step * last / (free + 1)) for step in range(1, free + 1)}
        return [self.readings[place] for place in sorted(wanted)]

    def _trials(self) -> pd.DataFrame:
        """For each trial the number of its problems, and the worst layer's values."""
        trials = self.trials or ()
        symbols = {finding.symbol for trial in trials for finding in trial.findings}
        fields = {"problems": [str(len(trial.findings)) for trial in trials]}
        for criterion in CRITERIA:
            if criterion.symbol in symbols:
                values = [criterion.worst_value(trial.readings) for trial in trials]
                marks = ["*" if value is not None and criterion.is_beyond(value) else " " for value in values]
                head = f"{criterion.symbol}{' <' if criterion.below else ' >'} {criterion.limit:g}"
                fields[head] = [digits(value) + mark for value, mark in zip(values, marks, strict=True)]
        return pd.DataFrame(fields, [trial.arguments or "as it is" for trial in trials]).rename_axis(columns="with")

    def _trials_legend(self) -> str:
        return (
            "Each model was probed once, at initialisation. Values are those of the worst layer: ||X|| relative to the "
            "first layer, ||G|| and mu(G) relative to the last. * beyond the limit."
        )


def product(values: Sequence[float | None]) -> str:
    """The product of a value over all layers as text, of any magnitude; unknown if one factor is."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "unknown"
    if any(math.isnan(value) for value in known):
        return "nan"
    if 0 in known:
        return "0"
    exponent = sum(math.log10(value) for value in known)
    return f"10^{exponent:.2f}" if abs(exponent) > 3 else f"{10**exponent:.3g}"


def _filled(lines: Iterator[str] | Sequence[str], width: int, indent: str = "") -> str:
    """Lines wrapped at a width; the words of an option stay together."""
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    wrapped = [textwrap.fill(line, width, subsequent_indent=indent, **options) for line in lines]
    return "\n".join(wrapped).replace(JOIN, " ")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _paragraph(text: str) -> str:
    """A paragraph in which options, joined by no-break spaces, are code that can be copied."""
    option = re.compile(r"(?<!\S)--[^\s,]+(?:\xa0[^\s,]+)*")
    marked = option.sub(lambda found: f"<code>{found[0]}</code>".replace(JOIN, " "), html.escape(text))
    return f"<p>{marked}</p>"


def _charts(layers: Sequence[int], curves: Mapping[str, Sequence[float | None]]) -> str:
    """One SVG picture with a small chart of each quantity over the layers, without those that have no value."""
    import matplotlib  # slow to import, and few reports draw
    from matplotlib.figure import Figure

    drawn = {title: values for title, values in curves.items() if any(value is not None for value in values)}
    rows = -(-len(drawn) // CHART_COLUMNS)
    if not rows:
        return ""
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9, "text.parse_math": False}):
        figure = Figure(figsize=(3 * CHART_COLUMNS, 1.9 * rows), layout="constrained")
        axes = figure.subplots(rows, CHART_COLUMNS, squeeze=False).ravel()
        for one in axes[len(drawn) :]:
            one.remove()
        for one, (title, values) in zip(axes, drawn.items(), strict=False):
            _chart(one, title, layers, values)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def _chart(axes: Any, title: str, layers: Sequence[int], values: Sequence[float | None]) -> None:
    """Draw a quantity over the layers; values that are not finite are marked at the bottom."""
    axes.set_title(title, fontsize=10, loc="left")
    known = [(layer, value) for layer, value in zip(layers, values, strict=True) if value is not None]
    finite = [value for _, value in known if math.isfinite(value)]
    heights = [value if math.isfinite(value) else math.nan for _, value in known]
    axes.plot([layer for layer, _ in known], heights, "o-", markersize=2.5)
    if finite and min(finite) > 0 and math.log10(max(finite) / min(finite)) > DECADES:
        axes.set_yscale("log")
    if lost := [layer for layer, value in known if not math.isfinite(value)]:
        axes.plot(lost, [0.02] * len(lost), "x", color="#D55E00", transform=axes.get_xaxis_transform())
        axes.set_xlabel("x: not finite", fontsize=8)
    axes.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.grid(axis="y", color="0.9")
