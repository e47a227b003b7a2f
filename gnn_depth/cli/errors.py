"""What ends a command without a traceback, as opposed to a bug."""


class UsageError(Exception):
    """What a user asked for does not exist or does not fit. Shown as its message alone; the exit code is 2."""


class RunError(Exception):
    """A run that cannot go on, for a reason that is known. Shown as its message alone; the exit code is 1."""


def innermost(error: BaseException) -> BaseException:
    """What a constructor said, below what the parser says around it."""
    while error.__cause__ is not None and "Subtypes: [" in str(error):
        error = error.__cause__
    return error
