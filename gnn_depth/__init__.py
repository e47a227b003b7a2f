"""Deep graph neural networks: every part is chosen by name, and every layer is measured during
training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gnn_depth._version import __version__
from gnn_depth.registry import register

if TYPE_CHECKING:
    from gnn_depth.builder import build
    from gnn_depth.diagnostics.probe import probe
    from gnn_depth.diagnostics.watch import watch
    from gnn_depth.graph import Graph
    from gnn_depth.nn.parts import (
        AttentionLayer,
        FeatureNorm,
        GraphDropout,
        Init,
        Layer,
        ScoreNorm,
        Skip,
        WeightNorm,
    )
    from gnn_depth.nn.stack import DeepGNN
    from gnn_depth.training.finished import Run, load
    from gnn_depth.training.module import NodeClassifier
    from gnn_depth.training.run import fit
    from gnn_depth.training.tasks import Task

__all__ = [
    "AttentionLayer",
    "DeepGNN",
    "FeatureNorm",
    "Graph",
    "GraphDropout",
    "Init",
    "Layer",
    "NodeClassifier",
    "Run",
    "ScoreNorm",
    "Skip",
    "Task",
    "WeightNorm",
    "__version__",
    "build",
    "fit",
    "load",
    "probe",
    "register",
    "watch",
]

# Imported at their first use: torch takes seconds, and `gnn-depth --version` needs none of it.
# Others: nn.parts.
_HOMES = {
    "DeepGNN": "nn.stack",
    "Graph": "graph",
    "NodeClassifier": "training.module",
    "Run": "training.finished",
    "Task": "training.tasks",
    "build": "builder",
    "fit": "training.run",
    "load": "training.finished",
    "probe": "diagnostics.probe",
    "watch": "diagnostics.watch",
}


def __getattr__(name: str) -> Any:
    if name == "diagnostics":  # gnn_depth.diagnostics.MEASURES needs no import of its own
        return import_module("gnn_depth.diagnostics")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'nn.parts')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
