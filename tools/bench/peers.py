"""The layers as users of PyTorch Geometric write them, on ``MessagePassing``; a GCN on
``torch.sparse``."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.typing import PairTensor  # noqa: F401  (of a comment that is read as code)
from torch_geometric.utils import add_self_loops, remove_self_loops, scatter, softmax

from tools.bench.cases import Case, Data
from tools.bench.stack import Stack


def model(kind: str, case: Case, data: Data) -> nn.Module:
    """The model of a case, in PyTorch Geometric or on ``torch.sparse``.

    A recording cannot look at the edges: for one, attention gets edges with self-loops.
    """
    loops = kind != "pyg-recorded"
    sizes = (data.batch.x.shape[1], data.classes, case.layers, case.width, case.heads)
    if kind == "torch.sparse":
        return SparseStack(case.family, SparseConv, *sizes)
    layers: dict[str, Callable[..., nn.Module]] = {
        "gat-lip": partial(LipschitzGATConv, heads=case.heads, dropout=0.3, add_self_loops=loops),
        "gatv2": partial(GATv2Conv, share_weights=True, bias=False, add_self_loops=loops),
        "gcn": partial(GCNConv, cached=True),
    }
    return Stack(case.family, layers[case.family], *sizes)


class LipschitzGATConv(GATConv):
    """GATConv with LipschitzNorm between the score and its LeakyReLU, per head."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.add_self_loops:
            edge_index = with_loops(edge_index, x.shape[0])
        h = self.lin(x).view(-1, self.heads, self.out_channels)
        alpha = ((h * self.att_src).sum(-1), (h * self.att_dst).sum(-1))
        # PyTorch Geometric reads this line.
        # propagate_type: (x: Tensor, alpha: PairTensor, square: Tensor)
        out = self.propagate(edge_index, x=h, alpha=alpha, square=h.square().sum(-1))
        return out.flatten(1) + self.bias

    def message(self, x_j, alpha_j, alpha_i, square_j, square_i, index, size_i) -> Tensor:
        largest = scatter(square_j, index, 0, size_i, "max")[index]
        att = torch.cat([self.att_src, self.att_dst], -1).norm(dim=-1)
        size = 4.0 * att * (square_i + largest).clamp_min(1e-20).sqrt()
        score = (alpha_j + alpha_i) / size.clamp_min(1e-12)
        alpha = softmax(F.leaky_relu(score, 0.2), index, num_nodes=size_i)
        return x_j * F.dropout(alpha, self.dropout, self.training).unsqueeze(-1)


def with_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The edges with one self-loop at every node."""
    looped: Tensor = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)[0]
    return looped


class SymmetricProduct(torch.autograd.Function):
    """A x for a symmetric A, which is its own transpose in the backward pass."""

    @staticmethod
    def forward(ctx: Any, adjacency: Tensor, x: Tensor) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency @ x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.adjacency @ gradient


class SparseConv(nn.Module):
    """GCNConv as a product with a CSR matrix."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return SymmetricProduct.apply(adjacency, self.lin(x)) + self.bias


class SparseStack(Stack):
    """A GCN on torch.sparse, for graphs with both directions of every edge."""

    adjacency: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.adjacency is None:
            edges, weights = gcn_norm(edge_index, num_nodes=len(x))
            # A row for each target.
            matrix = torch.sparse_coo_tensor(edges.flip(0), weights, (len(x), len(x)))
            self.adjacency = matrix.to_sparse_csr()
        return super().forward(x, self.adjacency)
