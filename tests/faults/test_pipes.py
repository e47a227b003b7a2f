"""A named pipe where a file belongs is answered at once: opening it would wait for a writer."""

import os
import signal
from pathlib import Path

import pytest

from gnn_depth.cli.checkpoints import changes
from gnn_depth.data import PyG, UserGraph
from gnn_depth.data.downloads import read_verified
from gnn_depth.data.partitioned import PartitionedGraph
from gnn_depth.measurements import load_values
from gnn_depth.registry import RegistryError, load_plugin
from gnn_depth.reports.published import read_published
from gnn_depth.runs import LOCK, is_alive
from gnn_depth.sweeps.summary import read_metrics


@pytest.fixture(autouse=True)
def _not_for_long():
    def end(*_):
        raise TimeoutError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


REFUSED = {
    "published.yaml": lambda path: read_published(path),
    "split.json": lambda path: PyG("KarateClub", split=str(path)),
    "measures/mu.npz": lambda path: load_values(path.parent.parent, "mu"),
    "about.json": lambda path: PartitionedGraph(str(path.parent)).class_names,
    "cora.npz": lambda path: read_verified(path, "https://example.org/cora.npz"),
    "edges.csv": lambda path: UserGraph(str(path), str(path), label="y"),
    "graph.npz": lambda path: UserGraph(str(path)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pipe_is_refused(tmp_path: Path, name: str):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(ValueError, match=path.stem):
        REFUSED[name](path)


def test_a_pipe_as_a_plugin_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "plug_pipe.py")
    with pytest.raises(RegistryError, match=r"plug_pipe\.py"):
        load_plugin(str(tmp_path / "plug_pipe.py"))


def test_pipes_in_a_runs_folder_are_passed_over(tmp_path: Path, capsys):
    for name in ("config.yaml", LOCK, "metrics.csv"):
        os.mkfifo(tmp_path / name)
    assert is_alive(tmp_path) is None
    assert read_metrics(tmp_path) is None
    assert changes(tmp_path, {"trainer": {}}) == []
    assert "config.yaml is damaged" in capsys.readouterr().err
