"""Norms of node features (batch, contra, layer, neighbor, pair), attention scores (lipschitz) and
weights (spectral, weights).

To add one, subclass FeatureNorm, ScoreNorm or WeightNorm, decorate it with ``@register("norm",
name)`` and import it here.
"""

from gnn_depth.nn.norms.batch import BatchNorm, DiffGroupNorm
from gnn_depth.nn.norms.contra import ContraNorm
from gnn_depth.nn.norms.layer import LayerNorm, NodeNorm, NoNorm
from gnn_depth.nn.norms.lipschitz import LipschitzNorm
from gnn_depth.nn.norms.neighbor import NeighborNorm
from gnn_depth.nn.norms.pair import GraphNorm, MeanNorm, PairNorm, PairNormSI
from gnn_depth.nn.norms.spectral import SpectralNorm
from gnn_depth.nn.norms.weights import FrobeniusNorm, WeightNormalisation
