"""``gnn-depth plot``: figures of runs."""

from argparse import SUPPRESS

from jsonargparse.typing import NonNegativeInt

from gnn_depth.cli.options import Options, load_runs
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.reports import figures
from gnn_depth.reports.table import SPREADS


def main(argv: list[str]) -> int:
    """Draw a figure into files."""
    options = parser().parse_args(argv)
    outputs = [check_output(output, figures.FORMATS) for output in options.output]
    # Options of the kinds, each with its own defaults: what is not given is not there.
    chosen = vars(options)
    common = ("kind", "folders", "where", "title", "output")
    kind, folders, where, title, _ = map(chosen.pop, common)
    # Before the runs are read, which takes long.
    figures.check_options(kind, chosen)
    picture = figures.draw(kind, load_runs(folders, where), **chosen)
    picture.finish(title)
    for output in outputs:
        write_whole(output, picture.save)
        print(output)
    print(" ".join(picture.notes))
    return 0


def parser() -> Options:
    options = Options(
        "plot",
        "Figures of runs: a metric against depth, and a measure over "
        "layers, over steps (history, heatmap) or against another one (scatter).",
        f"KIND FOLDER... --output FILE{'|'.join(figures.FORMATS)} [--OPTION VALUE]...",
    )
    add = options.add_argument
    add("kind", choices=tuple(figures.KINDS), metavar="KIND", help=", ".join(figures.KINDS))
    add("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    options.add_choice_of_values("--where", "which runs")
    add("--title", default="", help="heading of the figure")
    formats = ", ".join(figures.FORMATS)
    add("--output", nargs="+", required=True, metavar="FILE", help=f"files: {formats}")
    own = options.add_argument_group("of some kinds", argument_default=SUPPRESS).add_argument
    line = "axes whose values get a line each; by default all that vary"
    own("--line", nargs="*", metavar="AXIS", help=line)
    panel = "axes whose values get a panel each; in a heatmap all that vary"
    own("--panel", nargs="*", metavar="AXIS", help=panel)
    own("--x", help="depth: the x axis, depth or num_layers by default", metavar="AXIS")
    own("--published", metavar="FILE", help="depth: YAML file of published numbers")
    own("--metric", help="depth, scatter: test_METRIC_at_best_val of the task by default")
    own("--spread", help="depth: bars; std by default", choices=tuple(SPREADS))
    own("--measure", help="the measure, or two for a scatter", nargs="+", metavar="NAME")
    layers = "history: at most six by default"
    own("--layers", nargs="+", type=NonNegativeInt, help=layers)
    own("--when", help="layers: start or end of training, or both", choices=tuple(figures.WHEN))
    return options
