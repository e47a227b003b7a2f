"""Plugins: files, modules and installed packages that bring parts of their own."""

import importlib
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnn_depth import registry
from tests.cli.conftest import SHORT

ONE = [*SHORT, "--trainer.max_epochs", "1"]

pytestmark = pytest.mark.usefixtures("own_registry")

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


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "parts" / "plug_shrink.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def test_a_plugin_file_brings_a_norm_that_trains_and_its_checkpoint_names_it_where_it_is_missing(
    done, gnn_depth, plugin
):
    words = ["--plugins", str(plugin), "--model.norm", "shrink", "--model.norm.by", "4"]
    answer = done("fit", *ONE, *words)
    (saved,) = Path("runs").glob("*/*/config.yaml")
    assert "name: shrink\n    by: 4.0" in saved.read_text()
    del sys.modules["plug_shrink"], registry._TABLE["norm"]["shrink"]
    answer = gnn_depth("test", "--ckpt_path", str(saved.with_name("checkpoints") / "best.ckpt"))
    assert answer.code == 2
    assert "unknown norm 'shrink'" in answer.err
    assert "--plugins FILE" in answer.err


def test_a_checkpoint_that_is_used_with_an_edited_plugin_is_warned_of_wherever_it_lies(
    done, gnn_depth, plugin
):
    words = ["--plugins", str(plugin)]
    done("fit", *ONE, *words, "--model.norm", "shrink")
    (best,) = Path("runs").glob("*/*/checkpoints/best.ckpt")
    moved = Path("moved.ckpt")
    moved.write_bytes(best.read_bytes())
    assert "edited" not in gnn_depth("test", *words, "--ckpt_path", str(best)).err
    del sys.modules["plug_shrink"], registry._TABLE["norm"]["shrink"]
    # As long as before, within the same second: cached bytecode would count as that of this file.
    plugin.write_text(SOURCE.replace("x / self.by", "x * self.by"))
    for path in (best, moved):
        answer = done("test", *words, "--ckpt_path", str(path))
        assert "the plugin plug_shrink.py was edited" in answer.err
    assert float(registry.registered("norm")["shrink"](3).forward(torch.ones(1), None)) == 2


def test_a_plugin_that_is_edited_after_its_import_is_refused_in_the_same_process(plugin):
    registry.load_plugin(str(plugin))
    registry.load_plugin(str(plugin))
    plugin.write_text(SOURCE.replace("x / self.by", "x * self.by"))
    with pytest.raises(registry.RegistryError, match="edited after this process had imported it"):
        registry.load_plugin(str(plugin))


def test_plugins_of_configs_and_command_line_add_up_each_imported_once(
    config, plugin, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "imported", 0, raising=False)
    plugin.write_text(f"{SOURCE}\nimport sys\nsys.imported += 1\n")
    for name in ("other", "module"):
        (tmp_path / f"plug_{name}.py").write_text(
            SOURCE.replace("shrink", name).replace("Shrink", name)
        )
    (plugin.parent / "a.yaml").write_text(
        "plugins: [plug_shrink.py]\n"
    )  # counts from the config's folder
    monkeypatch.syspath_prepend(tmp_path)
    resolved = config(
        *("--config", "parts/a.yaml", "--plugins", "plug_other.py", "--plugins", "plug_module"),
        *("--plugins", "parts/../parts/plug_shrink.py", "--model.norm", "[shrink, other, module]"),
    )
    assert sys.imported == 1  # type: ignore[attr-defined]
    assert resolved["plugins"] == [str(plugin), str(tmp_path / "plug_other.py"), "plug_module"]
    assert [norm["name"] for norm in resolved["model"]["norm"]] == ["shrink", "other", "module"]


def test_a_class_that_is_defined_again_replaces_itself_in_its_kind_alone(plugin):
    registry.register("layer", "shrink")(torch.nn.Identity)
    registry.load_plugin(str(plugin))
    before = registry.registered("norm")["shrink"]
    del sys.modules["plug_shrink"]
    registry.load_plugin(str(plugin))
    assert registry.registered("norm")["shrink"] is not before
    assert registry.registered("layer")["shrink"] is torch.nn.Identity


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\n\n1 / 0\n", "plug_shrink.py:3)"),
        ("def broken(\n", "plug_shrink.py:1: '(' was never closed."),
        (SOURCE.replace('"shrink"', '"pair"'), "norm 'pair' is already"),
        (SOURCE.replace('"norm"', '"nrm"'), "unknown kind 'nrm'. Did you mean 'norm'?"),
    ],
)
def test_a_plugin_that_does_not_load_is_named(refused, plugin, source, message):
    plugin.write_text(source)
    answer = refused("fit", "--plugins", str(plugin))
    assert message in answer
    assert "plug_shrink" in answer
    assert "plug_shrink" not in sys.modules


def test_a_part_without_a_method_that_it_needs_is_refused_with_its_line(refused, plugin):
    plugin.write_text(SOURCE.replace("def forward", "def apply"))
    Path("run.yaml").write_text("model:\n  norm: [pair, shrink]\n")
    answer = refused("fit", "--plugins", str(plugin), "--config", "run.yaml")
    assert answer.startswith("run.yaml:2:")
    assert "norm 'shrink' (Shrink, " in answer
    assert "plug_shrink.py:5) has no forward" in answer


@pytest.fixture
def installed(plugin, monkeypatch):
    """``installed(first="plug_shrink", ...)``: packages that announce these modules."""
    monkeypatch.syspath_prepend(plugin.parent)

    def announce(**modules: str) -> None:
        entries = [
            SimpleNamespace(
                name=name,
                value=module,
                dist=SimpleNamespace(name=f"the-{name}"),
                load=partial(importlib.import_module, module),
            )
            for name, module in modules.items()
        ]
        monkeypatch.setattr(registry, "entry_points", lambda group: entries)

    return announce


def test_an_installed_plugin_needs_no_option(config, refused, installed, plugin):
    (plugin.parent / "plug_other.py").write_text(SOURCE)
    installed(shrink="plug_shrink")
    resolved: Any = config("--model.norm", "shrink")
    assert resolved["plugins"] == []
    assert resolved["model"]["norm"] == [{"name": "shrink", "by": 2.0}]
    answer = refused("fit", "--plugins", "parts/plug_other.py", "--model.norm", "pair")
    # A name is taken once.
    assert "'shrink' is already plug_shrink.Shrink: give plug_other.Shrink" in answer


@pytest.mark.parametrize(
    ("source", "names"),
    [("import no_such_module_here", ("shrink", "plug_shrink.Shrink")), ("raise SystemExit", ())],
)
def test_a_broken_installed_plugin_is_said_in_one_line_and_again_only_where_a_name_may_be_its(
    refused, done, installed, plugin, source, names
):
    plugin.write_text(f"{SOURCE}\n{source}\n")  # it has registered shrink before it breaks
    installed(shrink="plug_shrink")
    answer = done("fit", "--model.norm", "pair", "--print_config")
    assert answer.config["model"]["norm"] == [{"name": "pair", "scale": 1.0}]
    (line,) = answer.err.splitlines()
    assert line.startswith("warning: plugin 'shrink' of the-shrink (plug_shrink) does not load: ")
    assert done("fit", "--model.norm", "pair", "--print_config").err == ""  # it is said once
    for name in names:
        assert "No module named 'no_such_module_here'" in refused("fit", "--model.norm", name)
