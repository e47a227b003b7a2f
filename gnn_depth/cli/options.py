"""The argument parser of commands that do not train, conditions such as ``AXIS=VALUE``, and types
of numbers."""

import argparse
import re
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.ranges import Range
from gnn_depth.registry import hint, unknown

if TYPE_CHECKING:
    import pandas as pd


class Options(argparse.ArgumentParser):
    """argparse whose errors suggest the nearest option or choice; options cannot be abbreviated."""

    def __init__(self, command: str, description: str, usage: str, add_help: bool = True) -> None:
        super().__init__(
            prog=f"gnn-depth {command}",
            usage=f"gnn-depth {command} {usage}",
            description=description,
            add_help=add_help,
            allow_abbrev=False,
        )

    def add_choice_of_values(self, flag: str, text: str) -> None:
        """Add an option such as ``--where``, which :func:`chosen_values` reads."""
        self.add_argument(
            flag, nargs="+", action="extend", default=[], metavar="AXIS=VALUE,...", help=text
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"{self._explain(message)}\nusage: {self.usage}; --help explains the options."
        )

    def _explain(self, message: str) -> str:
        # argparse gives its message alone: the words are read out of it.
        unknown_word = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown_word:
            word = unknown_word[1].partition("=")[0]
            if word.startswith("-"):
                return f"unknown option {word!r}.{hint(word, self._option_string_actions)}"
            return f"unexpected argument {word!r}."
        pattern = r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)"
        wrong = re.match(pattern, message)
        if wrong:
            choices = [choice.strip("' ") for choice in wrong[3].split(",")]
            return unknown(wrong[1], wrong[2], choices)
        return f"{message}."


def chosen_values(
    flag: str,
    conditions: Sequence[str],
    axis_called: Callable[[str], str],
    known: Callable[[str], Container[str]],
) -> dict[str, list[str]]:
    """The values of each axis in conditions such as ``AXIS=VALUE,VALUE``; values for the same axis
    are collected.

    A value may contain commas: the longest ``known`` value is taken.
    """
    chosen: dict[str, list[str]] = {}
    for condition in conditions:
        word, _, values = condition.partition("=")
        if not word or not values:
            raise UsageError(f"{flag} takes AXIS=VALUE or AXIS=VALUE,VALUE, not {condition!r}.")
        axis, pieces = axis_called(word), values.split(",")
        labels = known(axis)
        while pieces:
            count = len(pieces)
            while count > 1 and ",".join(pieces[:count]) not in labels:
                count -= 1
            chosen.setdefault(axis, []).append(",".join(pieces[:count]))
            pieces = pieces[count:]
    return chosen


def load_runs(folders: Sequence[str], where: Sequence[str]) -> "pd.DataFrame":
    """Read the runs in some folders and keep those that ``--where`` chooses; warnings go to
    standard error."""
    # pandas waits until runs are read: --help needs none of it.
    from gnn_depth.reports.load import ReportWarning, read_runs
    from gnn_depth.reports.settings import choose_runs, known_labels

    with plain_warnings(ReportWarning):
        frame = read_runs(*folders)
    return choose_runs(
        frame, chosen_values("--where", where, str, lambda axis: known_labels(frame, axis))
    )


def _number(kind: type, accepted: Range) -> Callable[[str], Any]:
    """A number in a range, for ``type=``."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
            fits = value in accepted
        except (ValueError, OverflowError):  # no number, or a whole number beyond any float
            fits = False
        if not fits:
            word = "whole" if kind is int else "finite"
            raise argparse.ArgumentTypeError(f"a {word} number {accepted}, not {text!r}")
        return value

    return read


positive_int = _number(int, Range(1))
non_negative_int = _number(int, Range(0))
non_negative_float = _number(float, Range(0))
