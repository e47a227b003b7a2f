"""Message-passing layers, one per file."""

from gnn_depth.nn.layers.gat import GAT
from gnn_depth.nn.layers.gatv2 import GATv2
from gnn_depth.nn.layers.gcn import GCN
from gnn_depth.nn.layers.gcnii import GCNII
from gnn_depth.nn.layers.ggnn import GGNN
from gnn_depth.nn.layers.gin import GIN
from gnn_depth.nn.layers.omega_gat import OmegaGAT
from gnn_depth.nn.layers.pyg import PyGConv
from gnn_depth.nn.layers.sage import SAGE
from gnn_depth.nn.layers.transformer import Transformer

__all__ = ["GAT", "GCN", "GCNII", "GGNN", "GIN", "SAGE", "GATv2", "OmegaGAT", "PyGConv", "Transformer"]
