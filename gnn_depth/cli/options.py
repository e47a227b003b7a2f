"""The argument parser of commands that do not train, and conditions such as ``AXIS=VALUE``."""

import argparse
import re
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, NoReturn

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import plain_warnings
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
    """The values of each axis in conditions such as ``AXIS=VALUE,VALUE``, or ``AXIS=VALUE`` of a
    ``known`` value with commas; values for the same axis are collected."""
    chosen: dict[str, list[str]] = {}
    for condition in conditions:
        word, _, values = condition.partition("=")
        if not values:
            raise UsageError(f"{flag} takes AXIS=VALUE or AXIS=VALUE,VALUE, not {condition!r}.")
        axis = axis_called(word)
        labels = [values]
        if values not in known(axis):
            labels = values.split(",")
        chosen.setdefault(axis, []).extend(labels)
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
