"""What Lightning, the loggers and the metrics cost per epoch, beside one full-batch step of the
model.

    python -m tools.bench.loop [--rounds 7] [--epochs 400]

The model is one linear map of ten nodes. Every round times a fit through the package's own classes
(TensorBoard, CSV, run folder, progress bar as on a terminal, validation and test metrics every
epoch) and, right after it, the bare loop of the same step and the same evaluation pass. The
difference of the two is the overhead.
"""

import argparse
import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.data.base import FullBatch, NodeBatch, NodeDataModule
from gnn_depth.graph import Graph
from gnn_depth.training import NodeClassifier
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.run import TRAINER_DEFAULTS

NODES, FEATURES, CLASSES = 10, 4, 3
WARM_UP = 60  # epochs before the clock starts: more than one block of log rows


class Terminal(io.StringIO):
    """Where a progress bar is drawn as on a terminal."""

    def isatty(self) -> bool:
        return True


class Linear(nn.Module):
    """A stack of no layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, CLASSES)
        self.layers = nn.ModuleList()

    def forward(
        self, x: Tensor, graph: Graph, num_outputs: int | None = None, pool: str | None = None
    ) -> Tensor:
        return self.lin(x)

    def receptive_fields(self, graph: Graph, num_outputs: int | None = None) -> list[Graph]:
        return []


class Clocked(FullBatch):
    """Notes when each epoch began."""

    def __init__(self, batch: NodeBatch) -> None:
        super().__init__(batch)
        self.times: list[float] = []

    def __iter__(self) -> Iterator[NodeBatch]:
        self.times.append(time.perf_counter())
        return super().__iter__()


class TenNodes(NodeDataModule):
    """Ten nodes: four to train, three to validate, three to test on."""

    num_classes = CLASSES

    def load(self) -> NodeBatch:
        place = torch.arange(NODES)
        graph = Graph(torch.stack([place, place.roll(1)]), NODES)
        x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0))
        return NodeBatch(
            x, place % CLASSES, graph, place < 4, (place >= 4) & (place < 7), place >= 7
        )

    def train_dataloader(self) -> Clocked:
        self.clock = Clocked(self.batch)
        return self.clock


def make_model() -> NodeClassifier:
    model = NodeClassifier(FEATURES, CLASSES, compile="off")
    model.stack = Linear()
    return model


def time_fit(epochs: int) -> float:
    """Seconds per epoch of a fit."""
    with tempfile.TemporaryDirectory() as root, redirect_stderr(Terminal()):
        recorder = RunRecorder(root=root, name="bench")
        loggers = recorder.open("", {}, "bench", 0)
        defaults = TRAINER_DEFAULTS | {
            "max_epochs": epochs + WARM_UP,
            "enable_checkpointing": False,
        }
        trainer = L.Trainer(
            **defaults,
            logger=loggers,
            callbacks=[recorder, EpochProgress()],
            accelerator="cpu",
            default_root_dir=root,
        )
        data = TenNodes()
        trainer.fit(make_model(), datamodule=data)
    times = data.clock.times[-epochs:]
    return (times[-1] - times[0]) / (len(times) - 1)


def time_bare(epochs: int) -> float:
    """Seconds per epoch of the same computation without anything around it."""
    model, batch = make_model(), TenNodes().batch
    optimizer = model.configure_optimizers()
    for epoch in range(epochs + WARM_UP):
        if epoch == WARM_UP:
            start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch)[batch.train_mask], batch.y[batch.train_mask])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model(batch)
    return (time.perf_counter() - start) / epochs


def main() -> None:
    """Print the overhead per epoch in milliseconds: the median over rounds, the smallest and the
    largest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    time_fit(20), time_bare(20)  # imports and caches
    pairs = [
        (1e3 * time_fit(options.epochs), 1e3 * time_bare(options.epochs))
        for _ in range(options.rounds)
    ]
    overhead = [fit - bare for fit, bare in pairs]
    fit, bare = (statistics.median(each) for each in zip(*pairs, strict=True))
    print(
        f"{statistics.median(overhead):.2f} ms an epoch ({min(overhead):.2f} to "
        f"{max(overhead):.2f})",
        end=" ",
    )
    print(
        f"in {options.rounds} rounds of {options.epochs} epochs: fit {fit:.2f}, bare loop "
        f"{bare:.2f}"
    )


if __name__ == "__main__":
    main()
