import logging

import lightning as L
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gnn_depth.diagnostics import GradientNorms
from tests.training.conftest import QUIET, Tiny

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def is_hooked(model):
    """True if a module has hooks, or anything else that a measurement puts on it."""
    modules = list(model.modules())
    return any(m._forward_pre_hooks or "__reduce_ex__" in vars(m) for m in modules)


class TinyDouble(Tiny):
    def load(self):
        batch = super().load()
        object.__setattr__(batch, "x", batch.x.double())
        return batch


class Chain(L.LightningModule):
    """Nobody's model: x + tanh(W x), several times, and a mean square error."""

    def __init__(self, depth=4, width=3, optimizer=None, factor=1.0, call=None):
        super().__init__()
        self.enter = nn.Linear(width, width)
        self.rounds = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.optimizer = optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.1))
        self.factor = factor
        self.call = call or (lambda layer, x: layer(x))
        self.hooked = []

    def states(self, x):
        """What enters each layer, and what leaves the last."""
        x = self.enter(x)
        yield x
        for layer in self.rounds:
            x = x + torch.tanh(self.call(layer, x))
            yield x

    def loss(self, batch):
        *_, out = self.states(batch[0])
        return (out.float() if out.dtype == torch.bfloat16 else out).square().mean() * self.factor

    def training_step(self, batch, batch_idx):
        self.hooked.append(is_hooked(self))
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return self.optimizer(self.parameters())


def rows(count=20, width=3, dtype=torch.float64):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1)).to(dtype)


def loader(x, batch_size):
    return DataLoader(TensorDataset(x), batch_size=batch_size)


def chain(**options):
    torch.manual_seed(0)
    return Chain(**options).double()


def values(callback):
    """Steps and both quantities, hidden norms and parameter norms for example, not as
    logarithms."""
    first, second = callback.measure_log.measurements()
    return first.steps, 10**first.values, 10**second.values


@pytest.fixture
def make_trainer(tmp_path):
    def make(callbacks, **options):
        defaults = QUIET | {"max_epochs": 1, "default_root_dir": tmp_path}
        return L.Trainer(callbacks=callbacks, **(defaults | options))

    return make


@pytest.fixture
def measure(make_trainer):
    """Train a chain and return its callback."""

    def run(
        module=None,
        x=None,
        batch_size=20,
        cadence=None,
        callbacks=(),
        kind=GradientNorms,
        **options,
    ):
        callback = kind("rounds.*", **(cadence or {}))
        trainer = make_trainer([callback, *callbacks], **options)
        trainer.fit(module or chain(), loader(rows() if x is None else x, batch_size))
        return callback

    return run


@pytest.fixture
def board(tmp_path):
    return TensorBoardLogger(tmp_path, name="run", version="")


@pytest.fixture
def fit(make_trainer):
    """Train a chain with some callbacks and return the trainer."""

    def run(*callbacks, **options):
        trainer = make_trainer(list(callbacks), **options)
        trainer.fit(chain(), loader(rows(), 20))
        return trainer

    return run
