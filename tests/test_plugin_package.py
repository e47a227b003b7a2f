"""gnn_depth as it is distributed, and a plugin beside it, installed and run outside the checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = Path(__file__).parent / "plugin_package"
OFFLINE = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]

#: In one process, which costs an import of torch: what a user does with an installed plugin.
SESSION = """
import sys

import pytest

import gnn_depth
import gnn_depth_plugin_example
from gnn_depth.cli import items, main

for module in (gnn_depth, gnn_depth_plugin_example):
    assert "site" in module.__file__, module.__file__
small = "--data.num_nodes 60 --data.num_edges 120 --data.num_train_per_class 5 --data.num_val 10 --data.num_test 10"
words = "--model.layer lazy_gcn --model.norm band --model.norm.bound 2 --model.init balanced_xavier"
assert main(["list", "norm", "layer"]) == 0
sys.prefix = sys.argv[2]  # where an environment has its share
assert "lipschitz/depth" in items.names()
assert main(["fit", *small.split(), *words.split(), "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu"]) == 0
strict = ["-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported already
sys.exit(pytest.main([sys.argv[1], "-q", "-p", "no:cacheprovider", *strict]))
"""


def run(*words: str | Path, **how: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=300, **how)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A copy of a source tree: to build in place would leave folders behind."""

    def copy(tree: Path) -> Path:
        target = tmp_path_factory.mktemp("source") / tree.name
        names = ["pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "gnn_depth", "configs", "src"]
        target.mkdir()
        for name in names:
            if (tree / name).exists():
                run("cp", "-r", tree / name, target)
        return target

    return copy


@pytest.fixture(scope="module")
def sdist(sources: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, folder, cwd=sources(ROOT))
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, as an installer does where there is no wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", folder, sdist)
    (archive,) = folder.glob("*.whl")
    return archive


def test_the_wheel_holds_every_module_template_and_config_and_the_marker_of_types(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {path for kind in ("*.py", "*.txt", "py.typed") for path in (ROOT / "gnn_depth").rglob(kind)}
    assert not {str(path.relative_to(ROOT)) for path in files} - names
    configs = {str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.yaml")}
    assert not configs - {name.partition("/share/gnn_depth/")[2] for name in names}
    assert not [name for name in names if name.startswith(("tests/", "tools/"))]


def test_the_source_distribution_holds_licence_and_readme(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_an_installed_plugin_is_listed_trains_and_conforms(
    wheel: Path, sources: Callable[[Path], Path], tmp_path: Path
):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "pip", "install", *OFFLINE, "--target", site, wheel, sources(PLUGIN))
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    tests = elsewhere / "test_plugin.py"
    tests.write_text((PLUGIN / "tests" / "conforms.py").read_text())
    said = run(sys.executable, "-c", SESSION, tests, site, cwd=elsewhere, env=environment)
    assert "  band(bound: float = 4.0)\n      Shorten the features" in said
    assert "lazy_gcn(laziness: float = 0.5)" in said
    assert "4 passed" in said
    (result,) = elsewhere.glob("runs/*/*/result.json")
    assert '"finished"' in result.read_text()
