"""What ``GradientSimilarity`` takes of a step: ``python -m tools.bench.watched --data FOLDER``.

Steps that are measured and steps that are not take turns in one training of a residual GCN of 64 layers on Cora, by
Lightning's Trainer and uncompiled, as layers with hooks are.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch

from gnn_depth.data import Planetoid
from gnn_depth.diagnostics import GradientSimilarity
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.skips import Residual
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


def measured(steps: int, root: Path) -> tuple[list[float], list[float]]:
    """The seconds of steps without and with a measurement."""
    torch.manual_seed(0)
    model = NodeClassifier(1433, 7, layer=GCN, num_layers=64, hidden_channels=64, skip=Residual, compile="off")
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
    trainer.fit(model, datamodule=Planetoid("Cora", root=root))
    return clock.seconds[WARM_UP + 1 :: 2], clock.seconds[WARM_UP::2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("GNN_DEPTH_DATA"), help="folder of the data sets")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data FOLDER says where the data sets are, or GNN_DEPTH_DATA")
    torch.set_num_threads(arguments.threads)
    off, on = measured(arguments.steps, arguments.data)
    share = statistics.median(with_it / without - 1 for with_it, without in zip(on, off, strict=False))
    print(f"a step {1e3 * statistics.median(off):.1f} ms, measured {1e3 * statistics.median(on):.1f} ms: {share:+.1%}")


if __name__ == "__main__":
    main()
