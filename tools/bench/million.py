"""A training step on a graph of a million nodes and ten million edges, and its memory: ours and a
product with ``torch.sparse``. ``python -m tools.bench.million``

Each side runs in processes of its own, in turns.
"""

import argparse
import json
import operator
import statistics
import time
from typing import Any

from tools.bench import children
from tools.bench.table import markdown

NODES, PAIRS = 1_000_000, 5_000_000
FEATURES, CLASSES, WIDTH, LAYERS = 64, 10, 64, 3
SIDES = ("ours", "torch.sparse")
NUMBERS = ("first step, s", "step, s", "peak memory, GB")
Row = dict[str, Any]


def measure(side: str, nodes: int, pairs: int, steps: int) -> Row:
    """In this process: a random graph, and full training steps of a residual GCN on it."""
    import torch
    from torch_geometric.utils import to_undirected

    from gnn_depth.graph import Graph
    from tools.bench import memory, peers, sides
    from tools.bench.cases import Case

    draws = torch.Generator().manual_seed(0)
    one_way = torch.randint(nodes, (2, pairs), generator=draws)
    one_way = one_way[:, one_way[0] != one_way[1]]
    edge_index = to_undirected(one_way, num_nodes=nodes)
    x = torch.randn(nodes, FEATURES, generator=draws)
    train = torch.arange(0, nodes, 2)
    classes = torch.randint(CLASSES, (len(train),), generator=draws)
    case = Case("million", "gcn", "cora", LAYERS, width=WIDTH)
    torch.manual_seed(0)
    if side == "ours":
        graph = Graph(edge_index, nodes)
        model = sides.DeepGNN(FEATURES, CLASSES, **sides.parts(case))
        optimizer = torch.optim.Adam(model.parameters(), sides.LEARNING_RATE, fused=True)
        step = sides.Side(model, lambda: (x, graph), optimizer, train, classes)
    else:
        peer = peers.SparseGCN(FEATURES, CLASSES, LAYERS, WIDTH)
        optimizer = torch.optim.Adam(peer.parameters(), sides.LEARNING_RATE)
        step = sides.Side(peer, lambda: (x, edge_index), optimizer, train, classes)

    # Data is on both sides alike: what counts is what training adds to it.
    memory.tidy()
    before = memory.resident()
    memory.reset_peak()
    seconds = []
    for _ in range(1 + steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    peak = (memory.peak() - before) / 1e9
    row = zip(NUMBERS, (seconds[0], statistics.median(seconds[1:]), peak), strict=True)
    return {"side": side, **dict(row)}


def render(rows: list[Row]) -> str:
    """Medians of both sides, and the ratio of each pair of processes: its median and range."""
    lines = [("", *SIDES, "ratio (range)")]
    for number in NUMBERS:
        found: dict[str, list[float]] = {side: [] for side in SIDES}
        for row in rows:
            found[row["side"]].append(row[number])
        ours, theirs = found.values()
        ratios = list(map(operator.truediv, ours, theirs))
        middle = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        line = (number, f"{statistics.median(ours):.2f}", f"{statistics.median(theirs):.2f}")
        lines.append((*line, middle))
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=5, help="of each side")
    parser.add_argument("--steps", type=int, default=4, help="after the first")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="random undirected edges")
    parser.add_argument("--one", choices=SIDES, help="measure this side in this process")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.nodes, given.pairs, given.steps)))
        return
    sizes = ("--nodes", given.nodes, "--pairs", given.pairs, "--steps", given.steps)
    runs = [[side, *map(str, sizes)] for side in SIDES] * given.processes  # in turns
    print(render(children.each("tools.bench.million", runs, malloc="tuned")))


if __name__ == "__main__":
    main()
