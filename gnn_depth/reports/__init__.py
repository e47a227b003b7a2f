"""Tables and figures of finished runs, read from their folders; nothing is trained here."""

from gnn_depth.reports.load import ReportError, ReportWarning, read_measures, read_runs

__all__ = ["ReportError", "ReportWarning", "read_measures", "read_runs"]
