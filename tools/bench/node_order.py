"""Training steps of one graph with its nodes as given and in the order of reverse Cuthill-McKee."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from gnn_depth.data import NodeBatch
from gnn_depth.data.node_order import ordered
from gnn_depth.nn.stack import DeepGNN
from tools.bench.cases import CLASSES, WIDTH, undirected
from tools.bench.timing import Call, Clock, in_turns, number, ratio, table

DEGREE = 11
MODELS: dict[str, dict[str, Any]] = {
    "residual GCN": {"layer": "gcn", "skip": "residual", "dropout": 0.0},
    "GATv2": {"layer": "gatv2", "dropout": 0.0},
    "GAT + LipschitzNorm, dropout": {"layer": "gat", "norm": "lipschitz", "dropout": 0.5},
}
HEADER = ("graph", "nodes", "edges shorter", "ordering, s", "model", "given, s", "rcm, s", "ratio")


def geometric(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a square, joined to those nearby; numbered at random."""
    radius = (DEGREE / (np.pi * nodes)) ** 0.5
    return cKDTree(rng.random((nodes, 2))).query_pairs(radius, output_type="ndarray").T


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


def mean_length(batch: NodeBatch) -> float:
    """How far apart the ends of an edge are, in the order of the nodes."""
    return (batch.graph.source - batch.graph.target).abs().double().mean().item()


def step_of(model: DeepGNN, batch: NodeBatch) -> Call:
    """A training step without the optimizer, which does not read the graph."""

    def step() -> None:
        out = model(batch.x, batch.graph)[batch.train_mask]
        torch.nn.functional.cross_entropy(out, batch.y[batch.train_mask]).backward()

    return step


def compare(kind: str, nodes: int, rounds: int, clock: Clock) -> Iterator[tuple[str, ...]]:
    """The rows of a table: each model in both orders, in turns."""
    one_way = GRAPHS[kind](nodes, np.random.default_rng(0))
    batch = undirected(torch.from_numpy(one_way))
    began = clock()
    moved = ordered(batch, "rcm")
    cost = clock() - began
    shorter = mean_length(batch) / mean_length(moved)
    for name, options in MODELS.items():
        # One model for both orders: its numbers do not depend on them.
        model = DeepGNN(WIDTH, CLASSES, num_layers=3, hidden_channels=WIDTH, **options)
        sides = {"given": step_of(model, batch), "rcm": step_of(model, moved)}
        seconds = in_turns(sides, rounds, clock)
        middles = (statistics.median(seconds[order]) for order in sides)
        yield (
            kind,
            f"{len(batch.x):,}",
            number(shorter),
            number(cost),
            name,
            *map(number, middles),
            ratio(seconds["rcm"], seconds["given"]),
        )


def rows(given: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    clock = time.perf_counter
    if given.cpu:
        clock = time.process_time
    for kind in given.graphs:
        for nodes in given.nodes:
            yield from compare(kind, nodes, given.rounds, clock)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.node_order", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=["geometric"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    table(HEADER, rows(given))


if __name__ == "__main__":
    main()
