"""Message-passing layers."""

from gnn_depth.nn.layers.dynamics import GGNN, SWAN, Antisymmetric, ReactionDiffusion
from gnn_depth.nn.layers.filters import ACM, Mean, Unitary
from gnn_depth.nn.layers.gat import GAT, GATE, GATv2, OmegaGAT
from gnn_depth.nn.layers.gcn import GCN, GCNII, SAGE
from gnn_depth.nn.layers.gin import GIN
from gnn_depth.nn.layers.pyg import PyGConv
from gnn_depth.nn.layers.transformer import Transformer
