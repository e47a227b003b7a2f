"""What watching takes of a training step: ``python -m tools.bench.watched``.

A residual GCN of 64 layers on Cora, uncompiled, as layers with hooks are: bare loops with and
without ``gnn_depth.watch`` take turns. Times are processor time. ``GNN_DEPTH_DATA`` names the
folder of Cora, and ``OMP_NUM_THREADS`` the number of threads.
"""

import argparse
import time

import torch
import torch.nn.functional as F

import gnn_depth
from gnn_depth.data import Planetoid
from gnn_depth.diagnostics import MEASURES
from gnn_depth.training import NodeClassifier
from tools.bench.timing import Call, in_turns, ratio


def residual_gcn() -> torch.nn.Module:
    torch.manual_seed(0)
    return NodeClassifier(
        1433, 7, layer="gcn", num_layers=64, hidden_channels=64, skip="residual", compile="off"
    ).stack


def seconds_of(measures: list[str], every: int) -> dict[str, list[float]]:
    """Samples hold whole turns of measured and other steps."""
    batch = Planetoid("Cora").batch
    stacks = {"plain": residual_gcn(), "watched": residual_gcn()}

    def loop(name: str, after: Call) -> Call:
        model = stacks[name]
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

        def steps() -> None:
            for _ in range(every):
                scores = model(batch.x, batch.graph)
                F.cross_entropy(scores[batch.train_mask], batch.y[batch.train_mask]).backward()
                optimizer.step()
                optimizer.zero_grad()
                after()

        return steps

    with gnn_depth.watch(stacks["watched"], "blocks.*.layer", measures, every) as watched:
        sides = {"plain": loop("plain", lambda: None), "watched": loop("watched", watched.step)}
        return in_turns(sides, 9, time.process_time)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.watched", description=__doc__)
    parser.add_argument(
        "--measures", nargs="+", choices=list(MEASURES), default=["gradient_similarity"]
    )
    parser.add_argument("--every", type=int, default=1, help="steps from one to the next")
    given = parser.parse_args()
    seconds = seconds_of(given.measures, given.every)
    print(f"watched steps take {ratio(seconds['watched'], seconds['plain'])} of the others")


if __name__ == "__main__":
    main()
