"""Pages of documentation, taken apart into blocks of code, and a folder in which the blocks of a
page are run."""

import ast
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest.mock import patch

import yaml

from gnn_depth.cli import REPORTS, RUNS, main
from gnn_depth.cli.options import call
from gnn_depth.sweeps.grid import read_grid

ROOT = Path(__file__).parent.parent
FENCE = re.compile(
    # A block of a list is indented.
    r"^(?P<indent> *)```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
NOTE = re.compile(r"<!-- (not run: .+|needs the data sets|exit code \d+) -->\n\s*\Z")
TITLE = re.compile(r'title="([^"]+)"|\A# ([\w.]+\.\w+)$', re.MULTILINE)
# What makes any fit a matter of a second.
SMALL = """
data:
  class_path: SyntheticCitation
  init_args: {num_nodes: 60, num_edges: 120, num_features: 16, num_train_per_class: 3, num_val: 10, num_test: 10}
trainer: {max_epochs: 2}
"""
NUMBER = re.compile(r"[-+]?\d[\d.,e+:_-]*")
LAUNCHERS = ("torchrun", "srun")
# Run as they are.
SHELL = {
    "ls": ["ls"],
    "cat": ["cat"],
    "python": [sys.executable],  # this one, which a reader has on the path
    "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
}
# Of the user's own machine: not run.
UNRUN = [
    "source",
    "export",
    "module",
    "dask",
    "kill",
    "scancel",
    "squeue",
    "make",
    "git",
    "tensorboard",
    "sbatch",
    "pip",
]


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, the file that it is to be kept in, and what is
    said of its run."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str
    note: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def lacks_data(self) -> bool:
        return self.note == "needs the data sets" and "GNN_DEPTH_DATA" not in os.environ

    @property
    def is_run(self) -> bool:
        return not self.note.startswith("not run") and not self.lacks_data

    @property
    def exit_code(self) -> int:
        return int(self.note.removeprefix("exit code ")) if self.note.startswith("exit code") else 0


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        note = NOTE.search(text[: match.start()])
        body = dedent(match["text"])
        title = TITLE.search(match["rest"]) or TITLE.search(body.partition("\n")[0])
        name = (title[1] or title[2]) if title else None
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"], name, body, note[1] if note else ""))
    return found


def commands(text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The words of each command of a shell block, without prompts and comments, and the variables
    set before it."""
    for line in text.replace("\\\n", " ").splitlines():
        words, variables = shlex.split(line.removeprefix("$ "), comments=True), {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, value = words.pop(0).split("=", 1)
            variables[name] = value
        if words:
            yield words, variables


@dataclass
class Folder:
    """The working directory of one page: its blocks share files and names, as a reader's do."""

    path: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    options: Sequence[str] = ()

    def take(self, block: Block, run: bool = True, options: Sequence[str] = ()) -> None:
        """Run a block, or only check that all it names is there.

        Args:
            block: The block.
            run: Whether it is run.
            options: What every fit and sweep of it gets beside its own options.

        Raises:
            AssertionError: It does not do what the page says.
        """
        self.options = options
        if block.title:
            (self.path / block.title).write_text(block.text, encoding="utf-8")
        try:
            getattr(self, f"_{block.language}")(block, run and block.is_run)
        except Exception as error:
            raise AssertionError(f"{block.where}: {error}") from error

    def _bash(self, block: Block, run: bool) -> None:
        for words, variables in commands(block.text):
            with patch.dict(os.environ, variables):
                self._command(words, block, run)

    def _command(self, words: list[str], block: Block, run: bool) -> None:
        expanded = [found for word in words for found in self._files(word)]
        if words[0] == "gnn-depth":
            self._gnn_depth(expanded[1:], run and not block.title, block.exit_code)
        elif words[0] in LAUNCHERS:
            assert "gnn-depth" in words, f"{words[0]} starts something else than gnn-depth"
            check(words[words.index("gnn-depth") + 1 :])
        elif words[0] in SHELL and run:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            line = [*SHELL[words[0]], *expanded[1:]]
            done = subprocess.run(
                line, capture_output=True, text=True, check=False, env=environment
            )
            assert done.returncode == block.exit_code, done.stdout + done.stderr
            self.printed = done.stdout
        else:
            assert words[0] in (*SHELL, *UNRUN), f"{words[0]}: see UNRUN in tests/pages.py"

    _console = _bash

    def _files(self, word: str) -> list[str]:
        """The files that a pattern stands for, as a shell would say them; any other word is
        itself."""
        found = (
            sorted(str(path.relative_to(self.path)) for path in self.path.glob(word))
            if "*" in word
            else []
        )
        return found or [word]

    def _gnn_depth(self, words: list[str], run: bool, expected: int) -> None:
        if not run:
            check(words)
            return
        if words[0] in ("fit", "sweep") and "--dry-run" not in words:
            words = [*words, *self.options]
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out), _logged(out):
            code = main(words)
        self.printed = out.getvalue()
        assert code == expected, f"gnn-depth {shlex.join(words)}: exit code {code}\n{self.printed}"

    def _python(self, block: Block, run: bool) -> None:
        if block.title:
            return  # a file that later blocks import or run
        tree = ast.parse("\n" * block.line + block.text)  # a traceback has the line of the page
        if not run:
            kept = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
            tree.body = kept
        out = io.StringIO()
        with redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what others' packages import
            exec(compile(tree, str(block.page), "exec"), self.names)
        self.printed = out.getvalue()

    def _yaml(self, block: Block, run: bool) -> None:
        data = yaml.safe_load(block.text)
        if "axes" in data:
            read_grid(data, block.where)
        else:
            file = self.path / (block.title or "shown.yaml")
            file.write_text(block.text, encoding="utf-8")
            check(["fit", "--config", str(file)])

    def _text(self, block: Block, run: bool) -> None:
        """Each line that a page shows is one that was printed before, numbers aside; `...` stands
        for any."""
        if not run:
            return
        printed = [_outline(line) for line in self.printed.splitlines()]
        for line in block.text.splitlines():
            shown = _outline(line)
            assert shown in ("", "...") or shown in printed, (
                f"this was not printed: {line}\n{self.printed}"
            )

    def _toml(self, block: Block, run: bool) -> None:
        """Packaging of the reader's own: tests/plugin_package shows that it works."""


def check(words: list[str]) -> None:
    """Whether every option and name of a command line exists, without running it."""
    command, rest = words[0], words[1:]
    if command in RUNS and not any("help" in word for word in rest):
        for option in ("--ckpt_path", "--output"):  # files of the reader's own
            if option in rest and not Path(rest[rest.index(option) + 1]).exists():
                at = rest.index(option)
                rest = rest[:at] + rest[at + 2 :]
        rest = ["cpu" if word == "gpu" else word for word in rest if word != "--print_config"]
        rest.append("--print_config")
    elif command in REPORTS and "--help" not in rest:
        check_report(command, rest)
        return
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([command, *rest])
    assert code == 0, f"gnn-depth {shlex.join(words)}: {out.getvalue()}"


def check_report(command: str, words: list[str]) -> None:
    """Whether the options of a command that trains nothing itself exist."""
    module = import_module(f"gnn_depth.cli.{command}")
    assert call(command, wraps(module.main)(lambda **_: 0), words) == 0


@contextmanager
def _logged(out: io.StringIO) -> Iterator[None]:
    """Write what Lightning logs, as it does where no test has told it to be silent."""
    logger, said = logging.getLogger("lightning.pytorch"), logging.StreamHandler(out)
    level = logger.level
    logger.addHandler(said)  # its own handler has another stream
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(said)


def _outline(line: str) -> str:
    return " ".join(NUMBER.sub("#", line).split())
