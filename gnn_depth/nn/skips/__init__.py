"""Skip connections, one per file.

A new one subclasses Skip, says ``@register("skip", name)``, and is imported here.
"""

from gnn_depth.nn.skips.dense import Dense
from gnn_depth.nn.skips.gated import Gated
from gnn_depth.nn.skips.initial import InitialResidual
from gnn_depth.nn.skips.none import NoSkip
from gnn_depth.nn.skips.residual import Residual
from gnn_depth.nn.skips.scaled import LayerScale, ReZero

__all__ = ["Dense", "Gated", "InitialResidual", "LayerScale", "NoSkip", "ReZero", "Residual"]
