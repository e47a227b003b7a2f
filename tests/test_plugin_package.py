"""gnn_depth as it is distributed, a plugin and tools/remedies beside it, installed and run outside
the checkout."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = Path(__file__).parent / "plugin_package"
REMEDIES = ROOT / "tools" / "remedies"
OFFLINE = shlex.split("""--no-deps --no-build-isolation --no-index --quiet
    --disable-pip-version-check""")

#: In one process, which costs one import of torch: what a user does with an installed plugin.
SESSION = """
import os
import sys
from pathlib import Path

import pytest
import torch

import gnn_depth
import gnn_depth_plugin_example
from gnn_depth.cli import main
from gnn_depth.config_file import shipped
from gnn_depth.testing import checks, properties

for module in (gnn_depth, gnn_depth_plugin_example):
    assert "site" in module.__file__, module.__file__
assert main(["list"]) == 0
assert "lipschitz/depth" in shipped("reproduce")

words = sys.argv[1:]
assert main(["fit", *words, "--run.name", "straight", "--trainer.max_epochs", "4"]) == 0
assert main(["fit", *words, "--run.name", "stopped", "--trainer.max_epochs", "2"]) == 0
(stopped,) = Path("runs").glob("stopped/*/checkpoints/last.ckpt")
assert main(["fit", "--ckpt_path", str(stopped), "--run.name", "resumed", "--trainer.max_epochs", "4"]) == 0
straight, resumed = (
    torch.load(*Path("runs").glob(f"{name}/*/checkpoints/last.ckpt"), weights_only=True)["state_dict"]
    for name in ("straight", "resumed")
)
for name, parameter in straight.items():
    assert torch.equal(parameter, resumed[name]), name

# To compile each part takes longer than all else: the slow test below does.
for suite in (checks.COMMON, checks.OF_GRAPHS):
    suite.remove(properties.compiles)
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they are imported already
strict = ["-q", "-p", "no:cacheprovider", "-W", "error"]
assert pytest.main(["test_plugin.py", "-k", "not compiled", *strict]) == 0
"""

SMALL = shlex.split("""--data.num_nodes=60 --data.num_edges=120 --data.num_train_per_class=5
    --data.num_val=10 --data.num_test=10 --model.num_layers=4 --trainer.accelerator=cpu
    --model.compile=off""")
RUN = shlex.split("""--model.layer=lazy_gcn --model.norm=band --model.norm.bound=2
    --model.skip=oscillator --model.init=balanced --model.init.base=depth_scaled""")
# torch.compile reads the gradient of every tensor.
STRICT = ["-W", "error", "-W", "ignore:The .grad attribute:UserWarning"]
STRICT += ["-p", "no:cacheprovider", "-W", "ignore:`torch.jit.script:DeprecationWarning"]


def run(*words, **how):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=300, **how
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of a source tree: to build in place would leave folders behind."""

    def copy(tree):
        target = tmp_path_factory.mktemp("source") / tree.name
        names = [
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "MANIFEST.in",
            "gnn_depth",
            "configs",
            "src",
        ]
        target.mkdir()
        for name in names:
            if (tree / name).exists():
                run("cp", "-r", tree / name, target)
        return target

    return copy


@pytest.fixture(scope="module")
def sdist(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, folder, cwd=sources(ROOT))
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def site(sdist, sources, tmp_path_factory):
    """The folder where the package, built from its source distribution as an installer does where
    there is no wheel, and the plugins are installed."""
    site = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", *OFFLINE, "--no-compile", "--target", site]
    run(*install, sdist, sources(PLUGIN), sources(REMEDIES))
    return site


def test_what_is_installed_holds_every_module_template_and_config_and_the_marker_of_types(site):
    for kind in ("*.py", "*.txt", "py.typed"):
        for path in (ROOT / "gnn_depth").rglob(kind):
            assert (site / path.relative_to(ROOT)).exists()
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert (site / "share/gnn_depth" / path.relative_to(ROOT)).exists()
    assert not (site / "tests").exists()
    assert not (site / "tools").exists()


@pytest.fixture(scope="module")
def installed(site, tmp_path_factory):
    """Runs Python in an empty folder where the package and the plugin are installed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "test_plugin.py").write_text((PLUGIN / "tests" / "conforms.py").read_text())
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}

    def python(*words):
        return run(sys.executable, *words, cwd=folder, env=environment)

    python.folder = folder  # type: ignore[attr-defined]
    return python


def results(installed):
    """The results of all runs, by their name."""
    found = installed.folder.glob("runs/*/*/result.json")  # type: ignore[attr-defined]
    return {path.parts[-3]: json.loads(path.read_text()) for path in found}


def test_an_installed_plugin_is_listed_trains_resumes_exactly_and_passes_its_own_tests(installed):
    listed = installed("-c", SESSION, *SMALL, *RUN, "--model.dropout=0.5")
    assert "  band(bound: float (above 0) = 4.0)\n      Shorten the features" in listed
    for part in (
        "lazy_gcn(laziness: float = 0.5)",
        "oscillator(step: float = 1.0",
        "depth_scaled(power: float = 0.5)",
    ):
        assert part in listed
    assert "\ntask\n  binary(" in listed  # a process that has imported no task lists all
    assert " passed" in listed
    assert {result["status"] for result in results(installed).values()} == {"finished"}


#: The options of a training with each part of tools/remedies.
TRAININGS = [
    ["--model.init=virgo"],
    ["--model.init=spog", "--model.init.steps=5"],
    ["--data.transforms=fosr"],
    ["--data.transforms=sdrf"],
    ["--data.transforms=borf"],
    ["--trainer.callbacks=Rebalance"],
    ["--trainer.callbacks=gnn_depth_remedies.Rebalance"],
]
REVERSE = """
import sys
import gnn_depth
import gnn_depth_remedies
from gnn_depth.cli import main

assert "site" in gnn_depth_remedies.__file__
assert main(["list"]) == 0
for number, words in enumerate(TRAININGS):
    assert main(["fit", *WORDS, *words, "--run.name", f"remedy_{number}"]) == 0
data = gnn_depth.build("data", "SyntheticCitation")
model = gnn_depth.NodeClassifier(data.num_features, data.num_classes)
model.stack = gnn_depth_remedies.ReverseProcess(
    data.num_features, data.num_classes, skip="residual", last_activation=True,
    norm={"name": "weight_frobenius", "bound": 0.9},
)
gnn_depth.fit(model, data, epochs=2, name="remedy_reverse", progress=False)
"""


def test_every_installed_remedy_is_listed_and_trains(installed):
    words = [*SMALL, "--trainer.max_epochs=2"]
    program = REVERSE.replace("TRAININGS", repr(TRAININGS)).replace("WORDS", repr(words))
    listed = installed("-c", program)
    for name in ("virgo(", "spog(", "fosr(", "sdrf(", "borf("):
        assert f"\n  {name}" in listed, name
    found = results(installed)
    found = {name: result for name, result in found.items() if name.startswith("remedy_")}
    assert len(found) == len(TRAININGS) + 1
    assert {result["status"] for result in found.values()} == {"finished"}


@pytest.mark.slow
def test_a_wheel_in_a_fresh_environment_does_what_readme_says_with_a_compiler_and_without(
    sources, tmp_path, monkeypatch
):
    # A checkout on it would count as installed.
    monkeypatch.delenv("PYTHONPATH", raising=False)
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "wheel", *OFFLINE, "--wheel-dir", tmp_path, sources(ROOT))
    (wheel,) = tmp_path.glob("gnn_depth-*-py3-none-any.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    python = tmp_path / "venv/bin/python"
    run(*pip, "--python", python, "install", *OFFLINE, wheel, sources(PLUGIN))
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    environment = os.environ | own
    (folder := tmp_path / "empty").mkdir()

    def gnn_depth(*words, **changed):
        how = {"cwd": folder, "env": environment | changed}
        return run(python.with_name("gnn-depth"), *words, **how)

    assert "lipschitz/depth: " in gnn_depth("reproduce", "--list")
    shown = gnn_depth("demo")
    assert "test accuracy 92" in shown
    words = ["fit", "--config", "gat_lip_30", "--data", "SyntheticCitation", *SMALL]
    words += ["--trainer.max_epochs=2", "--run.name"]
    gnn_depth(*words, "compiled")
    gnn_depth(*words, "plugin", "--model.norm=band")
    # Nothing is on this path but Python: no compiler.
    alone = {"PATH": str(python.parent), "XDG_CACHE_HOME": str(tmp_path / "other")}
    gnn_depth(*words, "alone", **alone)
    kernels = {}
    for path in folder.glob("runs/*/*/result.json"):
        result = json.loads(path.read_text())
        assert result["status"] == "finished"
        kernels[path.parts[-3]] = result["kernels"]
    assert kernels.keys() == {"compiled", "plugin", "alone"}
    assert kernels["alone"] is None
    if shutil.which("c++") or shutil.which("g++"):
        assert kernels["compiled"] is not None


@pytest.mark.slow
def test_an_installed_plugin_is_compiled(installed):
    chosen = "compiled or conform"
    assert " passed" in installed("-m", "pytest", "test_plugin.py", "-q", *STRICT, "-k", chosen)
