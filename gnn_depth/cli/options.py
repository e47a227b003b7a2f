"""The argument parser of commands that do not train, with readable errors."""

import argparse
import re
from collections.abc import Container
from typing import Any, NoReturn

from gnn_depth.cli.errors import UsageError
from gnn_depth.registry import nearest


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help that shows a default only where it is informative."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says = action.default not in (None, False, [])
        return super()._get_help_string(action) if says else action.help


class Options(argparse.ArgumentParser):
    """argparse with near misses in its errors and without abbreviated options.

    Args:
        command: The word after ``gnn-depth``.
        description: What it does, in a sentence.
        usage: Its words, as the help shows them.
        example: A whole command line, shown where arguments are missing.
    """

    def __init__(self, command: str, description: str, usage: str, example: str = "") -> None:
        self.example = example
        super().__init__(
            prog=f"gnn-depth {command}",
            usage=f"gnn-depth {command} {usage}",
            description=description,
            allow_abbrev=False,
            formatter_class=_Help,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self._explain(message)}\n{self.prog} --help explains the options.")

    def _explain(self, message: str) -> str:
        if match := re.match(r"unrecognized arguments: (\S+)", message):
            word = match[1].partition("=")[0]
            near = nearest(word, self._option_string_actions) if word.startswith("-") else None
            hint = f" Did you mean {near!r}?" if near else ""
            return f"unknown {'option' if word.startswith('-') else 'word'} {word!r}.{hint}"
        if match := re.match(r"the following arguments are required: (.*)", message):
            *most, last = [self._with_value(name) for name in match[1].split(", ")]
            example = f", for example: {self.example}" if self.example else "."
            return f"missing: {' and '.join(filter(None, [', '.join(most), last]))}{example}"
        if match := re.match(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            choices = [choice.strip("' ") for choice in match[3].split(",")]
            near = nearest(match[2], choices)
            hint = f" Did you mean {near!r}?" if near else ""
            return f"unknown {match[1]} {match[2]!r}.{hint} Available: {', '.join(choices)}."
        if match := re.match(r"argument (--\S+): expected (\d+) arguments", message):
            names = self._option_string_actions[match[1]].metavar or ()
            return f"{match[1]} needs {match[2]} values{': ' * bool(names)}{' '.join(names)}."
        return f"{message}."

    def _with_value(self, name: str) -> str:
        """``--output FILE`` for ``--output``."""
        option = self._option_string_actions.get(name)
        return f"{name} {option.metavar}" if option and isinstance(option.metavar, str) else name.upper()


def split_values(text: str, known: Container[str]) -> list[str]:
    """Split text at commas; a known value may itself contain commas, and the longest known value wins."""
    values, words = [], text.split(",")
    while words:
        lengths = (count for count in range(len(words), 0, -1) if ",".join(words[:count]) in known)
        count = next(lengths, 1)
        values.append(",".join(words[:count]))
        words = words[count:]
    return values


def positive(text: str) -> int:
    """A whole number above zero, for ``type=``."""
    return _number(text, int, 1)


def natural(text: str) -> int:
    """A whole number, zero or more, for ``type=``."""
    return _number(text, int, 0)


def positive_number(text: str) -> float:
    """A number above zero, for ``type=``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"a number above 0, not {text!r}")
    return value


def _number(text: str, kind: type, low: int) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or value < low:
        raise argparse.ArgumentTypeError(f"a whole number from {low} on, not {text!r}")
    return value
