"""Training: the module, its metrics, and the files of a run."""

from gnn_depth.training.divergence import Diverged
from gnn_depth.training.graph_strategy import GraphStrategy
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.tasks import Binary, MultiClass, MultiLabel, Regression, Task

__all__ = [
    "Binary",
    "Diverged",
    "GraphStrategy",
    "MultiClass",
    "MultiLabel",
    "NodeClassifier",
    "Regression",
    "Task",
]
