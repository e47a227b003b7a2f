"""``gnn-depth export``: write a trained model as a file that PyTorch runs without this package."""

from gnn_depth.cli.options import Options


def main(argv: list[str]) -> int:
    """Export the model of a run."""
    options = parser().parse_args(argv)
    from gnn_depth.training.export import inputs_of, reads_tables
    from gnn_depth.training.finished import load
    from gnn_depth.training.loggers import quiet

    with quiet():
        run = load(options.run)
        path = run.export(options.output)
    print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB, the model of {run.checkpoint}")
    call = ", ".join(f"{name}={name}" for name in inputs_of(run.model))
    print(f'torch.export.load("{path}").module()({call}) gives its predictions')
    if reads_tables(run.model.schema):
        print(
            f'{path.with_suffix(".py")}: predict("nodes.csv", "edges.csv") predicts from raw '
            "tables, with PyTorch, pandas and PyYAML"
        )
    return 0


def parser() -> Options:
    options = Options(
        "export",
        "Write the trained model of a run as a file that PyTorch runs without this package.",
        "RUN --output FILE.pt2",
    )
    add = options.add_argument
    add("run", metavar="RUN", help="the folder of a run, or one above with a single run")
    add("--output", required=True, metavar="FILE", help="the file, which ends in .pt2")
    return options
