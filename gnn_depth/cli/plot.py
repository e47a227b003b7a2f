"""``gnn-depth plot``: a figure of runs, for a paper or for a browser."""

from argparse import SUPPRESS
from typing import Any

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options, natural
from gnn_depth.cli.outputs import check_output, plain_warnings, write_whole
from gnn_depth.cli.reports import load_runs
from gnn_depth.reports import figures
from gnn_depth.reports.figures.layers import WHEN
from gnn_depth.reports.figures.metrics import BAND_SPREADS
from gnn_depth.reports.figures.scatter import PLACES
from gnn_depth.reports.load import ReportError, ReportWarning

FIGURES = {
    "depth": "a metric against depth or another axis, with a band of its spread",
    "heatmap": "a measure at every layer and step",
    "layers": "a measure against the layer: start, end, and the range between its extremes",
    "history": "how a measure of neurons is distributed in a layer, over training",
    "convergence": "a metric over epochs, with a band of its spread",
    "scatter": "two measures against one another, coloured by a metric, or a metric against one measure",
}
# Each kind has its own defaults, so an option that is not given is not passed on.
CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "x": ("depth: axis to the right; depth or num_layers by default", {"metavar": "AXIS"}),
    "line": (
        "axes whose values get a line each, of a scatter a marker; by default all that vary, of a scatter none",
        {"nargs": "*", "metavar": "AXIS"},
    ),
    "panel": (
        "axes whose values get a panel each; by default none, of a heatmap all that vary",
        {"nargs": "*", "metavar": "AXIS"},
    ),
    "metric": ("depth, scatter: test_acc_at_best_val by default", {"metavar": "NAME"}),
    "spread": (
        "depth, convergence: standard deviation, which is the default, 95%% confidence interval, or no band",
        {"choices": BAND_SPREADS},
    ),
    "measure": (
        "heatmap, layers, history: one, scatter: two, or one for a metric against it; those that there are by default",
        {"nargs": "+", "metavar": "NAME"},
    ),
    "tag": ("convergence: val/acc by default", {"metavar": "NAME"}),
    "layers": ("history: which layers; at most six by default", {"nargs": "+", "type": natural, "metavar": "N"}),
    "when": ("layers: at the start of training, at its end, or both, which is the default", {"choices": WHEN}),
    "at": ("scatter: layer of each measure; last first by default", {"nargs": "+", "choices": PLACES}),
}


def main(words: list[str]) -> int:
    """Draw the figure that some words ask for.

    Args:
        words: What stands behind ``gnn-depth plot``.

    Raises:
        UsageError: What was asked for does not exist or does not fit.
    """
    options = parser().parse_args(words)
    output = check_output(options.output, figures.FORMATS)
    chosen = {name: getattr(options, name) for name in CHOICES if name in options}
    try:
        figures.check_options(options.kind, chosen)
        figures.writer(output.suffix)  # a library that is missing is missed before anything is read
        frame = load_runs(options.folders, options.where)
        with plain_warnings(ReportWarning):
            chart = figures.chart(options.kind, frame, **chosen)
        write_whole(output, lambda part: figures.save(chart, part, options.title))
    except ReportError as error:
        raise UsageError(str(error)) from error
    print(f"{output}\n{chart.caption}".rstrip())
    return 0


def parser() -> Options:
    options = Options(
        "plot",
        "Figures of runs: " + "; ".join(f"{kind}: {what}" for kind, what in FIGURES.items()) + ".",
        "KIND FOLDER... --output FILE.png|.pdf|.html [--OPTION VALUE]...",
    )
    options.add_argument("kind", choices=tuple(FIGURES), metavar="KIND", help=", ".join(FIGURES))
    options.add_argument("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    options.add_argument("--where", nargs="+", action="extend", default=[], metavar="AXIS=VALUE,...", help="which runs")
    options.add_argument("--title", default="", help="stands above the figure")
    options.add_argument(
        "--output", required=True, default=SUPPRESS, metavar="FILE", help=f"file to write: {', '.join(figures.FORMATS)}"
    )
    for name, (text, words) in CHOICES.items():
        options.add_argument(f"--{name}", default=SUPPRESS, help=text, **words)
    return options
