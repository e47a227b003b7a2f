"""Plugins: files, modules and installed packages that bring parts of their own."""

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gnn_depth import registry
from tests.cli.conftest import SHORT

SOURCE = '''
from gnn_depth import FeatureNorm, register


@register("norm", "shrink")
class Shrink(FeatureNorm):
    """Divide the features.

    Args:
        channels: Width of the node features.
        by: Divisor.
    """

    def __init__(self, channels: int, by: float = 2.0) -> None:
        super().__init__(channels)
        self.by = by

    def forward(self, x, graph):
        return x / self.by
'''


@pytest.fixture(autouse=True)
def _forget(own_registry: None) -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "parts" / "plug_shrink.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def test_a_plugin_file_brings_a_norm_that_trains(gnn_depth: Callable, plugin: Path):
    words = ["--plugins", str(plugin), "--model.norm", "shrink", "--model.norm.by", "4", "--trainer.max_epochs", "1"]
    answer = gnn_depth("fit", *SHORT, *words)
    assert answer.code == 0, answer.err
    (saved,) = Path("runs").glob("*/*/config.yaml")
    assert "name: shrink\n    by: 4.0" in saved.read_text()


def test_a_checkpoint_without_its_plugin_is_answered_with_the_class_that_is_missing(gnn_depth: Callable, plugin: Path):
    words = ["--plugins", str(plugin), "--model.norm", "shrink", "--trainer.max_epochs", "1"]
    assert gnn_depth("fit", *SHORT, *words).code == 0
    (checkpoint,) = Path("runs").glob("*/*/checkpoints/best.ckpt")
    del sys.modules["plug_shrink"], registry._TABLE["norm"]["shrink"]
    answer = gnn_depth("test", "--ckpt_path", str(checkpoint))
    assert answer.code == 2
    assert "'plug_shrink.Shrink' cannot be imported" in answer.err
    assert "--plugins FILE" in answer.err
    assert "Namespace" not in answer.err


def test_the_saved_config_runs_again_from_another_folder(
    gnn_depth: Callable, plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(plugin.parent)
    first = gnn_depth("fit", "--plugins", plugin.name, "--model.norm", "shrink", "--print_config")
    (tmp_path / "saved.yaml").write_text(first.out)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = gnn_depth("fit", "--config", "../saved.yaml", "--print_config")
    assert (again.code, again.out) == (0, first.out)


def test_a_path_in_a_config_counts_from_the_config(gnn_depth: Callable, plugin: Path):
    path = plugin.parent / "run.yaml"
    path.write_text("plugins: [plug_shrink.py]\nmodel:\n  norm: {name: shrink, by: 3}\n")
    answer = gnn_depth("fit", "--config", str(path), "--print_config")
    assert answer.code == 0, answer.err
    assert answer.config["model"]["norm"] == [{"name": "shrink", "by": 3.0}]
    assert answer.config["plugins"] == [str(plugin)]


def test_plugins_of_configs_and_command_line_add_up(config: Callable, plugin: Path, tmp_path: Path):
    other = tmp_path / "plug_other.py"
    other.write_text(SOURCE.replace("shrink", "other").replace("Shrink", "Other"))
    Path("a.yaml").write_text("plugins: [parts/plug_shrink.py]\n")
    resolved = config("--config", "a.yaml", "--plugins", "plug_other.py", "--model.norm", "[shrink, other]")
    assert resolved["plugins"] == [str(plugin), str(other)]
    assert [norm["name"] for norm in resolved["model"]["norm"]] == ["shrink", "other"]


def test_a_plugin_named_twice_is_imported_once(config: Callable, plugin: Path):
    plugin.write_text(f"{SOURCE}\nimport sys\nsys.imported = getattr(sys, 'imported', 0) + 1\n")
    try:
        config("--plugins", str(plugin), "--plugins", "parts/../parts/plug_shrink.py")
        assert sys.imported == 1  # type: ignore[attr-defined]
    finally:
        del sys.imported  # type: ignore[attr-defined]


def test_an_importable_module_is_a_plugin(config: Callable, plugin: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(plugin.parent)
    assert config("--plugins", "plug_shrink", "--model.norm", "shrink")["plugins"] == ["plug_shrink"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0\n", "does not load: ZeroDivisionError"),
        ("\n\n1 / 0\n", "plug_shrink.py:3)"),
        ("def broken(\n", "plug_shrink.py:1: '(' was never closed."),
        ("import no_such_module_here\n", "No module named 'no_such_module_here'"),
        (SOURCE.replace('"shrink"', '"pair"'), "norm 'pair' is already"),
        (SOURCE.replace('"norm"', '"nrm"'), "unknown kind 'nrm'. Did you mean 'norm'?"),
    ],
)
def test_a_plugin_that_does_not_load_is_named(refused: Callable, plugin: Path, source: str, message: str):
    plugin.write_text(source)
    answer = refused("fit", "--plugins", str(plugin))
    assert message in answer
    assert "plug_shrink" in answer
    assert "plug_shrink" not in sys.modules


def test_an_argument_without_type_and_default_has_to_be_given(refused: Callable, config: Callable, plugin: Path):
    plugin.write_text(SOURCE.replace("by: float = 2.0", "by"))
    words = ["--plugins", str(plugin), "--model.norm", "shrink"]
    for given in ([], ["--model.norm.by", "null"]):
        assert "--model.norm.by" in refused("fit", *words, *given)
    assert config(*words, "--model.norm.by", "3")["model"]["norm"] == [{"name": "shrink", "by": 3}]


def test_a_part_without_a_method_that_it_needs_is_refused_with_its_line(refused: Callable, plugin: Path):
    plugin.write_text(SOURCE.replace("def forward", "def apply"))
    Path("run.yaml").write_text("model:\n  norm: [pair, shrink]\n")
    answer = refused("fit", "--plugins", str(plugin), "--config", "run.yaml")
    assert answer.startswith("run.yaml:2:")
    assert "norm 'shrink' (Shrink, " in answer
    assert "plug_shrink.py:5) has no forward" in answer


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.py", "does not exist"),
        ("no_such_module_here", "does not load"),
        ("json.py", "rename the file"),
        ("small.yaml", "neither a .py file nor a module"),
        (".", "it is a folder"),
    ],
)
def test_a_plugin_that_is_not_there_is_named(refused: Callable, tmp_path: Path, name: str, message: str):
    (tmp_path / "json.py").write_text(SOURCE)
    (tmp_path / "small.yaml").write_text("seed_everything: 0\n")
    answer = refused("fit", "--plugins", name)
    assert message in answer
    assert name in answer


@pytest.fixture
def installed(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """``installed(first="plug_shrink", ...)``: packages that announce these modules."""
    monkeypatch.syspath_prepend(plugin.parent)

    def announce(**modules: str) -> None:
        entries = [
            SimpleNamespace(
                name=name, value=module, dist=SimpleNamespace(name=f"the-{name}"), load=partial(_load, module)
            )
            for name, module in modules.items()
        ]
        monkeypatch.setattr(registry, "entry_points", lambda group: entries)

    return announce


def _load(module: str) -> None:
    importlib.import_module(module)


def test_an_installed_plugin_needs_no_option(config: Callable, installed: Callable):
    installed(shrink="plug_shrink")
    resolved: Any = config("--model.norm", "shrink")
    assert resolved["plugins"] == []
    assert resolved["model"]["norm"] == [{"name": "shrink", "by": 2.0}]


@pytest.mark.parametrize("source", ["import no_such_module_here", "raise SystemExit('no licence')"])
def test_a_broken_installed_plugin_is_said_in_one_line_and_left_out(
    gnn_depth: Callable, installed: Callable, plugin: Path, source: str
):
    plugin.write_text(f"{SOURCE}\n{source}\n")
    installed(shrink="plug_shrink")
    answer = gnn_depth("fit", "--model.norm", "pair", "--print_config")
    assert answer.code == 0
    assert answer.config["model"]["norm"] == [{"name": "pair", "scale": 1.0}]
    (line,) = answer.err.splitlines()
    assert line.startswith("warning: plugin 'shrink' of the-shrink (plug_shrink) does not load: ")
    assert "no_such_module_here" in line or "no licence" in line
    assert gnn_depth("fit", "--model.norm", "pair", "--print_config").err == "", "said twice"


@pytest.mark.parametrize("name", ["shrink", "plug_shrink.Shrink"])
def test_a_name_that_a_broken_plugin_may_have_is_answered_with_what_is_wrong_with_the_plugin(
    gnn_depth: Callable, installed: Callable, plugin: Path, name: str
):
    plugin.write_text(f"{SOURCE}\nimport no_such_module_here\n")  # it has registered shrink before it breaks
    installed(shrink="plug_shrink")
    answer = gnn_depth("fit", "--model.norm", name)
    assert answer.code == 2
    assert "plugin 'shrink' of the-shrink (plug_shrink) does not load: " in answer.err
    assert "No module named 'no_such_module_here'" in answer.err
    assert not Path("runs").exists()


def test_two_installed_plugins_of_one_name_are_both_named_when_it_is_used_and_each_can_be_meant_by_its_class(
    gnn_depth: Callable, config: Callable, installed: Callable, plugin: Path
):
    (plugin.parent / "plug_other.py").write_text(SOURCE.replace("2.0", "3.0"))
    installed(one="plug_shrink", two="plug_other")
    assert gnn_depth("fit", "--model.norm", "pair", "--print_config").code == 0
    answer = gnn_depth("fit", "--model.norm", "shrink")
    assert answer.code == 2
    assert "plug_shrink.Shrink of plugin 'one' of the-one" in answer.err
    assert "plug_other.Shrink of plugin 'two' of the-two" in answer.err
    for path, by in (("plug_shrink.Shrink", 2.0), ("plug_other.Shrink", 3.0)):
        meant = {"class_path": path, "init_args": {"by": by}}
        assert config("--model.norm", path)["model"]["norm"] == [meant]


def test_an_installed_plugin_does_not_take_the_name_of_a_built_in_part(
    gnn_depth: Callable, installed: Callable, plugin: Path
):
    plugin.write_text(SOURCE.replace('"shrink"', '"pair"'))
    installed(shrink="plug_shrink")
    answer = gnn_depth("fit", "--model.norm", "pair")
    assert answer.code == 2
    assert "gnn_depth.nn.norms.pair.PairNorm, and plug_shrink.Shrink of plugin" in answer.err
    assert gnn_depth("fit", "--model.norm", "layer", "--print_config").code == 0


def test_a_file_that_takes_the_name_of_an_installed_plugin_is_refused_at_once(
    refused: Callable, installed: Callable, plugin: Path
):
    other = plugin.parent / "plug_other.py"
    other.write_text(SOURCE)
    installed(one="plug_shrink")
    answer = refused("fit", "--plugins", str(other), "--model.norm", "pair")
    assert "plug_shrink.Shrink of plugin 'one' of the-one; plug_other.Shrink" in answer
