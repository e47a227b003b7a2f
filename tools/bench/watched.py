"""What watching takes of a training step: ``python -m tools.bench.watched --data FOLDER``.

A residual GCN of 64 layers on Cora, uncompiled, as layers with hooks are. With ``--by lightning``
steps that ``GradientSimilarity`` measures and steps that it does not take turns in one training by
Lightning's Trainer. With ``--by watch`` every measured step of a bare loop inside
``gnn_depth.watch`` is compared with the step after it.
"""

import argparse
import operator
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F

import gnn_depth
from gnn_depth.data import Planetoid
from gnn_depth.diagnostics import MEASURES, GradientSimilarity
from gnn_depth.training import NodeClassifier

WARM_UP = 6


class Clock(L.Callback):
    """The seconds of each step, with what the callbacks after this one do in it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_batch_start(self, *args: Any) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, *args: Any) -> None:
        self.seconds.append(time.perf_counter() - self._start)


def residual_gcn() -> NodeClassifier:
    torch.manual_seed(0)
    return NodeClassifier(
        1433, 7, layer="gcn", num_layers=64, hidden_channels=64, skip="residual", compile="off"
    )


def by_lightning(steps: int, root: Path) -> tuple[list[float], list[float]]:
    """The seconds of steps without and with a measurement."""
    clock = Clock()
    trainer = L.Trainer(
        max_epochs=steps,
        accelerator="cpu",
        callbacks=[clock, GradientSimilarity(every_n_steps=2)],
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    trainer.fit(residual_gcn(), datamodule=Planetoid("Cora", root=root))
    return clock.seconds[WARM_UP + 1 :: 2], clock.seconds[WARM_UP::2]


def by_watch(
    steps: int, root: Path, measures: list[str], every: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """The seconds of a step without a measurement, and with its share of one, which each measured
    step gives anew."""
    data = Planetoid("Cora", root=root)
    data.prepare_data()
    data.setup("fit")
    batch, model = next(iter(data.train_dataloader())), residual_gcn().stack
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    turn = max(every, 2)  # so that some steps are not measured
    own, ends = [], []  # seconds of each step itself, and of watched.step() after it
    with gnn_depth.watch(model, "blocks.*.layer", measures, turn) as watched:
        for _ in range(steps):
            start = clock()
            scores = model(batch.x, batch.graph)
            F.cross_entropy(scores[batch.train_mask], batch.y[batch.train_mask]).backward()
            optimizer.step()
            optimizer.zero_grad()
            own.append(clock() - start)
            watched.step()
            ends.append(clock() - start - own[-1])
    begin = -(-WARM_UP // turn) * turn
    measured = range(begin, steps - turn, turn)
    off = [own[step + 1] for step in measured]  # right after a measured one
    # The last watched.step() before a measured step attaches the hooks, which stay in place if
    # every step is measured.
    ends_of_turn = turn if every > 1 else 1
    on = []
    for step, plain in zip(measured, off, strict=True):
        more = sum(ends[step : step + ends_of_turn])
        on.append(plain + (own[step] - plain + more) / every)
    return off, on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("GNN_DEPTH_DATA"),
        help="folder of the data sets",
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--by", choices=["lightning", "watch"], default="lightning")
    parser.add_argument(
        "--measures", nargs="+", choices=list(MEASURES), default=["gradient_similarity"]
    )
    parser.add_argument(
        "--every", type=int, default=1, help="steps from one that is watched to the next"
    )
    parser.add_argument(
        "--cpu-time", action="store_true", help="of --by watch, on a machine with other work"
    )
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data FOLDER says where the data sets are, or GNN_DEPTH_DATA")
    torch.set_num_threads(arguments.threads)
    if arguments.by == "lightning":
        off, on = by_lightning(arguments.steps, arguments.data)
    else:
        clock = time.process_time if arguments.cpu_time else time.perf_counter
        off, on = by_watch(
            arguments.steps, arguments.data, arguments.measures, arguments.every, clock
        )
    share = statistics.median(map(operator.truediv, on, off)) - 1
    print(
        f"a step {1e3 * statistics.median(off):.1f} ms, measured {1e3 * statistics.median(on):.1f} "
        f"ms: {share:+.1%}"
    )


if __name__ == "__main__":
    main()
