"""Time and peak memory of one training step, and of building a graph, against the number of
edges."""

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

from tools.bench import children
from tools.bench.table import markdown, number
from tools.bench.timing import Patience, repeats, sample

FEATURES, CLASSES, DEGREE = 16, 7, 10
EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
REPEATS = 3
Row = dict[str, Any]


def measure(edges: int) -> Row:
    """In a fresh process: a random graph with so many edges, and a 3-layer GAT trained on it for
    some steps."""
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
    data = Data(
        x,
        torch.randint(CLASSES, (nodes,)),
        Graph(edge_index, nodes),
        torch.arange(nodes),
        CLASSES,
        "random",
    )
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


def render(rows: list[Row]) -> str:
    """The table: times, and the peak of the whole process."""
    lines = [("edges", "nodes", "build ms", "step ms", "us/edge", "peak GB")]
    for row in rows:
        build, step = number(row["build"] * 1e3), number(row["step"] * 1e3)
        each = f"{row['step'] / row['edges'] * 1e6:.2f}"
        lines.append(
            (
                f"{row['edges']:,}",
                f"{row['nodes']:,}",
                build,
                step,
                each,
                f"{row['peak'] / 1e9:.2f}",
            )
        )
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.scale", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--edges", type=int, nargs="+", default=EDGES)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.edges[0])))
        return
    print(
        render(
            children.each("tools.bench.scale", [["--edges", str(edges)] for edges in given.edges])
        )
    )


if __name__ == "__main__":
    main()
