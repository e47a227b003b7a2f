"""Diagnostics of deep networks: callbacks that measure every layer of any LightningModule during training."""

from gnn_depth.diagnostics.balance import Balancedness
from gnn_depth.diagnostics.callbacks import (
    GradientExpansion,
    GradientNorms,
    GradientSimilarity,
    RepresentationSimilarity,
)
from gnn_depth.diagnostics.first_failure import FirstFailure
from gnn_depth.diagnostics.lipschitz import LipschitzConstants

__all__ = [
    "Balancedness",
    "FirstFailure",
    "GradientExpansion",
    "GradientNorms",
    "GradientSimilarity",
    "LipschitzConstants",
    "RepresentationSimilarity",
]
