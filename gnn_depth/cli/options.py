"""The command lines of commands without a model, and conditions such as ``AXIS=VALUE``."""

import argparse
import inspect
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, get_type_hints

from gnn_depth.builder import convert
from gnn_depth.cli import trust
from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.part_specs import meanings, option_of
from gnn_depth.registry import hint

if TYPE_CHECKING:
    import pandas as pd


# Options of fit that hold for all runs of a sweep.
OVERRIDE = re.compile(r"--(data|model|trainer|plugins|trusted-only|init_from)([.=]|$)")


class Parser(argparse.ArgumentParser):
    """argparse whose errors suggest the nearest option."""

    def error(self, message: str) -> NoReturn:
        # argparse gives its message alone: the word is read out of it.
        wrong = re.match(r"unrecognized arguments: ([^\s=]+)", message)
        if wrong:
            message = f"unknown argument {wrong[1]!r}.{hint(wrong[1], self._option_string_actions)}"
        raise UsageError(f"{message}\n{self.prog} --help explains the options.")


def call(command: str, function: Callable[..., int], words: Sequence[str]) -> int:
    """Call the function of a command with the words of its command line.

    Its keyword-only parameters are options, the others are given by position; its docstring is the
    help. Those of ``arguments``, if it has such a parameter, are the options of ``fit``.
    """
    parameters = dict(inspect.signature(function).parameters)
    given: dict[str, Any] = {}
    if parameters.pop("arguments", None):
        overrides, own = split_overrides(words)
        given["arguments"] = replace(read_arguments(overrides), words=words)
        words = own
    doc = inspect.cleandoc(function.__doc__ or "")
    about, hints = meanings(doc), get_type_hints(function, include_extras=True)
    parser = Parser(
        prog=f"gnn-depth {command}",
        description=doc.partition("\n\nArgs:")[0],
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    options = {}
    for name, parameter in parameters.items():
        option = option_of(parameter, hints[name], about[name])
        options[name] = option
        look: dict[str, Any] = {"help": option.about.replace("%", "%%")}
        if option.type == "bool":
            look["action"] = "store_true"
        elif option.type.startswith("list"):
            look |= {"action": "extend", "nargs": "+" if option.is_required else "*"}
        if parameter.kind is parameter.KEYWORD_ONLY:
            flag = f"--{name.strip('_').replace('_', '-')}"
            parser.add_argument(flag, dest=name, required=option.is_required, **look)
        else:
            if not option.is_required:
                look.setdefault("nargs", "?")
            parser.add_argument(name, metavar=name.upper(), **look)
    found = vars(parser.parse_args(words))
    return function(**given, **{name: convert(options[name], found[name]) for name in found})


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of ``fit`` among words, with their values, and the other words."""
    overrides, rest = [], []
    for before, word in pairwise(["", *words]):
        is_value = OVERRIDE.match(before) and "=" not in before and not word.startswith("--")
        if before == trust.FLAG:
            is_value = word in ("true", "false")
        if is_value or OVERRIDE.match(word):
            overrides.append(word)
        else:
            rest.append(word)
    return overrides, rest


def chosen_values(
    flag: str,
    conditions: Sequence[str],
    known: Callable[[str], Container[str]],
) -> dict[str, list[str]]:
    """The values of each axis in conditions such as ``AXIS=VALUE,VALUE``, or ``AXIS=VALUE`` of a
    ``known`` value with commas; values for the same axis are collected."""
    chosen: dict[str, list[str]] = {}
    for condition in conditions:
        word, _, values = condition.partition("=")
        if not values:
            raise UsageError(f"{flag} takes AXIS=VALUE or AXIS=VALUE,VALUE, not {condition!r}.")
        labels = [values]
        if values not in known(word):
            labels = values.split(",")
        chosen.setdefault(word, []).extend(labels)
    return chosen


def load_runs(folders: Sequence[str], where: Sequence[str] | None) -> "pd.DataFrame":
    """Read the runs in some folders and keep those that ``--where`` chooses; warnings go to
    standard error."""
    # pandas waits until runs are read: --help needs none of it.
    from gnn_depth.reports.load import ReportWarning, read_runs
    from gnn_depth.reports.settings import choose_runs, known_labels

    with plain_warnings(ReportWarning):
        frame = read_runs(*folders)
    return choose_runs(
        frame, chosen_values("--where", where or (), lambda axis: known_labels(frame, axis))
    )
