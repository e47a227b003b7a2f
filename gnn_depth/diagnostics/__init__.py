"""What a training is watched by: callbacks for any LightningModule, which name its submodules by a pattern."""

from gnn_depth.diagnostics.balancedness import Balancedness
from gnn_depth.diagnostics.first_failure import FirstFailure
from gnn_depth.diagnostics.gradient_expansion import GradientExpansion
from gnn_depth.diagnostics.gradient_norms import GradientNorms
from gnn_depth.diagnostics.gradient_similarity import GradientSimilarity
from gnn_depth.diagnostics.lipschitz_constants import LipschitzConstants
from gnn_depth.diagnostics.representation_similarity import RepresentationSimilarity

__all__ = [
    "Balancedness",
    "FirstFailure",
    "GradientExpansion",
    "GradientNorms",
    "GradientSimilarity",
    "LipschitzConstants",
    "RepresentationSimilarity",
]
