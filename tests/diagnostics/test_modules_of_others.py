"""LightningModules of others: callbacks measure what a watch of the same losses does, and change
nothing."""

import copy

import lightning as L
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import gnn_depth
from gnn_depth.diagnostics import LayerMeasures
from gnn_depth.diagnostics.hooks import uncompiled
from tests.diagnostics.conftest import is_hooked
from tests.diagnostics.loops import graph

MEASURES = (
    "representation_norm",
    "representation_similarity",
    "gradient_norm_hidden",
    "gradient_similarity",
    "gradient_norm_parameters",
)
WIDTH = 4


def data(seed):
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(12 + seed, WIDTH, dtype=torch.float64, generator=draws)
    return Data(x, graph(len(x), 40, seed), y=torch.randint(2, (len(x),), generator=draws))


class Automatic(L.LightningModule):
    """Convolutions in a loop, and a loss that ``training_step`` returns."""

    layers, batch_size = "convs.*", 1

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(self.conv() for _ in range(3))
        self.head = nn.Linear(WIDTH, 2)

    def conv(self):
        return pyg.GCNConv(WIDTH, WIDTH)

    def forward(self, batch):
        x = self.head.weight[0] + batch.x  # so that the first layer's input has a gradient
        for conv in self.convs:
            x = conv(x, batch.edge_index).relu()
        return self.head(x)

    def loss(self, batch):
        return F.cross_entropy(self(batch), batch.y)

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class MiniBatches(Automatic):
    """A model of PyTorch Geometric inside, and two graphs in a batch."""

    layers, batch_size = "net.convs.*", 2

    def __init__(self):
        super().__init__()
        self.net = pyg.GraphSAGE(WIDTH, WIDTH, 3, 2, norm="batch_norm")

    def forward(self, batch):
        return self.net(batch.x + self.head.weight[0], batch.edge_index)


class Adversarial(Automatic):
    """A generator, and a discriminator that is trained first; each has an optimizer."""

    layers = "discriminator.*"

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Linear(WIDTH, WIDTH)
        self.discriminator = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def judged(self, x, real):
        return F.softplus(self.discriminator(x) * (1 - 2 * real)).mean()

    def loss(self, batch):
        real = self.judged(batch.x.clone().requires_grad_(), 1)
        return real + self.judged(self.generator(batch.x), 0)

    def training_step(self, batch, batch_idx):
        of_discriminator, of_generator = self.optimizers()
        self.manual_backward(self.loss(batch))
        of_discriminator.step()
        of_discriminator.zero_grad()
        of_generator.zero_grad()
        self.manual_backward(self.judged(self.generator(batch.x), 1))
        of_generator.step()

    def configure_optimizers(self):
        parts = self.discriminator, self.generator
        return [torch.optim.Adam(part.parameters()) for part in parts]


def in_columns(frame):
    return frame.pivot_table(index="measure", columns="layer", values="value", dropna=False)


def watched(module, batch):
    """The measures of one step, as a watch of the same loss finds them: test_watch.py compares it
    with autograd."""
    with gnn_depth.watch(module, module.layers, MEASURES) as watching:
        module.loss(batch).backward()
        watching.step()
    return in_columns(watching.frame())


@pytest.mark.parametrize("kind", [MiniBatches, Adversarial])
def test_a_module_written_without_this_package_is_measured_as_in_a_loop_and_trained_as_alone(
    kind, make_trainer
):
    torch.manual_seed(0)
    module = kind().double()
    loader = DataLoader([data(seed) for seed in range(2)], batch_size=kind.batch_size)
    expected = watched(copy.deepcopy(module).train(), next(iter(loader)))
    alone, measures = copy.deepcopy(module), LayerMeasures(list(MEASURES), kind.layers)
    for one, callbacks in ((module, [measures]), (alone, [])):
        torch.manual_seed(1)
        make_trainer(callbacks, max_epochs=2).fit(one, loader)
    found = in_columns(measures.frame().query("step == 0")).to_numpy()
    assert found == pytest.approx(expected.to_numpy(), rel=1e-6, nan_ok=True)
    for ours, theirs in zip(module.parameters(), alone.parameters()):
        assert torch.equal(ours, theirs)
    assert not is_hooked(module)
    assert uncompiled._count == 0
