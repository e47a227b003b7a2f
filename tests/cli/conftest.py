"""What the tests of the command line share: a way to call it, small data, and a plugin."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from shlex import split
from typing import Any

import pytest
import yaml

import gnn_depth.training
from gnn_depth import registry
from gnn_depth.cli import main, sweep
from gnn_depth.sweeps.pool import Pool

SMALL = split("""
    --data.num_nodes 60 --data.num_edges 120 --data.num_features 16 --data.num_classes 3
    --data.num_train_per_class 5 --data.num_val 10 --data.num_test 10
""")
QUIET = split("--trainer.enable_progress_bar false --trainer.enable_model_summary false")
TRAINER = split("--trainer.accelerator cpu --trainer.max_epochs 10 --model.hidden_channels 8")
SHORT = [*SMALL, *QUIET, *TRAINER]
DEEP = split("--model.layer gat --model.layer.heads 2 --model.norm [lipschitz,pair]")

#: A few hundred characters of YAML that stand for ten million entries.
_TENFOLD = "".join(f", &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 8))
BOMB = f"[&a0 [x]{_TENFOLD}]"
EMPTY_BOMB = f"[&a0 []{_TENFOLD}]"


@dataclass(frozen=True)
class Answer:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def config(self) -> Any:
        return yaml.safe_load(self.out)


@pytest.fixture
def gnn_depth(capsys, tmp_path, monkeypatch):
    """``gnn_depth("fit", ...)`` in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = main(list(words))
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def done(gnn_depth):
    """``done("fit", ...)``: the answer to a command line that succeeds."""

    def call(*words: str) -> Answer:
        answer = gnn_depth(*words)
        assert answer.code == 0, answer.err
        return answer

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a fit of two epochs, for reading only."""
    root = tmp_path_factory.mktemp("trained")
    words = [*SHORT, *DEEP, "--trainer.max_epochs", "2", "--data.seed", "3", "--run.name", "first"]
    assert main(["fit", *words, "--run.root", str(root)]) == 0
    (folder,) = root.glob("first/*")
    return folder


class PoolHere(Pool):
    """A pool whose calls are done in this process, one by one: importing torch in another takes
    seconds."""

    workers = 1

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self, grace: float) -> None:
        pass


@pytest.fixture
def pool_here(monkeypatch):
    """Sweeps run in this process."""
    monkeypatch.setattr(sweep, "LocalPool", PoolHere)


@pytest.fixture
def config(done):
    """``config(...)``: the resolved config of a fit, as a dict."""
    return lambda *words: done("fit", *words, "--print_config").config


@pytest.fixture
def refused(gnn_depth):
    """``refused("fit", ...)``: the message that answers a wrong command line; its form is checked
    here."""

    def ask(*words: str) -> str:
        before = set(Path("runs").glob("*/[!.]*"))
        answer = gnn_depth(*words)
        assert answer.code == 2
        assert f"\n{answer.err}".count("\nerror: ") == 1
        assert "Traceback" not in answer.err
        assert len(answer.err.splitlines()) <= 24  # at most a screen
        assert set(Path("runs").glob("*/[!.]*")) == before  # a refused run leaves no folder
        return answer.err.partition("error: ")[2].rstrip("\n")

    return ask


@pytest.fixture
def own_registry(monkeypatch, tmp_path):
    """A registry whose changes are forgotten afterwards, with the modules that were imported from
    the test's folder."""
    monkeypatch.setattr(
        registry, "_TABLE", {kind: dict(names) for kind, names in registry._TABLE.items()}
    )
    monkeypatch.setattr(registry, "_BROKEN", dict(registry._BROKEN))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
