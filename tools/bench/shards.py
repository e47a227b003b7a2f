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
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from gnn_depth.data import NodeBatch
from gnn_depth.data.partitioned import PartitionedGraph, write_partition
from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from tools.bench import memory
from tools.bench.timing import number, table

PARTS = 4  # communities, each a part of the folder
THREADS = 2  # of all processes together
WIDTH, CLASSES = 64, 10  # of the features, and how many classes
MB = 2**20
HEADER = ("processes", "peak MB of a rank", "s a step", "exchange", "MB sent", "on paper")


def write(folder: Path, nodes: int, edges: int, outside: float) -> None:
    """A graph of communities, divided into them."""
    torch.manual_seed(0)
    size = nodes // PARTS
    target = torch.randint(size * PARTS, (edges,))
    source = target // size * size + torch.randint(size, (edges,))
    leaves = torch.rand(edges) < outside
    source[leaves] = torch.randint(nodes, (int(leaves.sum()),))
    part = (torch.arange(nodes) // size).clamp(max=PARTS - 1)
    masks = [torch.arange(nodes) % 3 == place for place in range(3)]
    graph = Graph(torch.stack([source, target]), nodes)
    y = torch.randint(CLASSES, (nodes,))
    batch = NodeBatch(torch.randn(nodes, WIDTH), y, graph, *masks)
    about = {"num_classes": CLASSES, "class_names": [], "task": "multiclass"}
    data: Any = SimpleNamespace(**about, about="", checksum="")
    write_partition(data, batch, part, folder)


def measure(folder: Path, processes: int, given: argparse.Namespace) -> tuple[str, ...]:
    """A row of the table: the largest of all processes, and all bytes together."""
    with tempfile.TemporaryDirectory() as results:
        try:
            torch.multiprocessing.spawn(
                train, (folder, results, processes, given), nprocs=processes
            )
        except torch.multiprocessing.ProcessRaisedException as error:
            if "can't allocate memory" in str(error) or "MemoryError" in str(error):
                return (str(processes), "out of memory", "", "", "", "")
            raise
        found = [json.loads(path.read_text()) for path in Path(results).glob("*.json")]
    peak, seconds, exchange, sent, paper = zip(*found, strict=True)
    return (
        str(processes),
        number(max(peak) / MB),
        number(max(seconds)),
        f"{max(exchange) / max(seconds):.1%}",
        f"{sum(sent) / MB:.1f}",
        f"{sum(paper) / MB:.1f}",
    )


def train(rank: int, folder: Path, results: str, processes: int, given: argparse.Namespace) -> None:
    """Some steps in one of the processes, and a file with what they took."""
    torch.set_num_threads(max(1, THREADS // processes))
    dist.init_process_group(
        "gloo", init_method=f"file://{results}/meet", rank=rank, world_size=processes
    )
    before = memory.peak()
    if given.limit:
        most = memory.status("VmData") + given.limit * MB
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    data = PartitionedGraph(str(folder))
    batch = data._part(data._bounds(processes), rank)
    graph: Any = batch.graph
    if processes == 1:  # as one process does it without a strategy
        graph = Graph(graph.edge_index, graph.num_nodes)
    torch.manual_seed(0)
    stack = DeepGNN(
        WIDTH, CLASSES, "gcn", given.layers, given.width, norm="layer", skip="residual",
        checkpoint_every=given.checkpoint or "none",
    )  # fmt: skip
    optimizer = torch.optim.Adam(stack.parameters())
    rows = batch.train_mask.nonzero().flatten()
    waits = [0.0]
    if processes > 1:
        graph.exchanged = timed(graph.exchanged, waits)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(stack(batch.x, graph)[rows], batch.y[rows]).backward()
        if processes > 1:
            for weight in stack.parameters():
                dist.all_reduce(weight.grad)
        optimizer.step()

    step()  # warms up
    waits[0], sent = 0.0, getattr(graph, "bytes_sent", 0)
    began, steps = time.perf_counter(), given.steps - 1
    for _ in range(steps):
        step()
    seconds = time.perf_counter() - began
    sent = getattr(graph, "bytes_sent", 0) - sent
    # Forwards and backwards, in every layer, a row of numbers for each node of another process that
    # an edge comes from.
    passes = 2
    if given.checkpoint:
        passes = 3
    paper = passes * given.layers * (graph.num_sources - graph.num_nodes) * given.width * 4
    found = (memory.peak() - before, seconds / steps, waits[0] / steps, sent / steps, paper)
    (Path(results) / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The function, whose time is added to the seconds."""

    def call(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments)
        seconds[0] += time.perf_counter() - began
        return result

    return call


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.shards",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--outside", type=float, default=0.02, help="share of edges between parts")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--checkpoint", type=int, default=0, help="layers in a segment")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=3, help="the first one warms up")
    parser.add_argument("--limit", type=int, default=0, help="MB of a process above its imports")
    given = parser.parse_args()
    # glibc would keep freed tensors between others; large blocks of their own go back at once.
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": str(2**16), "MALLOC_TRIM_THRESHOLD_": "0"}
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "parts"
        write(folder, given.nodes, given.edges, given.outside)
        table(HEADER, (measure(folder, count, given) for count in given.processes))


if __name__ == "__main__":
    main()
