"""What a training is watched by: callbacks for any LightningModule, which name its submodules by a pattern."""

from gnn_depth.diagnostics.gradient_norms import GradientNorms
from gnn_depth.diagnostics.lipschitz_constants import LipschitzConstants

__all__ = ["GradientNorms", "LipschitzConstants"]
