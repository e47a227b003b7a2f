"""``gnn-depth export``: write a trained model as a file that PyTorch runs without this package."""

from pathlib import Path

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options


def main(argv: list[str]) -> int:
    """Export the model of a run."""
    options = parser().parse_args(argv)
    from gnn_depth.training.export import inputs_of, reads_tables
    from gnn_depth.training.finished import load
    from gnn_depth.training.loggers import quiet

    try:
        with quiet():
            run = load(options.run)
            path = run.export(options.output)
            call = ", ".join(f"{name}={name}" for name in inputs_of(run.model))
    except ValueError as error:
        raise UsageError(str(error)) from error
    size = Path(path).stat().st_size / 2**20
    print(f"{path}: {size:.1f} MiB, the model of {run.checkpoint}")
    print(f'torch.export.load("{path}").module()({call}) gives its predictions')
    if reads_tables(run.model.schema):
        module = path.with_suffix(".py")
        print(
            f'{module}: predict("nodes.csv", "edges.csv") predicts from raw tables, with PyTorch, '
            "pandas and PyYAML"
        )
    return 0


def parser() -> Options:
    options = Options(
        "export",
        "Write the trained model of a run as a file that PyTorch runs without this package.",
        "RUN --output FILE.pt2",
    )
    options.add_argument(
        "run", metavar="RUN", help="the folder of a run, or one above with a single run"
    )
    options.add_argument(
        "--output", required=True, metavar="FILE", help="the file, which ends in .pt2"
    )
    return options
