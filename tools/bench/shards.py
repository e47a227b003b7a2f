"""One graph over several processes: peak memory, time and bytes sent per step, against one process.

``python -m tools.bench.shards --nodes 1000000 --edges 10000000 --layers 3 --processes 1 2 4``

``--limit`` shows what fits: each process may take so many MB above what it has after its imports,
and one that asks for more fails. ``exchange`` is the share of a step in which a process sends rows
to others, and waits for theirs.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
import torch.nn.functional as F

from gnn_depth.data.partitioned import PartitionedGraph
from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from tools.bench import memory

PARTS = 4  # communities, each a part of the folder
MB = 2**20
OPTIONS = {"layer": "gcn", "skip": "residual", "norm": "layer"}


def main() -> None:
    given = _parser().parse_args()
    # glibc would keep freed tensors between others; large blocks of their own go back at once.
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": str(2**16), "MALLOC_TRIM_THRESHOLD_": "0"}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given)
        rows = [measure(folder, count, given) for count in given.processes]
    print(
        f"{given.nodes:,} nodes, {given.edges:,} edges, {given.outside:.1%} of them between "
        "communities"
    )
    print(
        f"{given.layers} layers of width {given.width}, segments of {given.checkpoint} layers, "
        f"{given.steps} steps"
    )
    print("processes  peak MB of a rank  of one    bar  s a step  exchange  MB sent  on paper")
    for count, row in zip(given.processes, rows, strict=True):
        if not row:
            print(f"{count:>9} out of memory: a process may take {given.limit:,} MB")
            continue
        share = f"{row['peak'] / rows[0]['peak']:>7.1%}" if rows[0] else "      -"
        print(
            f"{count:>9} {row['peak'] / MB:>18,.0f} {share} {1 / count + 0.15:>6.0%} "
            f"{row['seconds']:>9.2f} "
            f"{row['exchange'] / row['seconds']:>9.1%} {row['sent'] / MB:>8.1f} "
            f"{row['paper'] / MB:>9.1f}"
        )


def write(folder: Path, given: argparse.Namespace) -> None:
    """A graph with communities, as ``gnn-depth partition`` writes it, without holding its features
    at once."""
    draws = np.random.default_rng(0)
    nodes, edges = given.nodes, given.edges
    size = nodes // PARTS
    target = np.sort(draws.integers(0, nodes, edges))
    source = target // size * size + draws.integers(0, size, edges)
    leaves = draws.random(edges) < given.outside
    source[leaves] = draws.integers(0, nodes, int(leaves.sum()))
    source = np.minimum(source, nodes - 1)
    # Piece by piece: the process that writes may be smaller than the features.
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (nodes, given.features))
    for first in range(0, nodes, 100_000):
        rows = x[first : first + 100_000]
        rows[:] = draws.standard_normal(rows.shape, np.float32)
    arrays = {
        "y": draws.integers(0, 10, nodes),
        "masks": np.stack([np.arange(nodes) % 3 == place for place in range(3)]),
        "numbers": np.arange(nodes),
        "ptr": np.searchsorted(target, np.arange(nodes + 1)),
        "source": source,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    bounds = [rank * nodes // PARTS for rank in range(PARTS + 1)]
    about = {
        "bounds": bounds,
        "num_features": given.features,
        "num_classes": 10,
        "num_edge_features": 0,
        "class_names": [],
        "task": "multiclass",
    }
    (folder / "about.json").write_text(json.dumps(about | {"about": "", "checksum": ""}))


def measure(folder: str, processes: int, given: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as results:
        try:
            torch.multiprocessing.spawn(  # type: ignore[no-untyped-call]
                _train, (folder, results, processes, given), nprocs=processes
            )
        except torch.multiprocessing.ProcessRaisedException as error:
            if "can't allocate memory" in str(error) or "MemoryError" in str(error):
                return {}
            raise
        of_each = [
            json.loads((Path(results) / f"{rank}.json").read_text()) for rank in range(processes)
        ]
    found = pd.DataFrame(of_each)
    largest = found[["peak", "seconds", "exchange"]].max()
    return {**largest, **found[["sent", "paper"]].sum()}


def _train(rank: int, folder: str, results: str, processes: int, given: argparse.Namespace) -> None:
    torch.set_num_threads(max(1, given.threads // processes))
    dist.init_process_group(
        "gloo", init_method=f"file://{results}/meet", rank=rank, world_size=processes
    )
    before = _peak()
    if given.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (_private() + given.limit * MB,) * 2)
    data = PartitionedGraph(folder)
    batch = data._part(data._bounds(processes), rank)
    graph: Any = batch.graph
    if processes == 1:  # as one process does it without a strategy
        batch.graph = graph = Graph(graph.edge_index, graph.num_nodes)
    torch.manual_seed(0)
    stack = DeepGNN(
        given.features, 10, num_layers=given.layers, hidden_channels=given.width,
        checkpoint_every=given.checkpoint or "none", reversible=given.reversible, **OPTIONS,  # type: ignore[arg-type]
    )  # fmt: skip
    optimizer = torch.optim.Adam(stack.parameters())
    rows, times, sent, exchanges = batch.train_mask.nonzero().flatten(), [], 0, [0.0]
    if processes > 1:
        graph.exchanged = _timed(graph.exchanged, exchanges)
    for _ in range(given.steps):
        exchanges.append(0.0)
        began, sent = time.perf_counter(), getattr(graph, "bytes_sent", 0)
        optimizer.zero_grad()
        F.cross_entropy(stack(batch.x, graph)[rows], batch.y[rows]).backward()
        for weight in stack.parameters():
            if processes > 1 and weight.grad is not None:
                dist.all_reduce(weight.grad)
        optimizer.step()
        times.append(time.perf_counter() - began)
    # Forwards and backwards, in every layer, a row of numbers for each node of another process that
    # an edge comes from.
    passes = 3 if given.checkpoint or given.reversible else 2
    paper = passes * given.layers * (graph.num_sources - graph.num_nodes) * given.width * 4
    found = {
        "peak": _peak() - before,
        "seconds": float(np.median(times[1:])),  # the first step warms up
        "exchange": float(np.median(exchanges[2:])),
        "paper": paper,
    }
    found["sent"] = getattr(graph, "bytes_sent", 0) - sent
    (Path(results) / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def _timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The function, whose time is added to the last of the seconds."""

    def timed(*args: Any) -> Any:
        began = time.perf_counter()
        result = function(*args)
        seconds[-1] += time.perf_counter() - began
        return result

    return timed


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _private() -> int:
    """Bytes that count towards RLIMIT_DATA."""
    return memory.field(memory.STATUS.read_text(), "VmData")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = {"nodes": 100_000, "edges": 1_000_000, "layers": 3, "width": 64, "features": 64}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="threads of all processes together")
    parser.add_argument(
        "--outside", type=float, default=0.02, help="share of the edges between communities"
    )
    parser.add_argument("--checkpoint", type=int, default=0, help="layers per checkpointed segment")
    parser.add_argument(
        "--reversible", type=int, default=0, help="groups of channels of a reversible network"
    )
    parser.add_argument(
        "--limit", type=int, default=0, help="MB that a process may take above its imports"
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    return parser


if __name__ == "__main__":
    main()
