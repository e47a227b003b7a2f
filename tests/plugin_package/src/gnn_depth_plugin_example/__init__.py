"""Parts for gnn_depth: importing them registers them."""

from gnn_depth_plugin_example.band import BandNorm
from gnn_depth_plugin_example.lazy import LazyGCN

__all__ = ["BandNorm", "LazyGCN"]
