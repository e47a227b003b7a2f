"""Training steps on a GPU: ours on kernels, plain and compiled, beside PyTorch Geometric.

::

    python -m tools.bench.gpu --data ROOT --json FILE

All sides take turns in one process. A sample is a number of steps between two moments at which the
GPU has nothing left to do.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnn_depth.nn import native
from tools.bench import graphs, sides
from tools.bench.cases import CASES, Case

GPU_CASES = (
    "gat-lip-30-h1",
    "gat-lip-30-h8",
    "gatv2-10-cora",
    "gatv2-10-squirrel",
    "gcn-64-cora",
    "gcn-64-chameleon",
    "gt-lip-20-h8",
)
STEPS = 5  # in a sample
PLAIN = "ours, without kernels"


def on_device(data: graphs.Data, device: str) -> graphs.Data:
    """The data on another device."""
    moved = {name: getattr(data, name).to(device) for name in ("x", "y", "graph", "train")}
    return replace(data, **moved)


def sides_of(case: Case, data: graphs.Data, compiling: bool) -> dict[str, sides.Side]:
    """All sides by name, with equal weights and equal scores, after their first steps."""
    device = str(data.x.device)
    found = {"ours": sides.ours(case, data, "off"), PLAIN: sides.ours(case, data, "off")}
    if compiling:
        found["ours, compiled"] = sides.ours(case, data, "on")
    for kind in case.peers:
        if compiling or kind != "compiled":
            found[kind] = sides.peer(case, data, kind)
    for side in found.values():
        side.model.to(device)
    state = {name: value.clone() for name, value in found["ours"].model.state_dict().items()}
    for name, side in found.items():
        native.use(name != PLAIN)
        side()
        if name.startswith("ours"):
            side.model.load_state_dict(state)
        else:
            sides.share_weights(found["ours"].model, side.model)
        scores = side.scores()
        native.use(True)
        sides.check_equal(found["ours"].scores(), scores)
        native.use(name != PLAIN)
        if name == "compiled":
            side.model.compile()
        side()
    return found


def milliseconds(side: sides.Side) -> float:
    """Time of a step, in a sample of several."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        side()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / STEPS * 1e3


def peak(side: sides.Side) -> float:
    """Megabytes of a step above what is there before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    side()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def measure(case: Case, data: graphs.Data, rounds: int, compiling: bool) -> dict[str, Any]:
    """Median milliseconds of every side, their ratios to ours with the range, and peak memory."""
    found = sides_of(case, data, compiling)
    samples: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, side in found.items():
            native.use(name != PLAIN)
            samples[name].append(milliseconds(side))
    row: dict[str, Any] = {"case": case.name, "origin": data.origin}
    for name, side in found.items():
        native.use(name != PLAIN)
        ratios = [ours / other for ours, other in zip(samples["ours"], samples[name], strict=True)]
        row[name] = {
            "ms": statistics.median(samples[name]),
            "ours_to_it": [statistics.median(ratios), min(ratios), max(ratios)],
            "megabytes": peak(side),
            "failure": side.failure,
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.gpu", description=__doc__)
    parser.add_argument("--case", nargs="+", default=GPU_CASES, choices=CASES, metavar="NAME")
    parser.add_argument("--data", help="folder of the real data sets")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="also write the numbers here")
    parser.add_argument("--no-compile", action="store_true", help="leave compiled sides out")
    given = parser.parse_args()
    rows = []
    for name in given.case:
        data = on_device(graphs.load(CASES[name].data, given.data), "cuda")
        row = measure(CASES[name], data, given.rounds, not given.no_compile)
        rows.append(row)
        times = {side: value["ms"] for side, value in row.items() if isinstance(value, dict)}
        print(name, ", ".join(f"{side} {ms:.1f} ms" for side, ms in times.items()), flush=True)
        if given.json:
            found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
            Path(given.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
