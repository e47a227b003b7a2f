"""Time and peak memory of mini-batches on large graphs: building, an epoch, an evaluation of the
whole graph."""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from tools.bench import children
from tools.bench.table import markdown

NODES = (10_000, 100_000, 300_000, 1_000_000)
FEATURES, CLASSES, EDGES_OF_A_NODE, NODES_OF_A_PART = 128, 10, 5, 20_000
LAYERS, HIDDEN = 3, 64
METHODS = ("random", "partition", "neighbor")
Row = dict[str, Any]


def measure(nodes: int, layer: str, method: str) -> Row:
    """In a fresh process: generate a graph, train an epoch of mini-batches, and evaluate the whole
    graph."""
    import torch

    from gnn_depth import registry
    from gnn_depth.data import MiniBatches, SyntheticCitation
    from gnn_depth.training import NodeClassifier
    from tools.bench import memory

    torch.set_num_threads(1)
    source = SyntheticCitation(
        nodes, EDGES_OF_A_NODE * nodes, FEATURES, CLASSES,
        num_train_per_class=nodes // 2 // CLASSES, num_val=nodes // 5, num_test=nodes // 5,
    )  # fmt: skip
    data = MiniBatches(source, method, max(1, nodes // NODES_OF_A_PART))
    row: Row = {"nodes": nodes, "edges": 2 * EDGES_OF_A_NODE * nodes, "before": memory.resident()}
    row |= _timed("build", lambda: source.batch)
    row |= _timed("parts", lambda: data.groups)
    model = NodeClassifier(
        FEATURES,
        CLASSES,
        layer=registry.get("layer", layer),
        num_layers=LAYERS,
        hidden_channels=HIDDEN,
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.005, fused=True)

    def epoch() -> None:
        for batch in data.train_dataloader():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()

    row |= _timed("epoch", epoch)
    with torch.inference_mode():
        row |= _timed("evaluation", lambda: model.eval()(source.batch))
        scores = model(source.batch)
    test = source.batch.test_mask
    return row | {"accuracy": (scores.argmax(-1) == source.batch.y)[test].double().mean().item()}


def _timed(what: str, call: Callable[[], object]) -> Row:
    """Seconds of a call, and the most memory that the process had meanwhile."""
    from tools.bench import memory

    memory.tidy()
    memory.reset_peak()
    start = time.perf_counter(), time.process_time()
    call()
    seconds, busy = time.perf_counter() - start[0], time.process_time() - start[1]
    return {f"{what}_seconds": seconds, f"{what}_cpu_seconds": busy, f"{what}_peak": memory.peak()}


def render(rows: list[Row]) -> str:
    """A table of CPU seconds and of the peak memory of the whole process."""
    steps = ("build", "parts", "epoch", "evaluation")
    lines = [["nodes", "edges"]]
    for step in steps:
        lines[0] += [f"{step} s", f"{step} GB"]
    for row in rows:
        line = [f"{row['nodes']:,}", f"{row['edges']:,}"]
        for step in steps:
            line.append(f"{row[f'{step}_cpu_seconds']:.1f}")
            line.append(f"{row[f'{step}_peak'] / 1e9:.2f}")
        lines.append(line)
    return f"{markdown(lines)}\n\ns: CPU seconds of one thread; GB: peak of the whole process"


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench.large", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--layer", default="gcn", help="a registered layer")
    parser.add_argument("--method", choices=METHODS, default="random", help="how batches are made")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.nodes[0], given.layer, given.method)))
        return
    how = ["--layer", given.layer, "--method", given.method]
    runs = [["--nodes", str(nodes), *how] for nodes in given.nodes]
    print(render(children.each("tools.bench.large", runs)))


if __name__ == "__main__":
    main()
