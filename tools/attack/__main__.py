"""Run attacks in this process, and print for each what happened and whether it is accepted."""

import argparse
import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gnn_depth.cli import main as gnn_depth
from tools.attack.table import GROUPS, TRAINED, Attack, fit

HUNG = 60  # seconds after which an attack is ended
SECONDS = 5  # of the processor that an attack may take


@dataclass(frozen=True)
class Outcome:
    """The result of an attack: the exit code or the exception, CPU seconds, and what it printed."""

    code: int | str
    seconds: float
    said: str

    def fault(self, attack: Attack) -> str:
        """Why it is not accepted; empty if it is."""
        if self.code not in attack.codes:
            return f"{self.code} instead of exit code {' or '.join(map(str, attack.codes))}"
        if "Traceback" in self.said or "\x1b[31m" in self.said:
            return "a traceback, or control characters"
        if self.seconds > SECONDS:
            return f"{self.seconds:.1f} s"
        if attack.says not in self.said or "IMPORTED" in self.said:
            return f"{attack.says!r} is not said, or code of a checkpoint is imported"
        return ""


def main(argv: list[str] | None = None) -> int:
    """Run the attacks of a command line; 1 if one falls short."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("--group", choices=GROUPS, help="default: all")
    given = parser.parse_args(argv)
    short = 0
    for name, group in GROUPS.items():
        if given.group in (None, name):
            for attack, outcome, fault in run(group):
                short += bool(fault)
                line = f"{attack.name[:110]} -> {outcome.code}, {outcome.seconds:.1f} s"
                print(f"{line} -> {fault or 'ok'}", flush=True)
                if fault:
                    print(*outcome.said.splitlines()[-6:], sep="\n    ", flush=True)
    print(f"{short} fell short", flush=True)
    return min(short, 1)


def run(attacks: list[Attack]) -> Iterator[tuple[Attack, Outcome, str]]:
    """Run attacks one after the other, each in a folder of its own that holds a trained run.

    Yields the attack, what happened, and why that is not accepted.
    """
    here = Path.cwd()
    sys.path.insert(0, "")  # a file that an attack wrote can be imported
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
                shutil.copytree(Path(top, first), place / TRAINED)
                os.chdir(place)
                for name, content in attack.files.items():
                    Path(name).parent.mkdir(exist_ok=True)
                    if callable(content):
                        content = content()
                    Path(name).write_bytes(content.encode("latin-1"))
                outcome = call(attack.argv)
                os.chdir(place)  # which the attack may have left
                fault = outcome.fault(attack)
                yield attack, outcome, fault
                os.chdir(top)
                shutil.rmtree(place)
        finally:
            os.chdir(here)


def call(argv: list[str]) -> Outcome:
    """Run a command line in this process; one that hangs is interrupted as by Ctrl-C."""
    # Processor time, since other programs may be running.
    said, began = io.StringIO(), time.process_time()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(HUNG)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code: int | str = gnn_depth(argv)
    except BaseException as error:  # SystemExit too: main returns its exit code
        code = type(error).__name__
        said.write("".join(traceback.format_exception(error)[-3:]))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Outcome(code, time.process_time() - began, said.getvalue())


if __name__ == "__main__":
    sys.exit(main())
