"""Run attacks in this process, and print for each what happened and whether it is accepted."""

import argparse
import contextlib
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_depth.cli import main as gnn_depth
from tools.attack import configs
from tools.attack.numbers import graphs, layers, scores
from tools.attack.stops import stops
from tools.attack.table import GROUPS, TRAINED, Attack, fit

HUNG = 60  # seconds after which an attack is ended
DRAWN = ("configs", "resume")  # groups of which one says how many are drawn
NUMBERS = {
    "metrics and scikit-learn": scores.trials,
    "measures and autograd": layers.trials,
    "entrances of data": graphs.trials,
}
SHOWN = 110  # characters of a name
LONGEST = 600  # characters of a difference
FEW = 20  # differences of a part that are shown


class Hung(BaseException):  # not an Exception, which the command would catch and report
    """An attack did not end by itself."""


@dataclass(frozen=True)
class Outcome:
    """What an attack came to: the exit code or what was raised, CPU seconds, and what was printed
    to stderr."""

    code: int | str
    seconds: float
    said: str

    def fault(self, attack: Attack) -> str:
        """Why it is not accepted; empty if it is."""
        if self.code not in attack.codes:
            return f"{self.code} instead of exit code {' or '.join(map(str, attack.codes))}"
        if "Traceback" in self.said or "\x1b[31m" in self.said:
            return "a traceback, or control characters"
        # Exit code 1 is for runs that diverged or were stopped, and the message must say so.
        if self.code == 1 and not any(word in self.said for word in ("diverged", "stopped")):
            return "it failed without saying why"
        if self.seconds > attack.seconds:
            return f"{self.seconds:.1f} s"
        lines = len(self.said.splitlines())
        if self.code and lines > attack.lines:
            return f"{lines} lines"
        return ""


def main(argv: list[str] | None = None) -> int:
    """Run the attacks of a command line; 1 if one falls short."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument(
        "--group",
        choices=[*GROUPS, "numbers", *DRAWN],
        help="by default all but configs and resume",
    )
    parser.add_argument(
        "--examples", type=int, default=40, help="how many configs or stops are drawn"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    if given.group == "resume":
        return _stops(given.examples, given.seed)
    if given.group == "numbers":
        return _numbers(given.seed)
    if given.group == "configs":
        return _attacks(configs.draw(given.examples, given.seed))
    chosen = []
    for name, group in GROUPS.items():
        if given.group in (None, name):
            chosen += group
    short = _attacks(chosen)
    if given.group is None:
        short |= _numbers(given.seed)
    return short


def _attacks(chosen: list[Attack]) -> int:
    counts, short = Counter[Any](), 0
    for attack, outcome in run(chosen):
        fault = outcome.fault(attack)
        counts[outcome.code] += 1
        short += bool(fault)
        print(
            f"{attack.name[:SHOWN]} -> {outcome.code}, {outcome.seconds:.1f} s -> {fault or 'ok'}",
            flush=True,
        )
        if fault:
            for line in outcome.said.splitlines()[-6:]:
                print(f"    {line[:200]}", flush=True)
    by_code = ", ".join(f"{count} x {code}" for code, count in sorted(counts.items(), key=str))
    print(f"{len(chosen)} attacks ({by_code}), {short} fell short", flush=True)
    return 1 if short else 0


def _numbers(seed: int) -> int:
    different = 0
    for name, trials in NUMBERS.items():
        began, count, here = time.process_time(), 0, 0
        with quiet():
            for trial, difference in trials(seed):
                count += 1
                here += bool(difference)
                if difference and here <= FEW:
                    print(f"{trial} -> {difference[:LONGEST]}", flush=True)
        seconds = time.process_time() - began
        print(f"{name}: {count} trials in {seconds:.0f} s, {here} differ", flush=True)
        different += here
    return 1 if different else 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing below an error is logged."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _stops(count: int, seed: int) -> int:
    here, short = Path.cwd(), 0
    with tempfile.TemporaryDirectory() as top:
        try:
            os.chdir(top)
            for name, result, fault in stops(count, seed, call):
                short += bool(fault)
                print(f"{name} -> {result} -> {fault or 'ok'}", flush=True)
        finally:
            os.chdir(here)
    print(f"{count} stops, {short} fell short")
    return 1 if short else 0


def run(attacks: list[Attack]) -> Iterator[tuple[Attack, Outcome]]:
    """Run attacks one after the other, each in a folder of its own that holds a trained run."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as top:
        try:
            os.chdir(top)
            # Trained once: each attack gets a copy, which it may spoil.
            assert call(fit("--run.root=first", "--run.name=a")).code == 0, (
                "the training that is attacked fails"
            )
            (first,) = Path("first/a").iterdir()
            for attack in attacks:
                place = Path(top, "place")
                place.mkdir()
                shutil.copytree(Path(top, first), place / TRAINED)
                os.chdir(place)
                for name, content in attack.files.items():
                    Path(name).parent.mkdir(exist_ok=True)
                    if isinstance(content, str):
                        content = content.encode()
                    Path(name).write_bytes(content)
                outcome = call(attack.argv)
                if attack.leaves and not (place / attack.leaves).exists():
                    outcome = Outcome(f"no {attack.leaves}", outcome.seconds, outcome.said)
                if attack.removes and (place / attack.removes).exists():
                    outcome = Outcome(f"{attack.removes} is left", outcome.seconds, outcome.said)
                yield attack, outcome
                os.chdir(top)  # an attack may have left its folder
                shutil.rmtree(place)
        finally:
            os.chdir(here)


def call(argv: list[str]) -> Outcome:
    """Run a command line in this process."""

    def end(*_: Any) -> None:
        raise Hung

    # Processor time, since other programs may be running.
    said, began = io.StringIO(), time.process_time()
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(HUNG)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code: int | str = gnn_depth(argv)
    except BaseException as error:  # SystemExit too: main returns its exit code
        code = "hung" if isinstance(error, Hung) else type(error).__name__
        said.write("".join(traceback.format_exception(error)[-3:]))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Outcome(code, time.process_time() - began, said.getvalue())


if __name__ == "__main__":
    sys.exit(main())
