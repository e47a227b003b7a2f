"""``gnn-depth demo``: a deep network that fails, the measures that say why, and what helps, in about a minute."""

import io
import math
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnn_depth.cli.config_file import folders
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.options import Options
from gnn_depth.runs import new_run_folder

if TYPE_CHECKING:
    from gnn_depth.cli.assemble import CommandLineInterface

OVERLAY = "demo.yaml"  # data, epochs and callbacks of all runs
GAIN = 0.1  # of accuracy, above which a difference between single runs is called one
WIDTH = 100  # characters in a line, or those of the terminal if it has fewer


@dataclass(frozen=True)
class Network:
    """One of the networks that are compared.

    Attributes:
        name: Name of its run.
        label: What it is.
        config: Its shipped config.
        options: Changes to that.
    """

    name: str
    label: str
    config: str
    options: tuple[str, ...] = ()


REMEDY = ("--model.norm=spectral", "--model.norm.per_depth=8")
SHALLOW = Network("shallow", "residual GCN", "expansion/res_gcn.yaml", ("--model.num_layers=4",))
DEEP = Network("deep", "residual GCN", "expansion/res_gcn.yaml", ("--model.num_layers=32",))
BOUNDED = replace(DEEP, name="bounded", label="bounded GCN", options=(*DEEP.options, *REMEDY))
FLAGSHIP = Network("gat_lip_30", "gat_lip_30", "gat_lip_30.yaml")


@dataclass(frozen=True)
class Trained:
    """A network after its training.

    Attributes:
        label: What it is.
        layers: Number of its layers.
        folder: Folder of its run.
        accuracy: Test accuracy at the best validation epoch; NaN if there was none.
        ratio: Norm of the gradient at the first layer divided by that at the last layer, in the first step.
        failures: Where gradients first failed.
    """

    label: str
    layers: int
    folder: Path
    accuracy: float
    ratio: float
    failures: str

    @property
    def heading(self) -> str:
        """The label and the number of layers."""
        return _heading(self.label, self.layers)


def main(argv: list[str]) -> int:
    """Run the demo."""
    show(parser().parse_args(argv).output)
    return 0


def parser() -> Options:
    options = Options(
        "demo",
        "Train four networks on a small generated graph: what fails with depth, why, and what helps. No download.",
        "[--output FOLDER]",
    )
    options.add_argument("--output", default="runs/demo", metavar="FOLDER", help="the runs get a new folder there")
    return options


def show(output: str, options: Sequence[str] = ()) -> None:
    """Probe a network that fails, train it, its remedy and two others, and print and draw how they compare.

    Args:
        output: A new folder below it gets the runs and the picture.
        options: Options of ``fit`` for all networks.
    """
    import gnn_depth.cli.assemble  # noqa: F401  (importing Lightning would undo what is silenced below)
    from gnn_depth.cli.process import quiet

    try:
        folder = new_run_folder(output, "")
    except ValueError as error:
        raise UsageError(f"--output {output}: no folder can be made there ({error.__cause__}).") from error
    with quiet():
        chance = _probe(options)
        print("\nTraining, with the gradients of every layer recorded:", flush=True)
        shallow, deep, bounded, flagship = (
            _train(network, folder, options) for network in (SHALLOW, DEEP, BOUNDED, FLAGSHIP)
        )
        print(f"\n{_table([shallow, deep, bounded, flagship])}")
        picture = folder / "gradients.png"
        _draw([deep, bounded, flagship], picture)
    print(f"Picture of the gradients: {picture}\n")
    _say(conclusion(deep, bounded, chance))
    print(
        "\nWhere to look next:\n"
        f"  gnn-depth probe --config {folder}/{DEEP.name}/*/config.yaml --try\n"
        f"  gnn-depth fit --config {folder}/{DEEP.name}/*/config.yaml --model.norm pair --run.name pair\n"
        f"  tensorboard --logdir {folder}"
    )


def _probe(options: Sequence[str]) -> float:
    """Print what a probe of the deep network finds, and return the accuracy of guessing."""
    from gnn_depth.cli.probe import measure
    from gnn_depth.nn.parts import FAILURE_MODES

    cli = _assemble("probe", DEEP, options)
    report = measure(cli)
    heading = _heading(DEEP.label, len(cli.model.stack.layers))
    _say(f"Probe of a {heading}, on a generated citation graph, before any training:")
    for finding in report.findings:
        _say(f"- {FAILURE_MODES[finding.mode]}: {finding.text}", "  ")
    _say(
        "X: input of a layer. G: gradient of the loss with respect to X. mu: distance of the nodes from their mean."
        if report.findings
        else "no problem found.",
        "  ",
    )
    remedy = " ".join(REMEDY).replace("=", " ")
    declared = [one.arguments for one in report.remedies or ()]
    if remedy in declared:
        _say(
            f"{len(declared)} registered parts are remedies for some of this. One of them bounds the weights: {remedy}"
        )
    return 1 / cli.datamodule.num_classes


def _train(network: Network, folder: Path, options: Sequence[str]) -> Trained:
    """Train a network in a run folder of its own."""
    from gnn_depth.cli.run import start
    from gnn_depth.reports.load import read_measure

    cli = _assemble("fit", network, [f"--run.root={folder}", "--trainer.enable_progress_bar=false", *options])
    layers = len(cli.model.stack.layers)
    print(f"  {_heading(network.label, layers):<28}", end="", flush=True)
    began = time.monotonic()
    try:
        with redirect_stderr(io.StringIO()):  # the table says it all
            start(cli)
    except RunError:
        if cli.recorder.result.get("status") != "diverged":
            raise
    print(f"{cli.recorder.result['epochs']} epochs, {time.monotonic() - began:.0f} s", flush=True)
    result, where = cli.recorder.result, cli.recorder.shown
    assert where is not None
    gradients = read_measure(where, "gradient_norm_hidden").values[0]  # log10
    found = result.get("findings", {}).get("FirstFailure", {})
    return Trained(
        network.label,
        layers,
        where,
        result["metrics"].get("test_acc_at_best_val", math.nan),
        float(10.0 ** (gradients[0] - gradients[-1])),
        ", ".join(f"{kind} at layer {one['layer']}" for kind, one in found.items()) or "no failure",
    )


def _assemble(command: str, network: Network, options: Sequence[str]) -> "CommandLineInterface":
    from gnn_depth.cli.assemble import CommandLineInterface
    from gnn_depth.cli.config import read_arguments

    configs = [f"--config={shipped(name)}" for name in (network.config, OVERLAY)]
    return CommandLineInterface(
        command, read_arguments([*configs, f"--run.name={network.name}", *network.options, *options])
    )


def shipped(name: str) -> Path:
    """The file of a shipped config."""
    places = [folder / "configs" / name for folder in folders()[1:]]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise UsageError(
            f"configs/{name} is missing (looked for {', '.join(map(str, places))}); install gnn-depth again."
        )
    return found


def _heading(label: str, layers: int) -> str:
    return f"{label}, {layers} layers"


def _table(trained: Sequence[Trained]) -> str:
    from gnn_depth.diagnostics.probe.findings import digits
    from gnn_depth.reports.formats import terminal
    from gnn_depth.reports.sheets import Sheet

    head = ("network", "test accuracy", "gradient ratio", "gradients")
    lines = tuple((one.heading, percent(one.accuracy), digits(one.ratio), one.failures) for one in trained)
    notes = ("Gradient ratio: norm at the first layer divided by that at the last, in the first step.",)
    return terminal([Sheet("", head, 1, lines, notes)], _width(), styled=sys.stdout.isatty())


def _draw(trained: Sequence[Trained], path: Path) -> None:
    """Draw the gradient norms of networks side by side, on one scale."""
    from gnn_depth.reports import figures
    from gnn_depth.reports.load import load

    charts = [figures.chart("heatmap", load(one.folder), measure="gradient_norm_hidden") for one in trained]
    panels = tuple(replace(chart.panels[0], title=one.heading) for chart, one in zip(charts, trained, strict=True))
    caption = "Norm of the gradient of the loss with respect to the input of every layer, in every training step."
    figures.save(replace(charts[0], panels=panels, caption=caption), path)


def conclusion(deep: Trained, remedied: Trained, chance: float) -> str:
    """A sentence on whether the deep network failed, and whether the remedy helped, whatever was measured."""
    from gnn_depth.diagnostics.probe.findings import digits

    start = f"reaches {percent(deep.accuracy)}"
    if not deep.accuracy > chance + GAIN:
        start = f"learns nothing ({percent(deep.accuracy)}; guessing gives {percent(chance)})"
    end = f"the remedy did not help this time ({percent(remedied.accuracy)})"
    if remedied.accuracy > (chance if math.isnan(deep.accuracy) else deep.accuracy) + GAIN:
        end = f"the same {remedied.layers} layers reach {percent(remedied.accuracy)}"
    return (
        f"At {deep.layers} layers the {deep.label} {start}, and its gradient is {digits(deep.ratio)} times as large in "
        f"the first layer as in the last; with its weights bounded that factor is {digits(remedied.ratio)}, and {end}."
    )


def percent(accuracy: float) -> str:
    return "diverged" if math.isnan(accuracy) else f"{accuracy:.1%}"


def _say(text: str, indent: str = "") -> None:
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    after = indent + "  " * text.startswith("- ")
    print(textwrap.fill(text, _width(), initial_indent=indent, subsequent_indent=after, **options), flush=True)


def _width() -> int:
    return min(WIDTH, shutil.get_terminal_size().columns)
