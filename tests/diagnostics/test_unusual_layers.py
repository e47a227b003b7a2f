"""Layers and loops that are easily measured wrongly: the right value, or NaN with a note, in a watch,
a callback and a probe."""

from functools import partial

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import gnn_depth
from gnn_depth.diagnostics import LayerMeasures
from tests.diagnostics.loops import graph
from tests.training.conftest import QUIET

WIDTH, NODES, DEPTH = 4, 12, 3
MEASURES = ["representation_norm", "gradient_norm_hidden", "gradient_norm_parameters"]


class OfBatch(nn.Module):
    """Takes a batch and returns it, as the layers of GraphGym do."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(WIDTH, WIDTH)

    def forward(self, batch):
        batch.x = batch.x + self.conv(batch.x, batch.edge_index).relu()
        return batch


class OfAdjacency(nn.Linear):
    def forward(self, adjacency, x):
        return torch.tanh(adjacency @ super().forward(x))


class Complex(nn.Module):
    """Complex weights on real states, as in Fourier neural operators."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, WIDTH, WIDTH, dtype=torch.cdouble) / 4)

    def forward(self, x):
        waves = torch.einsum("fi,foi->fo", torch.fft.rfft(x, dim=0)[:5], self.weight)
        return x + torch.fft.irfft(waves, n=len(x), dim=0)


def residual(layer, x):
    return x + layer(x, EDGES).relu()


EDGES = graph(NODES)
ADJACENCY = torch.zeros(NODES, NODES, dtype=torch.float64)
ADJACENCY[EDGES[1], EDGES[0]] = 0.3
PLAIN = partial(GCNConv, WIDTH, WIDTH)
KINDS = {
    "batch": (OfBatch, lambda layer, x: layer(Data(x, EDGES)).x),
    "adjacency": (partial(OfAdjacency, WIDTH, WIDTH), lambda layer, x: layer(ADJACENCY, x)),
    "complex": (Complex, lambda layer, x: layer(x)),
    "lazy": (partial(GCNConv, -1, WIDTH), residual),
    "clipped": (PLAIN, residual),
    "gcn": (PLAIN, residual),
}


class Model(L.LightningModule):
    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.enter = nn.Linear(WIDTH, WIDTH)
        make, self.call = KINDS[kind]
        self.layers = nn.ModuleList(make() for _ in range(DEPTH)).double()
        self.double()
        draws = torch.Generator().manual_seed(1)
        self.x = torch.randn(NODES, WIDTH, dtype=torch.float64, generator=draws)
        self.states = []
        self.automatic_optimization = kind != "clipped"

    def forward(self):
        torch.manual_seed(2)  # lazy layers draw their weights now
        x, self.states = self.enter(self.x), []
        for layer in self.layers:
            self.states.append(x)
            x = self.call(layer, x)
        return x.square().mean()

    def training_step(self, batch, batch_idx):
        if self.automatic_optimization:
            return self()
        optimizer = self.optimizers()
        self.manual_backward(self())
        self.clip_gradients(optimizer, 1e-6, "norm")
        return optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def by_autograd(kind):
    """The norms of states, of their gradients, and of those of each layer's parameters."""
    model = Model(kind)
    loss = model()
    found = [[float(x.detach().norm()) for x in model.states]]
    gradients = torch.autograd.grad(loss, model.states, retain_graph=True)
    found.append([float(gradient.norm()) for gradient in gradients])
    loss.backward()
    of_layers = []
    for layer in model.layers:
        of_layers.append([parameter.grad.abs().norm() for parameter in layer.parameters()])
    return [*found, [float(torch.stack(norms).norm()) for norms in of_layers]]


def in_watch(model):
    with gnn_depth.watch(model, "layers.*", MEASURES) as watched:
        model().backward()
        watched.step()
    return of_each(watched.frame())


def in_callback(model):
    measures = LayerMeasures(MEASURES, "layers.*")
    trainer = L.Trainer(**QUIET, callbacks=[measures], max_epochs=1)
    trainer.fit(model, torch.utils.data.DataLoader([0]))
    return of_each(measures.frame())


def of_each(frame):
    return [frame[frame.measure == name].value for name in MEASURES]


def in_probe(model):
    frame = gnn_depth.probe(model, layers="layers.*").frame()
    assert (frame["constant"] > 0).all()
    return [frame[symbol] for symbol in ("||X||", "||G||", "||dW||")]


@pytest.mark.parametrize("measured", [in_watch, in_callback, in_probe])
@pytest.mark.parametrize("kind", ["batch", "adjacency", "complex", "lazy", "clipped"])
def test_values_are_those_of_autograd(kind, measured):
    for found, expected in zip(measured(Model(kind)), by_autograd(kind), strict=True):
        assert found.tolist() == pytest.approx(expected, rel=1e-9)


def with_steps_in_the_backward_pass(model):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda one: setattr(one, "grad", None))
    return model


def without_one_layer(model):
    model.layers[1].forward = lambda x, edges: x
    return model


@pytest.mark.parametrize("measured", [in_watch, in_callback])
@pytest.mark.parametrize(
    ("change", "missing"), [(with_steps_in_the_backward_pass, [0, 1, 2]), (without_one_layer, [1])]
)
def test_parameters_without_a_gradient_are_nan_with_a_note(change, missing, measured):
    with pytest.warns(UserWarning, match=rf"no gradient at the end .*layers.{missing[0]}"):
        *_, found = measured(change(Model("gcn")))
    assert np.flatnonzero(np.isnan(found)).tolist() == missing
