"""What a probe has to say, as a page of a terminal and as one of a browser."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from gnn_depth.cli.probe.remedies import Prescription
from gnn_depth.cli.probe.trial import Trial, shown
from gnn_depth.diagnostics.reading import Reading
from gnn_depth.diagnostics.signs import Finding, product, say
from gnn_depth.nn.parts import FAILURE_MODES
from gnn_depth.reports.formats import html_table, terminal
from gnn_depth.reports.sheets import Sheet
from gnn_depth.reports.web import JOIN, layer_charts, paragraph, web_page

MOST_ROWS = 14  # that a terminal's page has room for
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
    "X enters the layer F, G = dL/dX and dW are the gradients of the training nodes' loss L, without dropout.",
    "mu: distance of the rows from their mean; E: Dirichlet energy; rank: effective rank.",
    "constant: of Lipschitz, the largest singular value of dF(X)/dX; bound: what it cannot exceed at any X.",
)
OF_BALANCE = (
    "|c|: how far the neurons of X are from balance, as a share of the squares around them (median); delta: how far "
    "the law that conserves c is from holding."
)
NOTHING_WRONG = "Nothing will go wrong that one pass can show."
NO_REMEDY = "No registered part that fits this model says that it treats this."


@dataclass(frozen=True)
class Report:
    """All that a page says.

    Attributes:
        title: Of what model and data.
        readings: Of every layer.
        findings: What will go wrong.
        prescriptions: What treats it.
        trials: The model with each of them, itself first; None where that was not asked for.
        notes: What else there is to say of the table.
        complaints: What is wrong with what parts say of themselves.
    """

    title: str
    readings: Sequence[Reading]
    findings: Sequence[Finding]
    prescriptions: Sequence[Prescription]
    trials: Sequence[Trial] | None
    notes: Sequence[str]
    complaints: Sequence[str] = ()


def in_terminal(report: Report, every: bool, styled: bool) -> str:
    """The table, thinned out unless ``every`` layer is wanted, and what will go wrong at its end, where one looks."""
    sheet = _readings(report, every)
    parts = [terminal([sheet], styled=styled).rstrip(), _filled(_sayings(report))]
    if report.trials:
        parts.append(terminal([_trials(report.trials)], styled=styled).rstrip())
    return "\n\n".join(parts)


def in_browser(report: Report) -> str:
    """One page of HTML that needs no other file: what will go wrong, charts, and every layer's numbers."""
    layers = [reading.number for reading in report.readings]
    charts = layer_charts(layers, {head: [of(r) for r in report.readings] for head, of in COLUMNS.items()})
    sheet = _readings(report, every=True)
    trials = [html_table(_trials(report.trials))] if report.trials else []
    said = [paragraph(line) for line in _sayings(report)]
    body = [*said, *trials, charts, html_table(sheet)]
    return web_page(report.title, "\n".join(body))


def _filled(lines: Iterable[str]) -> str:
    """Lines as wide as the terminal; what is to be typed stays together."""
    width = Console().width
    wrapped = (
        textwrap.fill(line, width, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
        for line in lines
    )
    return "\n".join(wrapped).replace(JOIN, " ")


def _sayings(report: Report) -> Iterator[str]:
    """What will go wrong, by number, and what treats which of it."""
    if not report.findings:
        yield NOTHING_WRONG
        return
    yield "What will go wrong:"
    for place, finding in enumerate(report.findings, start=1):
        yield f"{place}. {FAILURE_MODES[finding.ailment].capitalize()}: {finding.text}"
    groups: dict[tuple[int, ...], list[str]] = {}
    for one in report.prescriptions:
        groups.setdefault(one.treats, []).append(one.words.replace(" ", JOIN))
    if groups:
        yield "What treats it, as the parts say of themselves" + ("." if report.trials else "; --try measures it:")
    for treats, words in groups.items():
        yield f"{_listed([str(place + 1) for place in treats])}: {', '.join(words)}"
    treated = {place for one in report.prescriptions for place in one.treats}
    for place in range(len(report.findings)):
        if place not in treated:
            yield f"{place + 1}: {NO_REMEDY}"
    yield from report.complaints


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _readings(report: Report, every: bool) -> Sheet:
    """The table of layers, with the columns that have something to say."""
    columns = {**COLUMNS, **_scaled(report.readings)}
    has = {head: of for head, of in columns.items() if any(of(r) is not None for r in report.readings)}
    shown_rows = report.readings if every else _thinned(report.readings, report.findings)
    lines = [(str(r.number), *(say(of(r)) for of in has.values())) for r in shown_rows]
    notes = [*LEGEND, *([OF_BALANCE] if "|c|" in has else [])]
    notes.append(
        f"product of all layers: constants {product([r.stretch for r in report.readings])}, "
        f"bounds {product([r.bound for r in report.readings])}."
    )
    if len(lines) < len(report.readings):
        notes.append(f"{len(lines)} of {len(report.readings)} layers; --layers all shows all.")
    return Sheet(report.title, ("layer", *has), 1, tuple(lines), (*notes, *report.notes))


def _scaled(readings: Sequence[Reading]) -> dict[str, Callable[[Reading], float | None]]:
    """A column for each multiple of the input that constants were measured at."""
    scales = dict.fromkeys(scale for reading in readings for scale, _ in reading.scaled)
    return {f"at {scale:g} X": lambda r, scale=scale: dict(r.scaled).get(scale) for scale in scales}


def _thinned(readings: Sequence[Reading], findings: Sequence[Finding]) -> Sequence[Reading]:
    """At most so many rows: the first and the last, those where something begins to go wrong, and some between."""
    if len(readings) <= MOST_ROWS:
        return readings
    numbers = {reading.number: place for place, reading in enumerate(readings)}
    last = len(readings) - 1
    wanted = {0, last, *(numbers[finding.layer] for finding in findings)}
    free = max(MOST_ROWS - len(wanted), 2)
    wanted |= {round(step * last / (free + 1)) for step in range(1, free + 1)}
    return [readings[place] for place in sorted(wanted)]


def _trials(trials: Sequence[Trial]) -> Sheet:
    """The worst layer's number of every model, and how much is wrong with it."""
    signs = shown(trials)
    fewest = min(len(trial.findings) for trial in trials)
    lines = []
    for trial in trials:
        values = [(sign, sign.worst_value(trial.readings)) for sign in signs]
        fields = [say(value) + "*" * (value is not None and sign.is_beyond(value)) for sign, value in values]
        lines.append((trial.words or "as it is", str(len(trial.findings)), *fields))
    best = frozenset((at, 1) for at, trial in enumerate(trials) if len(trial.findings) == fewest)
    ratios = "||X|| as a multiple of the first layer's, ||G|| and mu(G) of the last layer's."
    head = ("with", "wrong", *(f"{sign.symbol}{' <' if sign.below else ' >'} {sign.limit:g}" for sign in signs))
    notes = (f"Tried at initialisation, one pass each. Of the layer that is worst off: {ratios}", "* beyond the limit.")
    return Sheet("", head, 1, tuple(lines), notes, best)
