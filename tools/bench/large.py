"""Time and peak memory of mini-batches on large graphs: ``python -m tools.bench.large``.

Times are processor time of one thread, and memory is the peak of the whole process.
"""

import argparse
import time
from collections.abc import Iterator

import torch

from gnn_depth.data import MiniBatches, SyntheticCitation
from gnn_depth.training import NodeClassifier
from tools.bench import memory
from tools.bench.timing import Call, number, table

FEATURES, CLASSES, EDGES_OF_A_NODE, NODES_OF_A_PART = 128, 10, 5, 20_000


def measure(nodes: int) -> Iterator[str]:
    """Build a graph, train an epoch of random parts, and evaluate the whole graph."""
    yield f"{nodes:,}"
    per_class = nodes // 2 // CLASSES
    source = SyntheticCitation(
        nodes, EDGES_OF_A_NODE * nodes, FEATURES, CLASSES,
        num_train_per_class=per_class, num_val=nodes // 5, num_test=nodes // 5,
    )  # fmt: skip
    yield from seconds_and_peak(lambda: source.batch)
    data = MiniBatches(source, "random", max(1, nodes // NODES_OF_A_PART))
    assert data.groups  # drawn once
    model = NodeClassifier(FEATURES, CLASSES, layer="gcn", num_layers=3, hidden_channels=64)
    optimizer = torch.optim.Adam(model.parameters(), 0.005, fused=True)

    def epoch() -> None:
        for batch in data.train_dataloader():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()

    yield from seconds_and_peak(epoch)
    with torch.inference_mode():
        yield from seconds_and_peak(lambda: model.eval()(source.batch))


def seconds_and_peak(call: Call) -> tuple[str, str]:
    memory.begin_peak()
    begin = time.process_time()
    call()
    return number(time.process_time() - begin), f"{memory.peak() / 1e9:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.large", description=__doc__)
    sizes = [10_000, 100_000, 300_000, 1_000_000]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes)
    given = parser.parse_args()
    torch.set_num_threads(1)
    header = ["nodes"]
    for step in ("build", "epoch", "evaluation"):
        header += [f"{step}, s", f"{step}, GB"]
    table(header, (list(measure(nodes)) for nodes in given.nodes))


if __name__ == "__main__":
    main()
