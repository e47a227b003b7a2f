"""Trainings that several processes share, and the one on the examples of all: what callbacks
measure in them."""

import dataclasses
from functools import partial
from types import SimpleNamespace

import lightning as L
import torch
from torch_geometric.nn import GCNConv

import gnn_depth
from gnn_depth.data import TreeNeighborsMatch
from gnn_depth.diagnostics import (
    MEASURES,
    Balancedness,
    DirichletEnergy,
    EffectiveRank,
    FirstFailure,
    GradientExpansion,
    GradientNorms,
    GradientSimilarity,
    MeanAverageDistance,
    RepresentationSimilarity,
)
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.skips import Residual
from gnn_depth.training import NodeClassifier
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.tasks import Binary, MultiClass, MultiLabel, Regression
from tests.diagnostics import test_balancedness
from tests.diagnostics.conftest import chain, rows, values
from tests.diagnostics.test_own_stacks import TinyDouble

SCENARIOS = ("rows", "shared", "nodes", "trees", "watched", "watched_shared")
TASKS = {
    "multiclass": MultiClass,
    "binary": Binary,
    "multilabel": MultiLabel,
    "squared": Regression,
    "absolute": partial(Regression, error="absolute"),
}
CALLBACKS = (
    GradientNorms, GradientSimilarity, GradientExpansion, RepresentationSimilarity, DirichletEnergy,
    MeanAverageDistance, EffectiveRank,
)  # fmt: skip
WIDTH, STEPS = 3, 3
QUIET = dict.fromkeys(
    ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
)


class Conv(GCNConv):
    """A foreign layer that declares the limits of its propagation."""

    def limits(self, graph):
        root = (1.0 + graph.in_degree.double()).sqrt()
        return root, root


class Nodes(L.LightningModule):
    """A foreign model of nodes and edges; its loss is the mean over the parts of a batch of the
    mean of each."""

    def __init__(self, fail=None):
        super().__init__()
        torch.manual_seed(0)
        self.enter = torch.nn.Linear(WIDTH, WIDTH)
        self.rounds = torch.nn.ModuleList(Conv(WIDTH, WIDTH) for _ in range(4))
        self.fail = fail
        self.double()

    def training_step(self, batch, batch_idx):
        if self.fail == self.global_rank and self.global_step == 1:
            raise RuntimeError(f"process {self.fail} has had enough")
        return self(batch)

    def forward(self, batch):
        x, edges, weights = batch
        x = self.enter(x)
        for layer in self.rounds:
            x = x + torch.tanh(layer(x, edges))
        return (x.square().sum(1) * weights).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Parts:
    """A loader whose process gets one of the parts of each step, and a lone process the parts of
    all in one graph.

    The parts have other nodes each, the last step has fewer, and in the second step the last part
    has none.
    """

    def __init__(self, parts, rank=None):
        self.parts, self.rank = parts, rank

    def __len__(self):
        return STEPS

    def __iter__(self):
        for step in range(STEPS):
            graphs = [self.graph(step, part) for part in range(self.parts)]
            yield graphs[self.rank] if self.rank is not None else self.union(graphs)

    def graph(self, step, part):
        count = 0 if (step, part) == (1, self.parts - 1) else (2 if step == STEPS - 1 else 9) + part
        draws = torch.Generator().manual_seed(100 * step + part)
        x = torch.randn(count, WIDTH, generator=draws, dtype=torch.float64)
        edges = torch.randint(max(count, 1), (2, count), generator=draws)
        edges = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, edges.flip(0)], 1)
        return x, edges, torch.full((count,), 1 / max(count, 1), dtype=torch.float64)

    def union(self, graphs):
        starts = torch.tensor([0, *(len(x) for x, _, _ in graphs)]).cumsum(0)
        edges = torch.cat([edges + start for (_, edges, _), start in zip(graphs, starts)], 1)
        return (
            torch.cat([x for x, _, _ in graphs]),
            edges,
            torch.cat([w for _, _, w in graphs]) / self.parts,
        )


class Whole:
    """A loader of one batch that all processes have."""

    shared = True

    def __iter__(self):
        return iter([[rows(18)]])

    def __len__(self):
        return 1


class Rows(Whole):
    """Parts of the same rows, in two batches that make a step."""

    shared = False

    def __init__(self, parts, rank=None):
        self.parts, self.rank = parts, rank

    def __iter__(self):
        halves = rows(36).split(18)
        return iter(
            [[half if self.rank is None else half[self.rank :: self.parts]] for half in halves]
        )

    def __len__(self):
        return 2


class OwnClass:
    """The training nodes of one class, another one in each process; of a lone process, all."""

    def __iter__(self):
        batch = TinyDouble().batch
        if torch.distributed.is_initialized():
            own = batch.y == torch.distributed.get_rank()
            batch = dataclasses.replace(batch, train_mask=batch.train_mask & own)
        return iter([batch])

    def __len__(self):
        return 1


def balanced(devices=1, strategy="auto"):
    """What Balancedness measures in a training with clipped gradients."""
    callback = Balancedness()
    trainer = L.Trainer(
        **QUIET, callbacks=[callback], accelerator="cpu", devices=devices, strategy=strategy, max_epochs=3,
        gradient_clip_val=1e-2, num_sanity_val_steps=0, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(test_balancedness.model(), OwnClass(), OwnClass())
    return test_balancedness.values(callback)


class Loaders(L.LightningDataModule):
    def __init__(self, kind, parts):
        super().__init__()
        self.kind, self.parts = kind, parts

    def train_dataloader(self):
        return self.kind(
            self.parts, self.trainer.global_rank if self.trainer.world_size > 1 else None
        )


def watched(shared, parts, rank):
    """Every measure in a loop without Lightning, distributed if there is a rank."""
    model = Nodes()
    if rank is not None:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = Parts(1 if shared else parts, 0 if shared else rank)
    with gnn_depth.watch(model, "rounds.*", tuple(MEASURES), shared=shared) as watching:
        for batch in batches:
            model(batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            optimizer.zero_grad()
            watching.step()
    return {
        name: of_measure.value.to_numpy()
        for name, of_measure in watching.frame().groupby("measure")
    }


def metrics(parts, rank=None):
    """The metrics of every task over two batches: of all rows, or of one of the unequal parts that
    processes have.

    The last part has validation rows only.
    """

    def reduced(x, reduce_op):
        torch.distributed.all_reduce(x)
        return x if reduce_op == "sum" else x / parts

    strategy = SimpleNamespace(reduce=reduced, root_device=torch.device("cpu"))
    size = 1 if rank is None else parts
    trainer = SimpleNamespace(
        world_size=size, strategy=strategy, training=True, train_dataloader=None
    )
    found = {}
    for name, make in TASKS.items():
        draws = torch.Generator().manual_seed(0)
        task = make(2 if name == "binary" else 3)
        of_epoch = EpochMetrics(("val", "test"), task)
        for size in (17, 8):
            out = torch.randn(size, task.num_outputs, generator=draws)
            classes, labels = (
                torch.randint(most, (size, 3), generator=draws) for most in (task.num_outputs, 2)
            )
            y = {
                "classes": classes[:, 0],
                "labels": labels,
                "numbers": torch.randn(size, 3, generator=draws),
            }[task.targets]
            val = torch.rand(size, generator=draws) < 0.5
            part = torch.rand(size, generator=draws).sqrt().mul(parts).long()
            part[(part == parts - 1) & ~val] = 0
            own = torch.ones_like(val) if rank is None else part == rank
            sets = NodeSets(
                y, [val & own, ~val & own], task.num_outputs if task.counts_classes else None
            )
            count = sets.sizes[0]
            loss = task.loss(out[sets.nodes[:count]], sets.targets[:count]) if count else None
            of_epoch.add(sets, out[sets.nodes], loss)
        found |= {
            f"{name} {metric}": value.item() for metric, value in of_epoch.compute(trainer).items()
        }
    return found


def measured(name, devices=1, strategy="auto", parts=None, fail=None):
    """Steps and values of all callbacks in a training."""
    if name.startswith("watched"):
        return watched(
            name == "watched_shared",
            parts or devices,
            torch.distributed.get_rank() if devices > 1 else None,
        )
    pattern = "stack.blocks.*.layer" if name == "trees" else "rounds.*"
    callbacks = [kind(pattern) for kind in CALLBACKS]
    failure = FirstFailure(pattern, smoothed=0.999999, expanded=1.0001)
    trainer = L.Trainer(
        **QUIET, callbacks=[*callbacks, failure], accelerator="cpu", devices=devices, strategy=strategy, max_epochs=1,
        accumulate_grad_batches=2 if name == "rows" else 1, use_distributed_sampler=False,
        limit_val_batches=0, limit_train_batches=4 if name == "trees" else None,
    )  # fmt: skip
    torch.manual_seed(0)
    if name == "shared":
        trainer.fit(chain(), Whole())
    elif name == "trees":
        parts = {
            "layer": GAT,
            "skip": Residual,
            "num_layers": 3,
            "hidden_channels": 4,
            "encoder": "embedding",
        }
        data = TreeNeighborsMatch(depth=2, batch_size=6, passes=1)
        trainer.fit(
            NodeClassifier(data.num_features, data.num_classes, **parts).double(), datamodule=data
        )
    else:
        data = Loaders(Rows if name == "rows" else Parts, parts or devices)
        trainer.fit(chain() if name == "rows" else Nodes(fail), datamodule=data)
    found = {"steps": values(callbacks[0])[0]}
    for callback in callbacks:
        found |= {
            one.name: 10**one.values if one.log10 else one.values
            for one in callback.measure_log.measurements()
        }
    assert failure.findings()
    return found
