"""Deep graph neural networks: every part is chosen by name, and every layer is measured during training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gnn_depth._version import __version__
from gnn_depth.registry import register

if TYPE_CHECKING:
    from gnn_depth.diagnostics.probe import probe
    from gnn_depth.diagnostics.watch import watch
    from gnn_depth.graph import Graph
    from gnn_depth.nn.parts import AttentionLayer, FeatureNorm, GraphDropout, Init, Layer, ScoreNorm, Skip, WeightNorm
    from gnn_depth.nn.stack import DeepGNN
    from gnn_depth.notebook import fit
    from gnn_depth.training.module import NodeClassifier
    from gnn_depth.training.tasks import Task

# Imported at their first use: torch takes seconds, and `gnn-depth --version` needs none of it.
_HOMES = {
    "Layer": "gnn_depth.nn.parts",
    "AttentionLayer": "gnn_depth.nn.parts",
    "FeatureNorm": "gnn_depth.nn.parts",
    "ScoreNorm": "gnn_depth.nn.parts",
    "Init": "gnn_depth.nn.parts",
    "Skip": "gnn_depth.nn.parts",
    "WeightNorm": "gnn_depth.nn.parts",
    "GraphDropout": "gnn_depth.nn.parts",
    "Graph": "gnn_depth.graph",
    "DeepGNN": "gnn_depth.nn.stack",
    "NodeClassifier": "gnn_depth.training.module",
    "Task": "gnn_depth.training.tasks",
    "fit": "gnn_depth.notebook",
    "probe": "gnn_depth.diagnostics.probe",
    "watch": "gnn_depth.diagnostics.watch",
}

__all__ = [
    "AttentionLayer",
    "DeepGNN",
    "FeatureNorm",
    "Graph",
    "GraphDropout",
    "Init",
    "Layer",
    "NodeClassifier",
    "ScoreNorm",
    "Skip",
    "Task",
    "WeightNorm",
    "__version__",
    "fit",
    "probe",
    "register",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
