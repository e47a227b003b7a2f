"""The peers: the same models written as PyTorch Geometric users write them, on ``MessagePassing``."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, GCNConv, MessagePassing
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import add_self_loops, remove_self_loops, scatter, softmax


class LipschitzGATConv(MessagePassing):
    """GATConv with LipschitzNorm between the score and its LeakyReLU, per head."""

    def __init__(self, in_channels: int, out_channels: int, heads: int, dropout: float, scale: float = 4.0) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.heads, self.out_channels, self.dropout, self.scale = heads, out_channels, dropout, scale
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))
        for weight in (self.lin.weight, self.att_src, self.att_dst):
            glorot(weight)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.shape[0])
        h = self.lin(x).view(-1, self.heads, self.out_channels)
        alpha = ((h * self.att_src).sum(-1), (h * self.att_dst).sum(-1))
        out = self.propagate(edge_index, x=h, alpha=alpha, square=h.square().sum(-1))
        return out.flatten(1) + self.bias

    def message(
        self, x_j: Tensor, alpha_j: Tensor, alpha_i: Tensor, square_j: Tensor, square_i: Tensor, index: Tensor, size_i
    ) -> Tensor:
        largest = scatter(square_j, index, 0, size_i, "max")[index]
        att = torch.cat([self.att_src, self.att_dst], -1).norm(dim=-1)
        score = (alpha_j + alpha_i) / (self.scale * att * (square_i + largest).clamp_min(1e-20).sqrt()).clamp_min(1e-12)
        alpha = softmax(F.leaky_relu(score, 0.2), index, num_nodes=size_i)
        return x_j * F.dropout(alpha, self.dropout, self.training).unsqueeze(-1)


class GATLip(nn.Module):
    """Linear map, L layers with dropout and ELU, linear map."""

    def __init__(self, features: int, classes: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(features, width)
        widths = [width, *[width * heads] * layers]
        self.layers = nn.ModuleList(LipschitzGATConv(inputs, width, heads, 0.3) for inputs in widths[:-1])
        self.decoder = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.encoder(x)
        for position, layer in enumerate(self.layers):
            x = layer(F.dropout(x, 0.6, self.training), edge_index)
            x = F.elu(x) if position < len(self.layers) - 1 else x
        return self.decoder(x)


class GATv2(nn.Module):
    """L bare GATv2 layers with shared weights and ReLU, no bias."""

    def __init__(self, features: int, classes: int, layers: int, width: int) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            GATv2Conv(inputs, outputs, share_weights=True, bias=False) for inputs, outputs in pairwise(widths)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x, edge_index).relu()
        return self.layers[-1](x, edge_index)


class ResidualGCN(nn.Module):
    """Linear map, L cached GCN layers with ReLU and residual connections, linear map."""

    def __init__(self, features: int, classes: int, layers: int, width: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(features, width)
        self.layers = nn.ModuleList(GCNConv(width, width, cached=True) for _ in range(layers))
        self.decoder = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.encoder(x)
        for position, layer in enumerate(self.layers):
            update = layer(x, edge_index)
            x = x + (update.relu() if position < len(self.layers) - 1 else update)
        return self.decoder(x)
