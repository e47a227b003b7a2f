"""Steps that several data sets share: rows of features to sum one, edges in both directions."""

import torch
from torch import Tensor


def normalize_rows(x: Tensor) -> Tensor:
    r"""Each row divided by the sum of its absolute values, in place; rows of zeros stay so.

    .. math:: x_i \leftarrow x_i / \|x_i\|_1
    """
    size = torch.linalg.vector_norm(x, 1, dim=1, keepdim=True)
    return x.div_(size.masked_fill_(size == 0, 1))


def coalesce(edge_index: Tensor, num_nodes: int, undirected: bool) -> Tensor:
    """The distinct edges; with ``undirected``, in both directions."""
    if undirected:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    key = torch.unique(edge_index[0] * num_nodes + edge_index[1])
    return torch.stack([key.div(num_nodes, rounding_mode="floor"), key % num_nodes])
