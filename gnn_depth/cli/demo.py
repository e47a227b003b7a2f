"""``gnn-depth demo``: a deep network that fails, why, and what helps, in about a minute.

It runs the commands that it shows.
"""

import io
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout

from gnn_depth.runs import new_run_folder

DEEP = ("--config", "expansion/res_gcn", "--config", "demo", "--model.num_layers", "32")
BOUND = ("--model.norm", "spectral", "--model.norm.per_depth", "8")
HEAT_MAP = ("--measure", "gradient_norm_hidden", "--panel", "name")
#: By the name of the run: what is trained, and its options.
NETWORKS = {
    "shallow": ("A residual GCN with 4 layers", (*DEEP[:-1], "4")),
    "deep": ("The same with 32 layers", DEEP),
    "bounded": ("32 layers whose weights are bounded", (*DEEP, *BOUND)),
    "gat_lip_30": (
        "A GAT with 30 layers and LipschitzNorm",
        ("--config", "gat_lip_30", "--config", "demo"),
    ),
}


def main(*, output: str = "runs/demo") -> int:
    """Train four networks on a small generated graph: what fails with depth, why, and what helps.
    No download.

    Args:
        output: The runs get a new folder in this one; runs/demo by default.
    """
    folder = str(new_run_folder(output, ""))
    for name, (text, options) in NETWORKS.items():
        run = ("fit", *options, "--run.root", folder, "--run.name", name)
        _run(text, run, ("test accuracy", "warning", "gradients"))
    picture = f"{folder}/gradients.png"
    _run("What one pass through the deep network shows before any training:", ("probe", *DEEP))
    _run("All four:", ("table", folder, "--rows", "name"))
    heat_map = ("plot", "heatmap", folder, *HEAT_MAP, "--output", picture)
    _run("The gradient of every layer in every step, as a picture:", heat_map)
    print(
        f"\nCurves: tensorboard --logdir {folder}\n"
        f"Try your own remedy: gnn-depth fit {shlex.join(DEEP)} --model.norm pair"
    )
    return 0


def _run(text: str, argv: tuple[str, ...], shown: tuple[str, ...] = ("",)) -> None:
    """Print a text and a command, run the command, and show the lines that begin so."""
    from gnn_depth import cli

    print(f"\n{text}\n$ gnn-depth {shlex.join(argv)}", flush=True)
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = cli.main(list(argv))
    if code:
        print(errors.getvalue().rstrip(), file=sys.stderr)
        raise SystemExit(code)
    for line in output.getvalue().rstrip().splitlines():
        if line.startswith(shown):
            print(line)
