"""Norms of node features (batch, layer, neighbor, pair), attention scores (lipschitz) and weights
(weights).

To add one, subclass FeatureNorm, ScoreNorm or WeightNorm, decorate it with ``@register("norm",
name)`` and import it here.
"""

from gnn_depth.nn.norms.batch import BatchNorm, DiffGroupNorm
from gnn_depth.nn.norms.layer import LayerNorm, NodeNorm, NoNorm
from gnn_depth.nn.norms.lipschitz import LipschitzNorm
from gnn_depth.nn.norms.neighbor import NeighborNorm
from gnn_depth.nn.norms.pair import ContraNorm, GraphNorm, MeanNorm, PairNorm, PairNormSI
from gnn_depth.nn.norms.weights import FrobeniusNorm, SpectralNorm, WeightNormalisation
