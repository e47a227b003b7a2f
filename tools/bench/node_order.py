"""Training steps of one graph with its nodes as given and in the order of reverse Cuthill-McKee."""

import argparse
import operator
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from gnn_depth.data import NodeBatch
from gnn_depth.data.node_order import ordered
from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.stack import DeepGNN
from tools.bench.table import markdown

LAYERS, WIDTH, CLASSES, DEGREE = 3, 64, 10, 11
MODELS: dict[str, dict[str, Any]] = {
    "residual GCN": {"layer": "gcn", "skip": "residual", "dropout": 0.0},
    "GATv2": {"layer": "gatv2", "dropout": 0.0},
    "GAT + LipschitzNorm, dropout": {"layer": "gat", "norm": "lipschitz", "dropout": 0.5},
}


def geometric(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a square, joined to those nearby; numbered at random."""
    radius = (DEGREE / (np.pi * nodes)) ** 0.5
    pairs = cKDTree(rng.random((nodes, 2))).query_pairs(radius, output_type="ndarray")
    return pairs.T


def small_world(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """A ring joined to five nodes ahead, a tenth of the edges to random nodes instead; numbered at
    random."""
    source = np.repeat(np.arange(nodes), 5)
    target = (source + np.tile(np.arange(1, 6), nodes)) % nodes
    is_moved = rng.random(len(target)) < 0.1
    target[is_moved] = rng.integers(0, nodes, int(is_moved.sum()))
    return rng.permutation(nodes)[np.stack([source, target])]


def communities(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Communities of 200 nodes, a tenth of the edges between them; numbered at random."""
    count = nodes * DEGREE // 2
    source = rng.integers(0, nodes, count)
    inside = np.minimum(source // 200 * 200 + rng.integers(0, 200, count), nodes - 1)
    target = np.where(rng.random(count) < 0.1, rng.integers(0, nodes, count), inside)
    return rng.permutation(nodes)[np.stack([source, target])]


def uniform(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Edges between random nodes."""
    return rng.integers(0, nodes, (2, nodes * DEGREE // 2))


def grid(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """A square grid, row by row."""
    side = round(nodes**0.5)
    cell = np.arange(side * side).reshape(side, side)
    across = np.stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()])
    down = np.stack([cell[:-1].ravel(), cell[1:].ravel()])
    return np.concatenate([across, down], 1)


GRAPHS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "geometric": geometric,
    "small_world": small_world,
    "communities": communities,
    "uniform": uniform,
    "grid": grid,
}


def batch_of(graph: str, nodes: int) -> NodeBatch:
    """An undirected graph with random features and classes."""
    rng = np.random.default_rng(0)
    one_way = torch.from_numpy(GRAPHS[graph](nodes, rng))
    nodes = int(one_way.max()) + 1
    edges = torch.cat([one_way, one_way.flip(0)], 1)
    is_trained = torch.rand(nodes) < 0.5
    x, y = torch.randn(nodes, WIDTH), torch.randint(CLASSES, (nodes,))
    return NodeBatch(x, y, Graph(edges, nodes), is_trained, ~is_trained, is_trained & False)


def step_of(model: DeepGNN, batch: NodeBatch) -> Callable[[], None]:
    """A training step without the optimizer, which does not read the graph."""

    def step() -> None:
        out = model(batch.x, batch.graph)[batch.train_mask]
        torch.nn.functional.cross_entropy(out, batch.y[batch.train_mask]).backward()

    return step


def measure(
    graph: str, nodes: int, rounds: int, clock: Callable[[], float]
) -> list[tuple[str, ...]]:
    """The rows of a table: each model in both orders, in turns."""
    batch = batch_of(graph, nodes)
    began = clock()
    moved = ordered(batch, "rcm")
    cost = clock() - began
    distance = []
    for of in (batch, moved):
        distance.append((of.graph.source - of.graph.target).abs().double().mean().item())
    rows = []
    for name, options in MODELS.items():
        # One model for both orders: its numbers do not depend on them.
        model = DeepGNN(WIDTH, CLASSES, num_layers=LAYERS, hidden_channels=WIDTH, **options)
        steps = [step_of(model, of) for of in (batch, moved)]
        seconds: list[list[float]] = [[], []]
        for number in range(rounds + 1):
            for side, step in enumerate(steps):
                began = clock()
                step()
                if number:  # the first one derives what it needs from the graph
                    seconds[side].append(clock() - began)
        given, after = map(statistics.median, seconds)
        ratios = list(map(operator.truediv, seconds[1], seconds[0]))
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        size = f"{len(batch.x):,}", f"{distance[0] / distance[1]:.1f}", f"{cost:.2f}"
        rows.append((graph, *size, name, f"{given:.3f}", f"{after:.3f}", ratio))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.node_order", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=["geometric"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    torch.set_num_threads(given.threads)
    native.use(True)
    head = "graph", "nodes", "edges shorter", "ordering, s", "model", "given, s", "rcm, s", "ratio"
    rows = [head]
    for graph in given.graphs:
        for nodes in given.nodes:
            rows += measure(graph, nodes, given.rounds, clock)
    print(markdown(rows))


if __name__ == "__main__":
    main()
