"""Published remedies for depth, as parts for gnn_depth: importing them registers them."""

from gnn_depth_remedies.rebalance import Rebalance, rebalance
from gnn_depth_remedies.reverse_process import ReverseProcess
from gnn_depth_remedies.rewiring import BORF, SDRF, FoSR, Rewiring
from gnn_depth_remedies.spog import SPoG
from gnn_depth_remedies.virgo import VirGo

__all__ = [
    "BORF",
    "SDRF",
    "FoSR",
    "Rebalance",
    "ReverseProcess",
    "Rewiring",
    "SPoG",
    "VirGo",
    "rebalance",
]
