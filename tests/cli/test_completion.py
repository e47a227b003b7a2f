"""The TAB key: which words are offered, and that the shells understand the script."""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import argcomplete
import pytest

from gnn_depth.cli import COMMANDS
from gnn_depth.cli.completion import answer
from tests.cli.test_plugins import SOURCE


class _Exit(BaseException):
    """Ends the answer, as the end of the process does."""


def _exit(code: int) -> None:
    raise _Exit


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The words that are offered at the end of a line."""
    monkeypatch.setattr(
        argcomplete.CompletionFinder, "_init_debug_stream", lambda self: None
    )  # pytest has its file

    def ask(line: str) -> list[str]:
        line = f"gnn-depth {line}"
        settings = {
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        out = io.StringIO()
        with pytest.raises(_Exit):
            answer(exit_method=_exit, output_stream=out)
        return sorted(word.strip() for word in out.getvalue().split("\n") if word)

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit --model.norm=pa", ["--model.norm=pair", "--model.norm=pair_si"]),
        ("fit --model.norm lipschitz --model.norm.form ", ["paper", "released"]),
        ("fit --model.norm pair --model.norm.", ["--model.norm.help", "--model.norm.scale"]),
        ("fit --model.scheduler ReduceLR", ["ReduceLROnPlateau"]),
        ("fit --trainer.max_ep", ["--trainer.max_epochs"]),
        ("fit --trainer.enable_progress_bar ", ["false", "true"]),
        ("fit --model.in_chan", []),
        ("list no", ["norm"]),
        ("sweep grid.yaml --engine ", ["dask", "local"]),
        ("reproduce lipschitz/ta", ["lipschitz/table1"]),
        ("fit --config missing.yaml --model.norm pai", ["pair", "pair_si"]),
    ],
)
def test_the_words_that_may_stand_there_are_offered(offered: Callable, line: str, words: list[str]):
    assert offered(line) == words


def test_every_command_is_offered_and_says_what_options_it_has(offered: Callable):
    assert set(COMMANDS) <= set(offered(""))
    for command in COMMANDS:
        flags = offered(f"{command} --")
        assert flags, command
        assert all(flag.startswith("--") for flag in flags)


def test_files_and_the_parts_of_a_plugin_are_offered(
    offered: Callable, tmp_path: Path, own_registry: None, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "plug_shrink.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert offered("fit --plugins plug") == ["plug_shrink.py"]
    assert offered("fit --plugins plug_shrink.py --model.norm shr") == ["shrink"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_real_shell_completes(gnn_depth: Callable, refused: Callable, tmp_path: Path):
    assert "Did you mean 'zsh'?" in refused("completion", "zhs")
    program = tmp_path / "gnn-depth"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gnn_depth "$@"\n')
    program.chmod(0o755)
    line = "gnn-depth pl"
    ask = f'COMP_LINE="{line}"; COMP_POINT={len(line)}; _python_argcomplete gnn-depth; echo "${{COMPREPLY[@]}}"'
    script = gnn_depth("completion", "bash").out + ask
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["plot"], done.stderr
