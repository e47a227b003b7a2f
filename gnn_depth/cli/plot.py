"""``gnn-depth plot``: figures of runs, for a paper or for a browser."""

from argparse import SUPPRESS
from typing import Any

from gnn_depth.cli.options import Options, load_runs, non_negative_int, positive_float
from gnn_depth.cli.outputs import check_output, plain_warnings, write_whole
from gnn_depth.reports import figures
from gnn_depth.reports.figures.measures import PLACES, WHEN
from gnn_depth.reports.figures.metrics import BAND_SPREADS
from gnn_depth.reports.load import ReportWarning

FIGURES = {
    "depth": "a metric against depth or another axis, with a band for its spread",
    "heatmap": "a measure at every layer and step",
    "layers": "a measure against the layer: start, end, and the range between its extremes",
    "history": "the distribution of a measure over the neurons of a layer, over training",
    "convergence": "a metric over epochs, with a band for its spread",
    "scatter": "two measures against each other, coloured by a metric, or a metric against one",
}
# Each kind has its own defaults: options that are not given are not passed on.
CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "x": ("depth: the x axis; depth or num_layers by default", {"metavar": "AXIS"}),
    "line": (
        "axes whose values get a line each, or a marker in a scatter; by default all that vary, "
        "none in a scatter",
        {"nargs": "*", "metavar": "AXIS"},
    ),
    "panel": (
        "axes whose values get a panel each; by default none, all that vary in a heatmap",
        {"nargs": "*", "metavar": "AXIS"},
    ),
    "metric": (
        "depth, scatter: the metric; test_METRIC_at_best_val of the task by default",
        {"metavar": "NAME"},
    ),
    "spread": (
        "depth, convergence: the band; std (standard deviation, the default), ci (95%% confidence "
        "interval) or none",
        {"choices": BAND_SPREADS},
    ),
    "measure": (
        "the measure, two for a scatter of both; by default the first that the runs have, in a "
        "scatter the only two",
        {"nargs": "+", "metavar": "NAME"},
    ),
    "tag": (
        "convergence: the metric; by default the one that chose the best epoch",
        {"metavar": "NAME"},
    ),
    "layers": (
        "history: the layers; at most six by default",
        {"nargs": "+", "type": non_negative_int, "metavar": "N"},
    ),
    "when": ("layers: the start of training, its end, or both (the default)", {"choices": WHEN}),
    "at": (
        "scatter: the layer of each measure; by default first of gradients, last of others",
        {"nargs": "+", "choices": PLACES},
    ),
}


def main(argv: list[str]) -> int:
    """Draw a figure into a file."""
    options = parser().parse_args(argv)
    output = check_output(options.output, figures.FORMATS)
    chosen = {name: getattr(options, name) for name in CHOICES if name in options}
    # Before the runs are read, which takes long.
    figures.check_options(options.kind, chosen)
    frame = load_runs(options.folders, options.where)
    with plain_warnings(ReportWarning):
        chart = figures.chart(options.kind, frame, **chosen)
    chart = figures.restyled(chart, options.log, options.xlabel, options.ylabel, options.caption)
    size = tuple(options.size) if options.size else None
    write_whole(output, lambda part: figures.save_figure(chart, part, options.title or "", size))
    print(f"{output}\n{chart.caption}".rstrip())
    return 0


def parser() -> Options:
    kinds = "; ".join(f"{kind}: {what}" for kind, what in FIGURES.items())
    options = Options(
        "plot",
        f"Figures of runs: {kinds}.",
        "KIND FOLDER... --output FILE.png|.pdf|.html [--OPTION VALUE]...",
    )
    add = options.add_argument
    add("kind", choices=tuple(FIGURES), metavar="KIND", help=", ".join(FIGURES))
    add("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    options.add_choice_of_values("--where", "which runs")
    add("--title", help="heading of the figure")
    add("--caption", help="text below the figure, instead of what the lines and bands mean")
    add("--xlabel", help="label of the x axis")
    add("--ylabel", help="label of the y axis")
    add(
        "--log",
        nargs="*",
        choices=("x", "y"),
        help="logarithmic axes: x, y or both; none with nothing behind it",
    )
    size = "inches, without legend and caption; a journal's column or page by default"
    add("--size", nargs=2, type=positive_float, metavar=("WIDTH", "HEIGHT"), help=size)
    formats = f"file to write: {', '.join(figures.FORMATS)}"
    add("--output", required=True, default=SUPPRESS, metavar="FILE", help=formats)
    for name, (text, arguments) in CHOICES.items():
        add(f"--{name}", default=SUPPRESS, help=text, **arguments)
    return options
