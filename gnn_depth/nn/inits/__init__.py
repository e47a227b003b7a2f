"""Initialisations.

To add one, subclass Init, or MatrixInit to draw matrix by matrix. Decorate it with
``@register("init", name)`` and import it here.
"""

from gnn_depth.nn.inits.balanced import Balanced, BalancedOrthogonal, BalancedXavier
from gnn_depth.nn.inits.critical import Critical
from gnn_depth.nn.inits.matrices import DefaultInit, IdentityInit, Kaiming, Orthogonal, Xavier
