"""What the reader of a report can put right."""


class ReportError(ValueError):
    """A report of something that is not there, or that does not fit together."""


class ReportWarning(UserWarning):
    """Something in a folder of runs that is not counted, or that makes numbers hard to compare."""
