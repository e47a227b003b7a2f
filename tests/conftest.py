"""Fixtures shared by all tests."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import pytest
import torch

TESTS = Path(__file__).parent
if not jaxtyping.config.jaxtyping_disable:
    # Every function of a module that names shapes checks them, and its types: before any import.
    files = [file for room in ("nn", "data") for file in TESTS.glob(f"../gnn_depth/{room}/**/*.py")]
    named = [file for file in files if "from jaxtyping import" in file.read_text()]
    modules = [".".join(file.relative_to(TESTS / "..").with_suffix("").parts) for file in named]
    jaxtyping.install_import_hook(modules, "beartype.beartype")

from gnn_depth import registry  # noqa: E402
from gnn_depth.graph import Graph  # noqa: E402

if TYPE_CHECKING:
    from tests.pages import Folder

# A shell that starts tests in the background may have told them to ignore what some of them send.
for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )

# Examples of every test that names no number of its own.
hypothesis.settings.register_profile("quick", max_examples=25, deadline=None)
hypothesis.settings.load_profile("quick")

# Two workers on two cores: more threads than that only wait for one another.
torch.set_num_threads(1)

# pytest listens to every logger that does not propagate, and torch's compiler would write a trace
# for it.
logging.getLogger("torch.__trace").propagate = True


#: Files whose tests take longest: trainings that are stopped, of several processes, or of a search,
#: compiled code, every page of the documentation, tables that are exported, packages
#: that are installed. `make test-long` runs them.
LONG = {
    *("test_compiled", "test_ddp", "test_docs", "test_plugin_package"),
    *("test_search", "test_several_processes"),
    *("test_shards", "test_stopping", "test_sweep_faults", "test_worker"),
}


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the longest tests."""
    for item in items:
        if item.path.stem in LONG:
            item.add_marker("long")


#: Folders in which shapes are checked, but for files that call a function thousands of times. All
#: other tests call the same functions, and a check costs more than a small layer.
CHECKED = ("nn", "data")
MANY_CALLS = (
    "test_balanced",
    "test_bounds",
    "test_conservation",
    "test_derivatives",
    "test_export",
)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes in some folders only."""
    folder = item.path.relative_to(TESTS).parts[0]
    is_checked = folder in CHECKED and item.path.stem not in MANY_CALLS
    jaxtyping.config.update("jaxtyping_disable", not is_checked)


@pytest.fixture(autouse=True)
def _seed() -> None:
    # Not torch.manual_seed, which takes a millisecond to ask about all devices.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


@pytest.fixture
def graph() -> Graph:
    """Nine nodes, several of them tied in degree; node 8 is isolated, node 7 has a self-loop, one
    edge is repeated."""
    sources = [0, 1, 1, 2, 3, 4, 0, 5, 6, 6, 7, 7, 5]
    targets = [1, 0, 2, 3, 4, 0, 4, 2, 2, 5, 7, 6, 2]
    return Graph(torch.tensor([sources, targets]), 9)


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets that GNN_DEPTH_DATA names."""
    root = os.environ.get("GNN_DEPTH_DATA")
    if not root:
        pytest.skip(
            "real data: set GNN_DEPTH_DATA to the folder that holds Cora/, CiteSeer/, PubMed/, "
            "heterophilous/ and medium/"
        )
    return Path(root)


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Folder]":
    """An empty folder beside the shipped configs; the parts that a page registers are forgotten
    afterwards."""
    from gnn_depth.cli import sweep
    from gnn_depth.diagnostics import MEASURES
    from tests.cli.conftest import PoolHere
    from tests.pages import ROOT, Folder

    monkeypatch.setattr(sweep, "LocalPool", PoolHere)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(
        registry, "_TABLE", {kind: dict(names) for kind, names in registry._TABLE.items()}
    )
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    measures = dict(MEASURES)
    yield Folder(tmp_path)
    MEASURES.clear()
    MEASURES.update(measures)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
