"""Norms, one a file.

A new one subclasses FeatureNorm or ScoreNorm, says ``@register("norm", name)``, and is imported here.
"""

from gnn_depth.nn.norms.batch import BatchNorm
from gnn_depth.nn.norms.layer import LayerNorm
from gnn_depth.nn.norms.lipschitz import LipschitzNorm
from gnn_depth.nn.norms.none import NoNorm
from gnn_depth.nn.norms.pair import PairNorm

__all__ = ["BatchNorm", "LayerNorm", "LipschitzNorm", "NoNorm", "PairNorm"]
