"""The parts of a deep GNN and the stack built from them.

Importing this package registers every built-in part.
"""

from gnn_depth.nn import graph_dropouts, inits, layers, norms, skips
from gnn_depth.nn.stack import DeepGNN

__all__ = ["DeepGNN", "graph_dropouts", "inits", "layers", "norms", "skips"]
