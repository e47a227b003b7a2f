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
from gnn_depth.training import NodeClassifier
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.tasks import Binary, MultiClass, MultiLabel, Regression
from tests.diagnostics import test_balancedness
from tests.diagnostics.conftest import TinyDouble, chain, rows, values
from tests.training.conftest import QUIET

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


def parts_of_graphs(parts, rank):
    """The part of a process of each step, or the parts of all in one graph for a lone process.

    The parts have other nodes each, the last step has fewer, and in the second step the last part
    has none.
    """
    for step in range(STEPS):
        graphs = [graph(step, part, parts) for part in range(parts)]
        yield union(graphs) if rank is None else graphs[rank]


def graph(step, part, parts):
    count = 0 if (step, part) == (1, parts - 1) else (2 if step == STEPS - 1 else 9) + part
    draws = torch.Generator().manual_seed(100 * step + part)
    x = torch.randn(count, WIDTH, generator=draws, dtype=torch.float64)
    edges = torch.randint(max(count, 1), (2, count), generator=draws)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges, edges.flip(0)], 1)
    return x, edges, torch.full((count,), 1 / max(count, 1), dtype=torch.float64)


def union(graphs):
    x, edges, weights = zip(*graphs)
    starts = torch.tensor([0, *map(len, x)]).cumsum(0)
    edges = [part + start for part, start in zip(edges, starts)]
    return torch.cat(x), torch.cat(edges, 1), torch.cat(weights) / len(graphs)


def parts_of_rows(parts, rank):
    """Parts of the same rows, in two batches that make a step."""
    for half in rows(36).split(18):
        yield [half if rank is None else half[rank::parts]]


def own_rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else None


def own_class():
    """The training nodes of one class, another one in each process; of a lone process, all."""
    batch = TinyDouble().batch
    if own_rank() is not None:
        own = batch.y == own_rank()
        batch = dataclasses.replace(batch, train_mask=batch.train_mask & own)
    return [batch]


class Loaders(L.LightningDataModule):
    """Makes its batches when the processes are there."""

    def __init__(self, batches, shared=False):
        super().__init__()
        self.batches, self.shared = batches, shared

    def train_dataloader(self):
        loader = torch.utils.data.DataLoader(list(self.batches()), batch_size=None)
        loader.shared = self.shared
        return loader


def trainer_of(callbacks, devices, strategy, **options):
    return L.Trainer(
        **QUIET,
        callbacks=callbacks,
        devices=devices,
        strategy=strategy,
        use_distributed_sampler=False,
        limit_val_batches=0,
        **options,
    )


def balanced(devices=1, strategy="auto"):
    """What Balancedness measures in a training with clipped gradients."""
    callback = Balancedness()
    trainer = trainer_of([callback], devices, strategy, max_epochs=3, gradient_clip_val=1e-2)
    trainer.fit(test_balancedness.model(), datamodule=Loaders(own_class))
    return test_balancedness.values(callback)


def watched(shared, parts, rank):
    """Every measure in a loop without Lightning, distributed if there is a rank."""
    model = Nodes()
    if rank is not None:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = parts_of_graphs(1, 0) if shared else parts_of_graphs(parts, rank)
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
    trainer = SimpleNamespace(strategy=strategy, training=True, train_dataloader=None)
    trainer.world_size = 1 if rank is None else parts
    found = {}
    for name, make in TASKS.items():
        draws = torch.Generator().manual_seed(0)
        task = make(2 if name == "binary" else 3)
        of_epoch = EpochMetrics(("val", "test"), task)
        for size in (17, 8):
            out = torch.randn(size, task.num_outputs, generator=draws)
            y = {
                "classes": torch.randint(task.num_outputs, (size,), generator=draws),
                "labels": torch.randint(2, (size, 3), generator=draws),
                "numbers": torch.randn(size, 3, generator=draws),
            }[task.targets]
            val = torch.rand(size, generator=draws) < 0.5
            part = torch.rand(size, generator=draws).sqrt().mul(parts).long()
            part[(part == parts - 1) & ~val] = 0
            own = torch.ones_like(val) if rank is None else part == rank
            sets = NodeSets(y, [val & own, ~val & own], task)
            count = sets.sizes[0]
            loss = task.loss(out[sets.nodes[:count]], sets.targets[:count]) if count else None
            of_epoch.add(sets, out[sets.nodes], loss)
        for metric, value in of_epoch.compute(trainer).items():
            found[f"{name} {metric}"] = value.item()
    return found


def measured(name, devices=1, strategy="auto", parts=None, fail=None):
    """Steps and values of all callbacks in a training."""
    parts = parts or devices
    if name.startswith("watched"):
        return watched(name == "watched_shared", parts, own_rank())
    pattern = "stack.blocks.*.layer" if name == "trees" else "rounds.*"
    callbacks = [kind(pattern) for kind in CALLBACKS]
    failure = FirstFailure(pattern, smoothed=0.999999, expanded=1.0001)
    options = {"accumulate_grad_batches": 2} if name == "rows" else {}
    if name == "trees":
        options = {"limit_train_batches": 4}
    torch.manual_seed(0)
    if name == "trees":
        data = TreeNeighborsMatch(depth=2, batch_size=6, passes=1)
        parts = {"layer": "gat", "skip": "residual", "num_layers": 3, "hidden_channels": 4}
        model = NodeClassifier(data.num_features, data.num_classes, **parts, encoder="embedding")
    elif name == "nodes":
        model, data = Nodes(fail), Loaders(lambda: parts_of_graphs(parts, own_rank()))
    elif name == "rows":
        model, data = chain(), Loaders(lambda: parts_of_rows(parts, own_rank()))
    else:
        model, data = chain(), Loaders(lambda: [[rows(18)]], shared=True)
    trainer = trainer_of([*callbacks, failure], devices, strategy, max_epochs=1, **options)
    trainer.fit(model.double(), datamodule=data)
    found = {"steps": values(callbacks[0])[0]}
    for callback in callbacks:
        for one in callback.measure_log.measurements():
            found[one.name] = 10**one.values if one.log10 else one.values
    assert failure.findings()
    return found
