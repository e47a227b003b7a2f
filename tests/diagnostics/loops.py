"""Models around PyTorch Geometric's convolutions, as people write them, and what they are called
with."""

import torch
from torch import nn
from torch_geometric import nn as pyg

NODES, CHANNELS, DEPTH = 12, 4, 3
CONVOLUTIONS = {
    "GCNConv": lambda: pyg.GCNConv(CHANNELS, CHANNELS),
    "GATv2Conv": lambda: pyg.GATv2Conv(CHANNELS, CHANNELS),
    "FAConv": lambda: pyg.FAConv(CHANNELS),
    "GCN2Conv": lambda: pyg.GCN2Conv(CHANNELS, 0.1),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(CHANNELS, 2),
    "EdgeConv": lambda: pyg.EdgeConv(nn.Linear(2 * CHANNELS, CHANNELS)),
}
WITH_FIRST_STATE = ("FAConv", "GCN2Conv")


def graph(nodes=NODES, edges=40, seed=3):
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))


def features(nodes=NODES, seed=1):
    """Features that are differentiated, so that the first layer's input has a gradient, too."""
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(nodes, CHANNELS, dtype=torch.float64, generator=draws).requires_grad_()


class Loop(nn.Module):
    """A model written by hand around some convolutions."""

    def __init__(self, make, depth=DEPTH):
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(depth))

    def forward(self, x, edge_index):
        first = x
        for layer in self.layers:
            args = (
                (x, first, edge_index)
                if type(layer).__name__ in WITH_FIRST_STATE
                else (x, edge_index)
            )
            x = x + torch.tanh(layer(*args))
        return x
