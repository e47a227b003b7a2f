"""``gnn-depth plot``: figures of runs."""

from argparse import SUPPRESS

from gnn_depth.cli.options import Options, load_runs, non_negative_int, positive_float
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.reports import figures
from gnn_depth.reports.table import SPREADS

# Options of the kinds, each with its own defaults: what is not given is not passed on.
OWN = ("x", "line", "panel", "metric", "spread", "measure", "tag", "layers", "when")


def main(argv: list[str]) -> int:
    """Draw a figure into a file."""
    options = parser().parse_args(argv)
    output = check_output(options.output, figures.FORMATS)
    chosen = {name: getattr(options, name) for name in OWN if name in options}
    # Before the runs are read, which takes long.
    figures.check_options(options.kind, chosen)
    picture = figures.draw(options.kind, load_runs(options.folders, options.where), **chosen)
    picture.finish(options.title, options.caption, options.log, options.size)
    write_whole(output, picture.save)
    print(output)
    print(" ".join(picture.notes))
    return 0


def parser() -> Options:
    options = Options(
        "plot",
        "Figures of runs: a metric against depth or over epochs (convergence), and a measure over "
        "layers, over steps (history, heatmap) or against another one (scatter).",
        f"KIND FOLDER... --output FILE{'|'.join(figures.FORMATS)} [--OPTION VALUE]...",
    )
    add = options.add_argument
    add("kind", choices=tuple(figures.KINDS), metavar="KIND", help=", ".join(figures.KINDS))
    add("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    options.add_choice_of_values("--where", "which runs")
    add("--title", default="", help="heading of the figure")
    add("--caption", help="text below the figure, instead of what its lines and bands mean")
    add("--log", nargs="*", choices=("x", "y"), help="logarithmic axes: x, y, both, or none")
    size = "inches; a journal's column or page by default"
    add("--size", nargs=2, type=positive_float, metavar=("WIDTH", "HEIGHT"), help=size)
    add("--output", required=True, metavar="FILE", help=f"file: {', '.join(figures.FORMATS)}")

    def own(flag: str, text: str, **arguments: object) -> None:
        add(flag, default=SUPPRESS, help=text, **arguments)  # type: ignore[arg-type]

    several = {"nargs": "*", "metavar": "AXIS"}
    own("--line", "axes whose values get a line each; by default all that vary", **several)
    own("--panel", "axes whose values get a panel each; in a heatmap all that vary", **several)
    own("--x", "depth: the x axis, depth or num_layers by default", metavar="AXIS")
    own("--metric", "depth, scatter: test_METRIC_at_best_val of the task by default")
    own("--spread", "depth, convergence: bars or band; std by default", choices=tuple(SPREADS))
    own("--tag", "convergence: the metric; by default the one that chose the best epoch")
    own("--measure", "the measure, or two for a scatter", nargs="+", metavar="NAME")
    own("--layers", "history: at most six by default", nargs="+", type=non_negative_int)
    own("--when", "layers: start or end of training, or both", choices=figures.WHEN)
    return options
