"""Message-passing layers, one a file."""

from gnn_depth.nn.layers.gat import GAT
from gnn_depth.nn.layers.gatv2 import GATv2
from gnn_depth.nn.layers.gcn import GCN

__all__ = ["GAT", "GCN", "GATv2"]
