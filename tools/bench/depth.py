"""Peak memory and time of one training step against the number of layers: a residual GCN on
Cora."""

import argparse
import json
import os
from functools import partial
from itertools import product
from typing import Any

from tools.bench import children
from tools.bench.cases import WIDTH
from tools.bench.table import markdown, number

DEPTHS = (16, 64, 256, 1024)
#: Options of the stack for each way to keep less of a pass.
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "checkpoint_every sqrt": {"checkpoint_every": "sqrt"},
    "reversible 2": {"reversible": 2},
}
LEARNING_RATE = 0.005
Row = dict[str, Any]


def measure(layers: int, way: str, data: str | None, steps: int) -> Row:
    """In a fresh process: some training steps."""
    import time

    import torch

    from gnn_depth import DeepGNN
    from gnn_depth.nn.layers import GCN
    from gnn_depth.nn.norms import LayerNorm
    from gnn_depth.nn.skips import Residual
    from tools.bench import graphs, memory
    from tools.bench.sides import Side

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    cora = graphs.load("cora", data)
    memory.tidy()
    before = memory.resident()
    model = DeepGNN(
        cora.features, cora.classes, GCN, layers, WIDTH, [LayerNorm], Residual, **WAYS[way]
    )
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    loss = partial(_loss, model, cora)
    step = Side(model, cora.ours, optimizer, cora.train, cora.y[cora.train])
    losses = [loss()]  # before and after: the ways must train alike
    memory.reset_peak()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    seconds = (time.perf_counter() - begin) / steps
    process = memory.peak()
    return {
        "layers": layers,
        "way": way,
        "origin": cora.origin,
        "seconds": seconds,
        "above": process - before,
        "process": process,
        "losses": [*losses, loss()],
    }


def _loss(model: Any, data: Any) -> float:
    """The loss of the training nodes."""
    import torch

    with torch.no_grad():
        scores = model(*data.ours())[data.train]
        return float(torch.nn.functional.cross_entropy(scores, data.y[data.train]))


def render(rows: list[Row]) -> str:
    """One line for each depth and way."""
    sizes = ("peak above data, MiB", "of the process, MiB")
    lines = [("layers", "kept", *sizes, "step ms", "loss before, after")]
    for row in rows:
        above, process = (f"{row[what] / 2**20:,.0f}" for what in ("above", "process"))
        milliseconds, losses = number(row["seconds"] * 1e3), ", ".join(map(number, row["losses"]))
        lines.append((str(row["layers"]), row["way"], above, process, milliseconds, losses))
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.depth", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--layers", type=int, nargs="+", default=DEPTHS)
    parser.add_argument(
        "--way", nargs="+", choices=WAYS, default=list(WAYS), help="what is kept of a pass"
    )
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--data", default=os.environ.get("GNN_DEPTH_DATA"), help="folder of the real data sets"
    )
    parser.add_argument(
        "--malloc",
        choices=children.MALLOCS,
        default="giving",
        help="what is done with memory that is freed",
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.layers[0], given.way[0], given.data, given.steps)))
        return
    how = ["--steps", str(given.steps)]
    if given.data:
        how += ["--data", given.data]
    runs = []
    for layers, way in product(given.layers, given.way):
        runs.append(["--layers", str(layers), "--way", way, *how])
    print(render(children.each("tools.bench.depth", runs, given.malloc)))


if __name__ == "__main__":
    main()
