"""Diagnostics of deep networks: callbacks that measure every layer of any LightningModule during
training."""

from gnn_depth.diagnostics.balance import Balancedness
from gnn_depth.diagnostics.callbacks import (
    DirichletEnergy,
    EffectiveRank,
    GradientExpansion,
    GradientNorms,
    GradientSimilarity,
    LayerMeasures,
    MeanAverageDistance,
    Projection,
    RepresentationSimilarity,
)
from gnn_depth.diagnostics.first_failure import FirstFailure
from gnn_depth.diagnostics.jacobian import Influence, influence
from gnn_depth.diagnostics.layer_statistics import MEASURES, add_measure
from gnn_depth.diagnostics.lipschitz import LipschitzConstants

__all__ = [
    "MEASURES",
    "Balancedness",
    "DirichletEnergy",
    "EffectiveRank",
    "FirstFailure",
    "GradientExpansion",
    "GradientNorms",
    "GradientSimilarity",
    "Influence",
    "LayerMeasures",
    "LipschitzConstants",
    "MeanAverageDistance",
    "Projection",
    "RepresentationSimilarity",
    "add_measure",
    "influence",
]
