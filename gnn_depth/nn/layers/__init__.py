"""Message-passing layers."""

from gnn_depth.nn.layers.dynamics import SWAN, Antisymmetric, ReactionDiffusion
from gnn_depth.nn.layers.filters import ACM, Mean, Unitary
from gnn_depth.nn.layers.gat import GAT, GATv2, OmegaGAT
from gnn_depth.nn.layers.gate import GATE
from gnn_depth.nn.layers.gcn import GCN, GCNII, SAGE
from gnn_depth.nn.layers.ggnn import GGNN
from gnn_depth.nn.layers.gin import GIN
from gnn_depth.nn.layers.pyg import PyGConv
from gnn_depth.nn.layers.transformer import Transformer
