"""``gnn-depth list``, the help of single parts, and the cached catalogue that both read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gnn_depth import __version__, registry
from gnn_depth.cli import catalogue
from gnn_depth.part_specs import GIVEN, parts_of

pytestmark = pytest.mark.usefixtures("own_registry")

PLUGIN = '''
from typing import Literal

from gnn_depth import FeatureNorm, register

Form = Literal["paper", "released"]


class Shrinking(FeatureNorm):
    """Divide the features.

    Args:
        channels: Width.
        by: Divisor.
    """

    def __init__(self, channels: int, by: float = 0.5, form: Form = "paper", *, eps: "float | None" = 1e-5) -> None:
        super().__init__(channels)

    def forward(self, x, batch):
        return x


@register("norm", "shrink")
class Shrink(Shrinking):
    pass
'''


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "listed_parts.py").write_text(PLUGIN)
    return str(tmp_path / "listed_parts.py")


def test_a_part_is_listed_with_its_options_and_the_first_line_of_its_docstring(gnn_depth, plugin):
    row = "shrink(by: float = 0.5, form: paper | released = paper, eps: float | None = 1e-05)\n      Divide the features.\n      From listed_parts.Shrink."
    for kinds in (["norms"], ["layers", "norm"], []):
        assert row in gnn_depth("list", *kinds, "--plugins", plugin).out
    assert "shrink" not in gnn_depth("list", "layer").out
    assert not gnn_depth("list").out.rstrip().endswith("transform")  # no heading without parts


def test_every_part_of_every_kind_is_listed_and_the_same_after_a_way_through_the_cache(
    gnn_depth,
):
    shown = gnn_depth("list").out
    for kind in registry.KINDS:
        assert f"{kind}\n  " in shown or not registry.registered(kind)
        for name, cls in registry.registered(kind).items():
            assert f"\n  {cls.__name__ if kind == 'data' else name}(" in shown
    parts = {kind: parts_of(kind) for kind in GIVEN}
    written = json.dumps(parts, default=catalogue._plain)
    assert json.loads(written, object_hook=catalogue._read) == parts


class TestCache:
    """The cache on disk; nothing is imported here, `build` only counts how often it would be."""

    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        self.built = 0

    def ask(self, plugins: tuple[str, ...] = ()) -> Any:
        def build() -> list[str]:
            self.built += 1
            return ["content"]

        assert catalogue.cached(plugins, build) == ["content"]
        return self.built

    def entry(self, tmp_path: Path) -> Path:
        (path,) = (tmp_path / "cache" / "gnn_depth" / "catalogue").iterdir()
        return path

    def test_it_is_built_again_when_a_plugin_changes(self, plugin):
        registry.load_plugin(plugin)
        assert [self.ask((plugin,)), self.ask((plugin,)), self.ask()] == [1, 1, 2]
        Path(plugin).write_text(PLUGIN + "\n")
        assert self.ask((plugin,)) == 3

    def test_a_new_module_of_a_plugin_counts_and_its_bytecode_does_not(self, tmp_path, monkeypatch):
        package = tmp_path / "a_package_of_parts"
        package.mkdir()
        (package / "__init__.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)
        registry.load_plugin(package.name)
        assert self.ask((package.name,)) == 1
        (package / "__pycache__").mkdir(exist_ok=True)
        os.utime(package)
        assert self.ask((package.name,)) == 1
        (package / "norms.py").write_text("")
        assert self.ask((package.name,)) == 2

    def test_it_is_built_again_when_a_source_of_the_package_or_a_version_changes(
        self, tmp_path, monkeypatch
    ):
        self.ask()
        entry = json.loads(self.entry(tmp_path).read_text())
        assert any(file.endswith("norms/pair.py") for file in entry["sources"])
        entry["sources"][next(iter(entry["sources"]))][0] += 1
        self.entry(tmp_path).write_text(json.dumps(entry))
        assert [self.ask(), self.ask()] == [2, 2]
        monkeypatch.setattr(catalogue, "version", lambda package: "9.9")
        assert self.ask() == 3

    @pytest.mark.parametrize("damage", ["", "null", '{"key": 1}', "\x00\xff", "[" * 100_000])
    def test_a_damaged_entry_is_replaced(self, damage, tmp_path):
        self.ask()
        self.entry(tmp_path).write_text(damage)
        assert [self.ask(), self.ask()] == [2, 2]


LIGHT = """
import json, sys
from gnn_depth.cli import main
codes = [main(line.split()) for line in sys.argv[1:]]
heavy = [name for name in ("torch", "lightning", "torch_geometric", "pandas", "numpy") if name in sys.modules]
print(json.dumps({"codes": codes, "heavy": heavy}))
"""


def test_commands_that_need_no_torch_do_not_import_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    # A first command writes it, in a process of its own: this one has imported what other tests
    # wrote.
    first = [sys.executable, "-c", LIGHT, "list"]
    subprocess.run(first, capture_output=True, check=True, cwd=tmp_path)
    lines = {"--version": 0, "--help": 0, "list": 0, "fit --model.norm.help pair": 0}
    lines |= {"fit --help": 0, "sweep --help": 0, "reproduce --help": 0, "new norm MyOwn": 0}
    lines |= {"fitt": 2, "fit --config none.yaml": 2, "sweep none.yaml": 2}
    command = [sys.executable, "-c", LIGHT, *lines]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert f"gnn-depth {__version__}\n" in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["codes"] == list(lines.values())
    assert result["heavy"] == []
