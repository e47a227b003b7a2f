"""Tables and figures of finished runs, read from their folders; nothing is trained here."""

from gnn_depth.reports.load import ReportError, ReportWarning, curves, load, measures

__all__ = ["ReportError", "ReportWarning", "curves", "load", "measures"]
