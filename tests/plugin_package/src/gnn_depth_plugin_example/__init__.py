"""Parts for gnn_depth: importing them registers them."""

from gnn_depth_plugin_example.band import BandNorm
from gnn_depth_plugin_example.depth_scaled import DepthScaled
from gnn_depth_plugin_example.lazy import LazyGCN
from gnn_depth_plugin_example.skips import Oscillator

__all__ = ["BandNorm", "DepthScaled", "LazyGCN", "Oscillator"]
