"""Time and peak memory of one training step, and of building a graph, against the number of edges."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.bench import children
from tools.bench.table import markdown, number
from tools.bench.timing import Patience, exponent, repeats, sample, upper

FEATURES, CLASSES, DEGREE = 16, 7, 10
SMALLEST, PER_DECADE = 10_000, 2
BUDGET_GB, BUDGET_EDGES = 16.0, 10_000_000
REPEATS = 3
Row = dict[str, Any]


def measure(edges: int) -> Row:
    """In a fresh process: a random graph with so many edges, and a 3-layer GAT trained on it for some steps."""
    import torch

    from gnn_depth import DeepGNN
    from gnn_depth.graph import Graph
    from gnn_depth.nn.layers import GAT
    from tools.bench import memory
    from tools.bench.graphs import Data
    from tools.bench.sides import LEARNING_RATE, Side

    torch.set_num_threads(int(children.THREADS))
    nodes = edges // DEGREE
    edge_index, x = torch.randint(nodes, (2, edges)), torch.randn(nodes, FEATURES)
    data = Data(x, torch.randint(CLASSES, (nodes,)), Graph(edge_index, nodes), torch.arange(nodes), CLASSES, "random")
    patience = Patience()
    build = _median(lambda: Graph(edge_index, nodes).with_self_loops().rows(1), patience)
    model = DeepGNN(FEATURES, CLASSES, GAT, 3, 64)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    step = Side(model, data.ours, optimizer, data.train, data.y)
    memory.tidy()
    memory.reset_peak()
    step()
    seconds = _median(step, patience)
    return {"nodes": nodes, "edges": edges, "build": build, "step": seconds, "peak": memory.peak()}


def _median(call: Callable[[], object], patience: Patience) -> float:
    count = repeats(call)
    return statistics.median(sample(call, count, patience).seconds for _ in range(REPEATS))


def counts(largest: int) -> list[int]:
    """Numbers of edges from the smallest to the largest, evenly spaced in their logarithms."""
    sizes = [round(SMALLEST * 10 ** (rung / PER_DECADE)) for rung in range(50)]
    return [size for size in sizes if size <= largest]


def render(rows: list[Row]) -> str:
    """The table, the exponents of time against edges, and the memory budget."""
    lines = [("edges", "nodes", "build ms", "step ms", "us/edge", "peak GB")]
    for row in rows:
        build, step = number(row["build"] * 1e3), number(row["step"] * 1e3)
        each = f"{row['step'] / row['edges'] * 1e6:.2f}"
        lines.append((f"{row['edges']:,}", f"{row['nodes']:,}", build, step, each, f"{row['peak'] / 1e9:.2f}"))
    fits = [
        f"{what} time ~ edges^b: b = {overall:.2f} over all sizes, {last:.2f} over the upper two decades"
        for what, (overall, last) in exponents(rows).items()
    ]
    return "\n".join([markdown(lines), "", *fits, budget(rows[-1])])


def exponents(rows: list[Row]) -> dict[str, tuple[float, float]]:
    """Of building and of stepping: over all sizes, and over the upper two decades."""
    edges = [row["edges"] for row in rows]
    last = upper(edges, 2)
    fits = {}
    for what in ("build", "step"):
        times = [row[what] for row in rows]
        fits[what] = exponent(edges, times), exponent([edges[at] for at in last], [times[at] for at in last])
    return fits


def budget(row: Row) -> str:
    """What the largest graph took of the memory set for ten million edges."""
    used = f"peak of the whole process at {row['edges']:,} edges: {row['peak'] / 1e9:.2f} GB"
    if row["edges"] < BUDGET_EDGES:
        return f"{used} (the budget is {BUDGET_GB:g} GB at {BUDGET_EDGES:,})"
    return f"{used}, budget {BUDGET_GB:g} GB: {'met' if row['peak'] <= BUDGET_GB * 1e9 else 'not met'}"


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.scale", description=__doc__, allow_abbrev=False)
    parser.add_argument("--max-edges", type=int, default=BUDGET_EDGES, help=f"from {SMALLEST:,} up to this")
    parser.add_argument("--json", metavar="FILE", help="also write everything measured here")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one)))
        return
    if given.max_edges < SMALLEST:
        parser.error(f"--max-edges must be at least {SMALLEST}, not {given.max_edges}.")
    rows = []
    for edges in counts(given.max_edges):
        print(f"{edges:,} edges", file=sys.stderr, flush=True)
        rows.append(children.run("tools.bench.scale", "--one", str(edges)))
    if given.json:
        Path(given.json).write_text(json.dumps({"rows": rows, "exponents": exponents(rows)}, indent=1) + "\n")
    print(render(rows))


if __name__ == "__main__":
    main()
