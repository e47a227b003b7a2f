"""Compare steps with DGL, whose last release for CPUs needs an older torch, so an environment of
its own.

    python3.11 -m venv dgl-env
    dgl-env/bin/pip install dgl==2.1.0 torch==2.2.1 torchdata==0.7.1 \\
        'numpy<2' 'pandas<3' pyyaml pydantic
    python -m tools.bench.dgl_peer --python dgl-env/bin/python

Processes of ours and of DGL take turns. The weights are shared, and a case is refused unless both
models give equal scores; DGL has no LipschitzNorm, so its GAT is timed without, and the scores are
compared without.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnn_depth import DeepGNN
from tools.bench import children, graphs, sides, timing
from tools.bench.cases import CASES, Case

NAMES = ("gat-lip-30-h1", "gatv2-10-cora", "gatv2-10-squirrel", "gcn-64-cora", "gcn-64-chameleon")
SAMPLES = 3  # of a process


def write(case: Case, data: graphs.Data, path: Path) -> None:
    """A file with the graph, our weights, and the scores of our model without LipschitzNorm."""
    model = sides.ours(case, data, "off").model
    plain = DeepGNN(data.features, data.classes, **sides.parts(case) | {"norm": "none"})
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        scores = plain.eval()(*data.ours())
    given = {
        "x": data.x,
        "y": data.y,
        "train": data.train,
        "edge_index": data.edge_index,
        "scores": scores,
    }
    for name, weight in sides.parameters(model).items():
        given[f"w:{name}"] = weight.detach()
    np.savez(path, lr=np.float64(sides.LEARNING_RATE), **given)


def compare(case: Case, python: str, root: str | None, pairs: int) -> dict[str, Any]:
    """Milliseconds of both sides and their ratios in every pair of processes.

    Raises:
        ChildError: A process failed.
        ValueError: The models differ.
    """
    data = graphs.load(case.data, root)
    found: dict[str, list[float]] = {"dgl": [], "ours": []}
    where = ["--data", root] if root else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        write(case, data, file)
        of_dgl = ["tools.bench.dgl_side", case.name, str(file), str(SAMPLES)]
        of_ours = ["tools.bench.dgl_peer", "--one", case.name, *where]
        runs = {
            "dgl": partial(children.run, *of_dgl, python=python),
            "ours": partial(children.run, *of_ours),
        }
        for pair in range(pairs):
            for side in sorted(runs, reverse=pair % 2 == 1):
                done = runs[side]()
                if not done["difference"] <= sides.TOLERANCE:
                    raise ValueError(
                        f"{case.name}: the sides differ by {done['difference']:.1e} of the largest "
                        "score."
                    )
                found[side].append(1000 * statistics.median(done["seconds"]))
    ratios = [ours / dgl for ours, dgl in zip(found["ours"], found["dgl"], strict=True)]
    return {"case": case.name, "origin": data.origin, **found, "ratios": ratios}


def one(case: Case, root: str | None) -> dict[str, Any]:
    """Our side, compiled, in this process."""
    torch.set_num_threads(int(children.THREADS))
    torch.manual_seed(0)
    step = sides.ours(case, graphs.load(case.data, root), "on")
    seconds = timing.several(step, SAMPLES)
    if step.failure:
        raise SystemExit(f"not compiled: {step.failure}")
    return {"seconds": seconds, "difference": 0.0}


def row(found: dict[str, Any]) -> str:
    """A line of the table: median times, and the median and the range of the ratios."""
    dgl, ours, ratio = (statistics.median(found[key]) for key in ("dgl", "ours", "ratios"))
    low, high = min(found["ratios"]), max(found["ratios"])
    spread = f"{ratio:.2f} ({low:.2f}-{high:.2f})"
    return f"| {found['case']} | {found['origin']} | {dgl:.0f} | {ours:.0f} | {spread} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.dgl_peer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", help="the Python of an environment with DGL")
    parser.add_argument(
        "--case", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes (5)")
    parser.add_argument(
        "--data", default=os.environ.get("GNN_DEPTH_DATA"), metavar="ROOT", help="as in tools.bench"
    )
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(CASES[given.one], given.data)))
        return 0
    if not given.python:
        parser.error("--python is missing: name the Python of an environment with DGL.")
    python = str(Path(given.python).absolute())
    root = given.data and str(Path(given.data).expanduser().absolute())
    torch.manual_seed(0)
    print(
        "| case | data | DGL, ms | ours, ms | ours / DGL (range) |\n|---|---|---|---|---|",
        flush=True,
    )
    for name in given.case:
        try:
            print(row(compare(CASES[name], python, root, given.pairs)), flush=True)
        except (children.ChildError, ValueError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
