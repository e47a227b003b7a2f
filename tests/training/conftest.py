import logging

import lightning as L
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.graph import Graph
from gnn_depth.training import NodeClassifier

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


#: Options of a trainer that says and keeps nothing.
QUIET = dict.fromkeys(
    ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
)
QUIET |= {"accelerator": "cpu", "num_sanity_val_steps": 0, "log_every_n_steps": 1}


class Tiny(NodeDataModule):
    """Two cliques of ten nodes, joined by one edge; the class is the clique, the features hint at
    it."""

    num_classes = 2

    def __init__(self, task="multiclass", x=None):
        super().__init__()
        self._task, self._x = task, x

    @property
    def task(self):
        return self._task

    def load(self):
        y = torch.arange(20) // 10
        pairs = torch.combinations(torch.arange(10))
        edges = torch.cat([pairs, pairs + 10, torch.tensor([[0, 10]])]).t()
        x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) + y[:, None]
        place = torch.arange(20) % 10
        graph = Graph(torch.cat([edges, edges.flip(0)], 1), 20)
        return NodeBatch(
            x if self._x is None else self._x,
            y,
            graph,
            place < 3,
            (place >= 3) & (place < 6),
            place >= 6,
        )


class Several:
    """A loader that is no full batch: the same graph several times."""

    def __init__(self, data, count):
        self.batch, self.count = data.batch, count

    def __iter__(self):
        return iter([self.batch] * self.count)

    def __len__(self):
        return self.count


class BreakWeights(L.Callback):
    """Make a weight NaN before the fourth epoch."""

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 3:
            with torch.no_grad():
                pl_module.stack.encoder.weight.fill_(torch.nan)


class Raise(L.Callback):
    """Raise an error after a step that ends an epoch."""

    def __init__(self, error, step):
        self.error, self.step = error, step

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.global_step == self.step:
            raise self.error


class Collect(L.Callback):
    """Every epoch's metrics and weights."""

    def __init__(self):
        self.metrics, self.weights = [], []

    def on_train_epoch_end(self, trainer, pl_module):
        self.metrics.append({name: one.item() for name, one in trainer.callback_metrics.items()})
        self.weights.append({name: one.clone() for name, one in pl_module.state_dict().items()})


def scalars(folder, prefix=""):
    """The curves in a folder's event file by tag: pairs of a step and a value."""
    events = EventAccumulator(str(folder)).Reload()
    tags = [tag for tag in events.Tags()["scalars"] if tag.startswith(prefix)]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


@pytest.fixture
def tiny():
    return Tiny()


@pytest.fixture
def make_trainer(tmp_path):
    def make(epochs=3, **options):
        return L.Trainer(max_epochs=epochs, **(QUIET | {"default_root_dir": tmp_path} | options))

    return make


@pytest.fixture
def model():
    torch.manual_seed(0)
    return NodeClassifier(4, 2, hidden_channels=8)
