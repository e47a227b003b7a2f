"""``gnn-depth range``: from how far the nodes of a trained model read."""

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options
from gnn_depth.cli.outputs import check_output, write_whole

FORMATS = (".pdf", ".png", ".svg")


def main(argv: list[str]) -> int:
    """Measure the range of a run's model."""
    options = parser().parse_args(argv)
    output = None
    if options.output:
        output = check_output(options.output, FORMATS)
    from gnn_depth.training.finished import load
    from gnn_depth.training.loggers import quiet

    try:
        with quiet():
            run = load(options.run)
            found = run.range(options.nodes)
    except ValueError as error:
        raise UsageError(str(error)) from error
    print(found)
    print(f"the model has {len(run.model.stack.layers)} layers")
    if output:
        write_whole(output, found.plot().savefig)
        print(output)
    return 0


def parser() -> Options:
    options = Options(
        "range",
        "Show the share of the influence on test nodes that comes from each distance, in hops.",
        "RUN [--nodes N] [--output FILE]",
    )
    add = options.add_argument
    add("run", metavar="RUN", help="the folder of a run, or one above with a single run")
    add("--nodes", type=int, default=32, help="how many test nodes; 32 by default")
    add("--output", metavar="FILE", help="draw a bar for each distance into this file")
    return options
