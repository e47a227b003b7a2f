"""The peers: the models as users of PyTorch Geometric write them, on ``MessagePassing``; a GCN on
``torch.sparse``."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, MessagePassing, TransformerConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import add_self_loops, remove_self_loops, scatter, softmax


class LipschitzGATConv(MessagePassing):
    """GATConv with LipschitzNorm between the score and its LeakyReLU, per head."""

    def __init__(
        self, in_channels: int, out_channels: int, heads: int, dropout: float, scale: float = 4.0
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.heads, self.out_channels = heads, out_channels
        self.dropout, self.scale = dropout, scale
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
        self,
        x_j: Tensor,
        alpha_j: Tensor,
        alpha_i: Tensor,
        square_j: Tensor,
        square_i: Tensor,
        index: Tensor,
        size_i,
    ) -> Tensor:
        largest = scatter(square_j, index, 0, size_i, "max")[index]
        att = torch.cat([self.att_src, self.att_dst], -1).norm(dim=-1)
        size = self.scale * att * (square_i + largest).clamp_min(1e-20).sqrt()
        score = (alpha_j + alpha_i) / size.clamp_min(1e-12)
        alpha = softmax(F.leaky_relu(score, 0.2), index, num_nodes=size_i)
        return x_j * F.dropout(alpha, self.dropout, self.training).unsqueeze(-1)


class LipschitzTransformerConv(TransformerConv):
    """TransformerConv with LipschitzNorm on its scores, per head."""

    def message(
        self, query_i: Tensor, key_j: Tensor, value_j: Tensor, edge_attr, index: Tensor, ptr, size_i
    ) -> Tensor:
        u, v, w = query_i.norm(dim=-1), key_j.norm(dim=-1), value_j.norm(dim=-1)
        v, w = (scatter(norm, index, 0, size_i, "max")[index] for norm in (v, w))
        size = torch.maximum(u * torch.maximum(v, w), v * w)
        score = (query_i * key_j).sum(-1) / self.out_channels**0.5 / size.clamp_min(1e-12)
        alpha = softmax(score, index, ptr, size_i)
        return value_j * F.dropout(alpha, self.dropout, self.training).unsqueeze(-1)


class AttentionLip(nn.Module):
    """Linear map, L layers with dropout and ELU, linear map."""

    def __init__(
        self,
        conv: type[MessagePassing],
        features: int,
        classes: int,
        layers: int,
        width: int,
        heads: int,
        p: float,
    ) -> None:
        super().__init__()
        self.dropout = p
        self.encoder = nn.Linear(features, width)
        widths = [width, *[width * heads] * layers]
        self.layers = nn.ModuleList(
            conv(inputs, width, heads=heads, dropout=0.3) for inputs in widths[:-1]
        )
        self.decoder = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.encoder(x)
        for position, layer in enumerate(self.layers):
            x = layer(F.dropout(x, self.dropout, self.training), edge_index)
            if position < len(self.layers) - 1:
                x = F.elu(x)
        return self.decoder(x)


class GATv2(nn.Module):
    """L bare GATv2 layers with shared weights and ReLU, no bias."""

    def __init__(self, features: int, classes: int, layers: int, width: int) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            GATv2Conv(inputs, outputs, share_weights=True, bias=False)
            for inputs, outputs in pairwise(widths)
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
            if position < len(self.layers) - 1:
                update = update.relu()
            x = x + update
        return self.decoder(x)


class SymmetricProduct(torch.autograd.Function):
    """A x for a symmetric A, which is its own transpose in the backward pass."""

    @staticmethod
    def forward(ctx, adjacency: Tensor, x: Tensor) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency @ x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.adjacency @ gradient


class SparseConv(nn.Module):
    """GCNConv as a product with a CSR matrix."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(channels, channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return SymmetricProduct.apply(adjacency, self.lin(x)) + self.bias


class SparseGCN(ResidualGCN):
    """The residual GCN on torch.sparse, for graphs with both directions of every edge."""

    def __init__(self, features: int, classes: int, layers: int, width: int) -> None:
        super().__init__(features, classes, 0, width)
        self.layers = nn.ModuleList(SparseConv(width) for _ in range(layers))
        self.adjacency: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.adjacency is None:
            edges, weights = gcn_norm(edge_index, num_nodes=len(x))
            # A row for each target.
            matrix = torch.sparse_coo_tensor(edges.flip(0), weights, (len(x), len(x)))
            self.adjacency = matrix.to_sparse_csr()
        return super().forward(x, self.adjacency)


class TreeGAT(nn.Module):
    """Collate; sum of two embeddings, L layers of GAT with residual connections and LayerNorm,
    linear map of the roots.

    Alon & Yahav's model for Tree-NeighborsMatch, whose GAT has no activation but that of the
    attention.
    """

    def __init__(
        self, num_values: tuple[int, ...], classes: int, layers: int, width: int, heads: int
    ) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(nn.Embedding(count, width) for count in num_values)
        self.layers = nn.ModuleList(GATConv(width, width // heads, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.decoder = nn.Linear(width, classes)

    def forward(self, examples: list[Data]) -> Tensor:
        batch = Batch.from_data_list(examples)
        x = sum(
            table(column) for table, column in zip(self.encoder, batch.x.unbind(1), strict=True)
        )
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(x + layer(x, batch.edge_index))
        return self.decoder(x[batch.root_mask])
