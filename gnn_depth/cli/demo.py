"""``gnn-depth demo``: a deep network that fails, why, and what helps, in about a minute."""

import io
import math
import shutil
import textwrap
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.options import Options
from gnn_depth.config_file import shipped
from gnn_depth.runs import new_run_folder

if TYPE_CHECKING:
    from gnn_depth.cli.assemble import CommandLineInterface

OVERLAY = "demo"  # config with data, epochs and callbacks of all runs
GAIN = 0.1  # of accuracy, above which a difference between single runs is called one
WIDTH = 100  # characters in a line, or those of the terminal if it has fewer
REMEDY = ("--model.norm=spectral", "--model.norm.per_depth=8")


# By the name of the run: what the network is, its shipped config, and changes to that.
NETWORKS = {
    "shallow": ("residual GCN", "expansion/res_gcn", ("--model.num_layers=4",)),
    "deep": ("residual GCN", "expansion/res_gcn", ("--model.num_layers=32",)),
    "bounded": ("bounded GCN", "expansion/res_gcn", ("--model.num_layers=32", *REMEDY)),
    "gat_lip_30": ("gat_lip_30", "gat_lip_30", ()),
}


@dataclass(frozen=True)
class Trained:
    """A network after its training."""

    heading: str  # what it is, and its depth
    folder: Path  # of its run
    accuracy: float  # on the test set, at the best validation epoch; NaN if there was none
    ratio: float  # norm of the gradient at the first layer over that at the last, in the first step
    failures: str  # where gradients first failed


def main(argv: list[str]) -> int:
    """Run the demo."""
    show(parser().parse_args(argv).output)
    return 0


def parser() -> Options:
    options = Options(
        "demo",
        "Train four networks on a small generated graph: what fails with depth, why, and what "
        "helps. No download.",
        "[--output FOLDER]",
    )
    options.add_argument(
        "--output", default="runs/demo", metavar="FOLDER", help="the runs get a new folder there"
    )
    return options


def show(output: str, options: Sequence[str] = ()) -> None:
    """Probe a network that fails, train it, its remedy and two others, and show how they compare.

    A new folder below the output gets the runs and the picture; the options are those of ``fit``,
    for all networks.
    """
    import pandas as pd

    import gnn_depth.cli.assemble  # noqa: F401  (importing Lightning would undo what is silenced below)
    from gnn_depth.diagnostics.probe.findings import digits
    from gnn_depth.reports import figures
    from gnn_depth.reports.load import read_runs
    from gnn_depth.reports.sheets import Sheet, terminal
    from gnn_depth.training.loggers import quiet

    try:
        folder = new_run_folder(output, "")
    except ValueError as error:
        raise UsageError(
            f"--output {output}: no folder can be made there ({error.__cause__})."
        ) from error
    with quiet():
        chance = _probe(options)
        print("\nTraining, with the gradients of every layer recorded:", flush=True)
        trained = [_train(name, folder, options) for name in NETWORKS]
        head = ("network", "test accuracy", "gradient ratio", "gradients")
        lines = []
        for one in trained:
            lines.append((one.heading, percent(one.accuracy), digits(one.ratio), one.failures))
        note = (
            "Gradient ratio: norm at the first layer divided by that at the last, in the first "
            "step."
        )
        sheet = Sheet(pd.DataFrame(lines, columns=head), 1, [note])
        print(f"\n{terminal([sheet], _width())}")
        # Norms of gradients of the deep networks side by side, on one scale.
        frame = read_runs(*(one.folder for one in trained[1:]))
        drawn = figures.draw("heatmap", frame, measure="gradient_norm_hidden", panel=["name"])
        caption = (
            "Norm of the gradient of the loss with respect to the input of every layer, in every "
            "training step."
        )
        drawn.finish(caption=caption)
        picture = folder / "gradients.png"
        drawn.save(picture)
    print(f"Picture of the gradients: {picture}\n")
    _, deep, bounded, _ = trained
    _say(conclusion(deep, bounded, chance))
    print(
        "\nWhere to look next:\n"
        f"  gnn-depth probe --config {folder}/deep/*/config.yaml --try\n"
        f"  gnn-depth fit --config {folder}/deep/*/config.yaml --model.norm pair --run.name pair\n"
        f"  tensorboard --logdir {folder}"
    )


def _probe(options: Sequence[str]) -> float:
    """Print what a probe of the deep network finds, and return the accuracy of guessing."""
    from gnn_depth.cli.probe import probe_config
    from gnn_depth.diagnostics.probe.findings import FAILURE_MODES

    cli = _assemble("probe", "deep", options)
    report = probe_config(cli)
    _say(f"Probe of a {_heading('deep', cli)}, on a generated citation graph, before any training:")
    for finding in report.findings:
        _say(f"- {FAILURE_MODES[finding.mode]}: {finding.text}", "  ")
    legend = (
        "X: input of a layer. G: gradient of the loss with respect to X. mu: distance of the nodes "
        "from their mean."
    )
    _say(legend if report.findings else "no problem found.", "  ")
    if report.remedies:
        _say(
            f"{len(report.remedies)} registered parts are remedies for some of this. One of them "
            f"bounds the weights: {' '.join(REMEDY).replace('=', ' ')}"
        )
    return 1 / cli.datamodule.num_classes


def _train(name: str, folder: Path, options: Sequence[str]) -> Trained:
    """Train a network in a run folder of its own."""
    from gnn_depth.cli.run import train_in_command
    from gnn_depth.reports.load import read_measure

    cli = _assemble(
        "fit", name, [f"--run.root={folder}", "--trainer.enable_progress_bar=false", *options]
    )
    print(f"  {_heading(name, cli):<28}", end="", flush=True)
    began = time.monotonic()
    try:
        with redirect_stderr(io.StringIO()):  # the table says it all
            train_in_command(cli)
    except RunError:
        if cli.recorder.result.get("status") != "diverged":
            raise
    result, where = cli.recorder.result, cli.recorder.shown
    print(f"{result['epochs']} epochs, {time.monotonic() - began:.0f} s", flush=True)
    assert where is not None
    gradients = read_measure(where, "gradient_norm_hidden").values[0]  # log10
    found = result.get("findings", {}).get("FirstFailure", {})
    failures = [f"{kind} at layer {one['layer']}" for kind, one in found.items()]
    return Trained(
        _heading(name, cli),
        where,
        accuracy=result["metrics"].get("test_acc_at_best_val", math.nan),
        ratio=float(10.0 ** (gradients[0] - gradients[-1])),
        failures=", ".join(failures) or "no failure",
    )


def _heading(name: str, cli: "CommandLineInterface") -> str:
    return f"{NETWORKS[name][0]}, {len(cli.model.stack.layers)} layers"


def _assemble(command: str, name: str, options: Sequence[str]) -> "CommandLineInterface":
    from gnn_depth.cli.assemble import CommandLineInterface
    from gnn_depth.cli.config import read_arguments

    known, (_, config, changes) = shipped(own=False), NETWORKS[name]
    configs = [f"--config={known[each]}" for each in (config, OVERLAY)]
    argv = [*configs, f"--run.name={name}", *changes, *options]
    return CommandLineInterface(command, read_arguments(argv))


def conclusion(deep: Trained, remedied: Trained, chance: float) -> str:
    """A sentence on whether the deep network failed, and whether the remedy helped."""
    from gnn_depth.diagnostics.probe.findings import digits

    start = f"reaches {percent(deep.accuracy)}"
    if not deep.accuracy > chance + GAIN:
        start = f"learns nothing ({percent(deep.accuracy)}; guessing gives {percent(chance)})"
    end = f"the remedy did not help this time ({percent(remedied.accuracy)})"
    before = chance if math.isnan(deep.accuracy) else deep.accuracy
    if remedied.accuracy > before + GAIN:
        end = f"the same number of layers reaches {percent(remedied.accuracy)}"
    network = deep.heading.replace(", ", " of ")
    bounded = digits(remedied.ratio)
    return (
        f"The {network} {start}, and its gradient is {digits(deep.ratio)} times as large in the "
        f"first layer as in the last; with its weights bounded that factor is {bounded}, and {end}."
    )


def percent(accuracy: float) -> str:
    return "diverged" if math.isnan(accuracy) else f"{accuracy:.1%}"


def _say(text: str, indent: str = "") -> None:
    after = indent + "  " * text.startswith("- ")
    lines = textwrap.wrap(
        text, _width(), initial_indent=indent, subsequent_indent=after, break_on_hyphens=False
    )
    print("\n".join(lines), flush=True)


def _width() -> int:
    return min(WIDTH, shutil.get_terminal_size().columns)
