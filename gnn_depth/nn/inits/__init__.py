"""Initialisations, one a file."""

from gnn_depth.nn.inits.default import DefaultInit
from gnn_depth.nn.inits.xavier import Xavier

__all__ = ["DefaultInit", "Xavier"]
