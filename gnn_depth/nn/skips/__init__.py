"""Skip connections, one per file.

To add one, subclass Skip, decorate it with ``@register("skip", name)`` and import it here.
"""

from gnn_depth.nn.skips.dense import Dense
from gnn_depth.nn.skips.gated import Gated
from gnn_depth.nn.skips.initial import InitialResidual
from gnn_depth.nn.skips.none import NoSkip
from gnn_depth.nn.skips.residual import Residual
from gnn_depth.nn.skips.scaled import LayerScale, ReZero

__all__ = ["Dense", "Gated", "InitialResidual", "LayerScale", "NoSkip", "ReZero", "Residual"]
