"""Runs as tables and figures: results are read from their folders, and nothing is trained here."""

from gnn_depth.reports.curves import curves
from gnn_depth.reports.errors import ReportError, ReportWarning
from gnn_depth.reports.load import load
from gnn_depth.reports.measures import measures

__all__ = ["ReportError", "ReportWarning", "curves", "load", "measures"]
