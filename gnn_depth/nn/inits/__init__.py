"""Initialisations, one per file.

To add one, subclass Init, or MatrixInit to draw matrix by matrix. Decorate it with ``@register("init", name)`` and
import it here.
"""

from gnn_depth.nn.inits.balanced import Balanced, BalancedOrthogonal, BalancedXavier
from gnn_depth.nn.inits.default import DefaultInit
from gnn_depth.nn.inits.identity import IdentityInit, LooksLinearIdentity
from gnn_depth.nn.inits.kaiming import Kaiming
from gnn_depth.nn.inits.looks_linear_orthogonal import LooksLinearOrthogonal
from gnn_depth.nn.inits.looks_linear_xavier import LooksLinearXavier
from gnn_depth.nn.inits.orthogonal import Orthogonal
from gnn_depth.nn.inits.xavier import Xavier
from gnn_depth.nn.inits.xavier_zero_attention import XavierZeroAttention

__all__ = [
    "Balanced",
    "BalancedOrthogonal",
    "BalancedXavier",
    "DefaultInit",
    "IdentityInit",
    "Kaiming",
    "LooksLinearIdentity",
    "LooksLinearOrthogonal",
    "LooksLinearXavier",
    "Orthogonal",
    "Xavier",
    "XavierZeroAttention",
]
