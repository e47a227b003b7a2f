"""The TAB key: which words are offered, and that the shells understand the scripts."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_depth.cli import COMMANDS
from gnn_depth.cli.completions import answers
from tests.cli.test_plugins import SOURCE


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pl", ["plot"]),
        ("fit --model.norm pa", ["pair", "pair_si"]),
        ("fit --model.norm = pa", ["pair", "pair_si"]),
        ("fit --model.norm=pa", ["--model.norm=pair", "--model.norm=pair_si"]),
        ("fit --model.norm lipschitz --model.norm.form ", ["paper", "released"]),
        ("fit --model.norm pair --model.norm.", ["--model.norm.help", "--model.norm.scale"]),
        ("fit --data Plan", ["Planetoid"]),
        ("fit --model.decoder ", ["linear", "none"]),
        ("fit --model.optimizer SG", ["SGD"]),
        ("fit --model.scheduler ReduceLR", ["ReduceLROnPlateau"]),
        ("fit --trainer.max_ep", ["--trainer.max_epochs"]),
        ("fit --trainer.enable_progress_bar ", ["false", "true"]),
        ("predict --outp", ["--output"]),
        ("fit --outp", []),
        ("fit --config ", []),
        ("fit --model.in_chan", []),
        ("list no", ["norm"]),
        ("plot --spread ", ["ci", "none", "std"]),
        ("plot hea", ["heatmap"]),
        ("table ", []),
        ("sweep grid.yaml --engine ", ["dask", "local"]),
        ("sweep grid.yaml --force ", []),
        ("reproduce lipschitz/ta", ["lipschitz/table1"]),
        ("new n", ["norm"]),
        ("completion z", ["zsh"]),
        ("fit --trusted-only ", ["false", "true"]),
    ],
)
def test_the_words_that_may_stand_there_are_offered(line: str, offered: list[str]):
    assert answers(line.split(" ")) == offered


def test_every_command_is_offered_and_says_what_options_it_has():
    assert set(COMMANDS) < set(answers([""]))
    for command in COMMANDS:
        flags = answers([command, "--"])
        assert flags, command
        assert all(flag.startswith("--") for flag in flags)


def test_the_options_of_a_run_are_those_that_its_parser_has(gnn_depth: Callable):
    told = gnn_depth("fit", "--help").out
    missing = [flag for flag in answers(["fit", "--"]) if flag not in told and flag != "--trusted-only"]
    assert missing == []


def test_parts_of_a_plugin_are_offered(tmp_path: Path):
    path = tmp_path / "plug_shrink.py"
    path.write_text(SOURCE)
    assert answers(["fit", "--plugins", str(path), "--model.norm", "shr"]) == ["shrink"]


@pytest.mark.parametrize("line", ["fit --plugins missing.py --model.norm pai", "nothing --x ", "fit --", "fit = ="])
def test_nothing_is_said_of_what_is_wrong(gnn_depth: Callable, line: str):
    answer = gnn_depth("completion", "answer", *line.split(" "))
    assert (answer.code, answer.err) == (0, "")


def test_an_unknown_shell_is_refused(refused: Callable):
    assert "Did you mean 'zsh'?" in refused("completion", "zhs")


WORDS = {
    "bash": 't() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gnn_depth; echo "${COMPREPLY[@]}"; }\n',
    "zsh": 'compdef() { : }; compadd() { shift; echo "$@" }; _files() { echo files }\n'
    't() { words=("$@"); CURRENT=$#; _gnn_depth }\n',
}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_real_shell_completes(gnn_depth: Callable, tmp_path: Path, shell: str):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    program = tmp_path / "gnn-depth"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gnn_depth "$@"\n')
    program.chmod(0o755)
    lines = [f'"{program}" fit --model.norm pa', f'"{program}" fit --config ""']
    script = WORDS[shell] + gnn_depth("completion", shell).out + "".join(f"t {line}\n" for line in lines)
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["pair pair_si", "files" if shell == "zsh" else ""]
