"""Skip connections, one a file."""

from gnn_depth.nn.skips.none import NoSkip
from gnn_depth.nn.skips.residual import Residual

__all__ = ["NoSkip", "Residual"]
