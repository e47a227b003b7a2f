"""What Lightning, the loggers and the metrics cost per epoch, beside one full-batch step of the model.

    python -m tools.bench.loop [--rounds 7] [--epochs 400] [--without bar loggers recorder validation] [--json]

The model is one linear map of ten nodes. Every round times a fit through the package's own classes (TensorBoard,
CSV, run folder, progress bar as on a terminal, validation and test metrics every epoch) and, right after it, the bare
loop of the same step and the same evaluation pass. The difference of the two is the overhead.
"""

import argparse
import io
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.cli.assemble import TRAINER_DEFAULTS
from gnn_depth.data.base import FullBatch, NodeBatch, NodeDataModule
from gnn_depth.graph import Graph
from gnn_depth.training import NodeClassifier
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.recorder import RunRecorder

NODES, FEATURES, CLASSES = 10, 4, 3
WARM_UP = 60  # epochs before the clock starts: more than one block of log rows
PARTS = ("bar", "loggers", "recorder", "validation")


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

    def forward(self, x: Tensor, graph: Graph, num_outputs: int | None = None) -> Tensor:
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
        return NodeBatch(x, place % CLASSES, graph, place < 4, (place >= 4) & (place < 7), place >= 7)

    def train_dataloader(self) -> Clocked:
        self.clock = Clocked(self.batch)
        return self.clock


def make_model() -> NodeClassifier:
    model = NodeClassifier(FEATURES, CLASSES, compile="off")
    model.stack = Linear()
    return model


def time_fit(epochs: int, without: list[str]) -> float:
    """Seconds per epoch of a fit."""
    with tempfile.TemporaryDirectory() as root, redirect_stderr(Terminal()):
        recorder = RunRecorder(root=root, name="bench")
        loggers = [] if "loggers" in without else recorder.open("", {}, "bench", 0)
        callbacks = [] if "recorder" in without else [recorder]
        callbacks += [] if "bar" in without else [EpochProgress()]
        defaults = TRAINER_DEFAULTS | {"max_epochs": epochs + WARM_UP, "enable_checkpointing": False}
        trainer = L.Trainer(
            **defaults,
            logger=loggers,
            callbacks=callbacks,
            accelerator="cpu",
            enable_progress_bar="bar" not in without,
            limit_val_batches=0 if "validation" in without else None,
            default_root_dir=root,
        )
        data = TenNodes()
        trainer.fit(make_model(), datamodule=data)
    times = data.clock.times[-epochs:]
    return (times[-1] - times[0]) / (len(times) - 1)


def time_bare(epochs: int, without: list[str]) -> float:
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
        if "validation" not in without:
            with torch.no_grad():
                model(batch)
    return (time.perf_counter() - start) / epochs


def measure(rounds: int, epochs: int, without: list[str]) -> dict[str, float]:
    """Milliseconds per epoch: medians over the rounds, and the spread of the difference."""
    pairs = [(time_fit(epochs, without) * 1e3, time_bare(epochs, without) * 1e3) for _ in range(rounds)]
    differences = sorted(fit - bare for fit, bare in pairs)
    return {
        "fit_ms": statistics.median(fit for fit, _ in pairs),
        "bare_ms": statistics.median(bare for _, bare in pairs),
        "overhead_ms": statistics.median(differences),
        "least_ms": differences[0],
        "most_ms": differences[-1],
    }


def main() -> None:
    """Print the overhead per epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--without", nargs="*", default=[], choices=PARTS, help="leave parts out, for a breakdown")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    measure(1, 20, options.without)  # imports and caches
    result = measure(options.rounds, options.epochs, options.without)
    if options.json:
        print(json.dumps(result))
        return
    left_out = f" without {', '.join(options.without)}" if options.without else ""
    print(f"overhead per epoch{left_out}: {result['overhead_ms']:.2f} ms", end=" ")
    print(f"({result['least_ms']:.2f} to {result['most_ms']:.2f};", end=" ")
    print(f"{options.rounds} rounds of {options.epochs} epochs;", end=" ")
    print(f"fit {result['fit_ms']:.2f}, bare loop {result['bare_ms']:.2f})")


if __name__ == "__main__":
    sys.exit(main())
