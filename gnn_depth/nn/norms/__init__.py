"""Norms, one per file.

To add one, subclass FeatureNorm, ScoreNorm or WeightNorm, decorate it with ``@register("norm", name)`` and import it
here.
"""

from gnn_depth.nn.norms.batch import BatchNorm
from gnn_depth.nn.norms.graph import GraphNorm
from gnn_depth.nn.norms.group import DiffGroupNorm
from gnn_depth.nn.norms.layer import LayerNorm
from gnn_depth.nn.norms.lipschitz import LipschitzNorm
from gnn_depth.nn.norms.mean import MeanNorm
from gnn_depth.nn.norms.neighbor import NeighborNorm
from gnn_depth.nn.norms.node import NodeNorm
from gnn_depth.nn.norms.none import NoNorm
from gnn_depth.nn.norms.pair import PairNorm, PairNormSI
from gnn_depth.nn.norms.spectral import SpectralNorm
from gnn_depth.nn.norms.weight import WeightNormalisation
from gnn_depth.nn.norms.weight_frobenius import FrobeniusNorm

__all__ = [
    "BatchNorm",
    "DiffGroupNorm",
    "FrobeniusNorm",
    "GraphNorm",
    "LayerNorm",
    "LipschitzNorm",
    "MeanNorm",
    "NeighborNorm",
    "NoNorm",
    "NodeNorm",
    "PairNorm",
    "PairNormSI",
    "SpectralNorm",
    "WeightNormalisation",
]
