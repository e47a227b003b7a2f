"""``gnn-depth list``: the sources are read, and say what importing them would."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnn_depth import registry
from gnn_depth.cli import catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.sources import Unreadable

BASE = '''
from typing import Literal, Optional

from gnn_depth import FeatureNorm

Form = Literal["paper", "released"]
HALF = 0.5


class Shrinking(FeatureNorm):
    """Divide the features.

    Args:
        channels: Width.
        by: Divisor.
    """

    def __init__(self, channels: int, by: float = HALF, form: Form = "paper", *, eps: "float | None" = 1e-5) -> None:
        super().__init__(channels)

    def forward(self, x, batch):
        return x
'''
PLUGIN = '''
import gnn_depth
from gnn_depth import register
from listed_parts.base import Form, Shrinking


@register("norm", "shrink")
class Shrink(Shrinking):
    pass


@gnn_depth.register("norm", "grow")
class Grow(Shrinking):
    """Multiply the features."""

    def __init__(self, channels: int, times: int | None = None, forms: list[Form] | None = None, way: type = Shrink):
        super().__init__(channels)
'''


@pytest.fixture(autouse=True)
def _forget(own_registry: None) -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("listed_"):
            del sys.modules[name]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose first module imports the one that registers parts."""
    package = tmp_path / "listed_parts"
    package.mkdir()
    (package / "__init__.py").write_text("from listed_parts import norms\n")
    (package / "base.py").write_text(BASE)
    (package / "norms.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    return "listed_parts"


def test_the_sources_of_all_built_in_parts_say_what_importing_them_says():
    read, imported = catalogue.read([]), catalogue.imported([])
    assert len(imported.parts) > 40
    assert read == imported


def test_the_sources_of_a_plugin_say_what_importing_it_says(plugin: str):
    read = catalogue.read([plugin])
    shrink = read.of("norm")["shrink"]
    assert list(map(str, shrink.options)) == [
        "by: float = 0.5",
        "form: paper | released = paper",
        "eps: float | None = 1e-05",
    ]
    assert shrink.summary == "Divide the features."
    assert "listed_parts" not in sys.modules
    assert read == catalogue.imported([plugin])


def test_parts_of_installed_packages_are_found_without_importing_them(
    gnn_depth: Callable, plugin: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("parts", plugin, group)])
    assert "grow(times: int | None = None" in gnn_depth("list", "norm").out
    assert "listed_parts" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        BASE + 'from gnn_depth import register\nfor name in ("a", "b"):\n    register("norm", name)(Shrinking)\n',
        BASE + 'from gnn_depth import register\nregister("norm", "a")(Shrinking)\n',
        BASE + 'import gnn_depth\nNAME = "a"\n@gnn_depth.register("norm", NAME)\nclass A(Shrinking): ...\n',
        BASE + 'import gnn_depth as g\n@g.register("norm", "a")\nclass A(Shrinking.__mro__[0]): ...\n',
    ],
)
def test_a_plugin_that_does_not_say_it_plainly_is_imported(gnn_depth: Callable, tmp_path: Path, source: str):
    (tmp_path / "listed_loop.py").write_text(source)
    with pytest.raises(Unreadable):
        catalogue.read(["listed_loop.py"])
    assert "a(by: float = 0.5" in gnn_depth("list", "norm", "--plugins", "listed_loop.py").out


def test_an_installed_plugin_whose_source_is_not_there_is_named_and_the_others_are_listed(
    gnn_depth: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "listed_broken.py").write_text("def broken(\n")
    monkeypatch.syspath_prepend(tmp_path)
    gone = EntryPoint("gone", "no_such_module_here", registry.ENTRY_POINT_GROUP)._for(
        SimpleNamespace(name="lost-parts")
    )
    broken = EntryPoint("broken", "listed_broken", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [gone, broken])
    answer = gnn_depth("list", "norm")
    assert answer.code == 0
    assert "\n  pair(" in answer.out
    assert answer.err.splitlines() == [
        "plugin 'gone' of lost-parts (no_such_module_here) is left out: its source does not exist.",
        "plugin 'broken' (listed_broken) is left out: its source cannot be read.",
    ]


def test_two_parts_of_one_name_are_an_error_that_names_both(refused: Callable, tmp_path: Path):
    source = BASE + 'from gnn_depth import register\n@register("norm", "pair")\nclass Own(Shrinking): ...\n'
    (tmp_path / "listed_twice.py").write_text(source)
    answer = refused("list", "--plugins", "listed_twice.py")
    assert "norm 'pair' is already gnn_depth.nn.norms.pair.PairNorm; listed_twice.Own needs another name." in answer


def test_a_kind_that_does_not_exist_is_answered_with_the_nearest(refused: Callable):
    assert refused("list", "nrm").startswith("unknown kind 'nrm'. Did you mean 'norm'?")


def test_help_of_a_class_that_nobody_registered_is_told_from_the_class(gnn_depth: Callable, plugin: str):
    answer = gnn_depth("fit", "--plugins", plugin, "--model.norm.help", "listed_parts.base.Shrinking")
    assert "norm Shrinking (listed_parts.base.Shrinking)" in answer.out
    assert "--model.norm.by: float = 0.5\n      Divisor." in answer.out


def test_list_explains_itself(gnn_depth: Callable):
    assert "usage: gnn-depth list [KIND]... [--plugins FILE]..." in gnn_depth("list", "--help").out


def test_help_of_a_part_is_plain_text(gnn_depth: Callable):
    told = gnn_depth("fit", "--model.norm.help", "pair").out
    assert "\n    x̃_i = s x^c_i / sqrt(" in told
    assert ".. math::" not in told


def test_help_of_a_part_that_does_not_exist_names_the_nearest(refused: Callable):
    assert refused("fit", "--model.norm.help", "pari").startswith("unknown norm 'pari'. Did you mean 'pair'?")


LIGHT = """
import json, resource, sys
from gnn_depth.cli import main
codes = [main(line.split()) for line in sys.argv[1:]]
used = resource.getrusage(resource.RUSAGE_SELF)
heavy = [name for name in ("torch", "lightning", "torch_geometric", "pandas", "numpy") if name in sys.modules]
print(json.dumps({"codes": codes, "heavy": heavy, "seconds": used.ru_utime + used.ru_stime}))
"""


def test_what_needs_no_torch_does_not_import_it_and_is_there_at_once():
    lines = ["--version", "--help", "list", "list norm", "fit --model.norm.help pair", "fitt", "fit --config none.yaml"]
    lines += ["sweep none.yaml", "sweep --help", "completion bash", "completion answer fit --model.norm pa"]
    done = subprocess.run([sys.executable, "-c", LIGHT, *lines], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["codes"] == [0, 0, 0, 0, 0, 2, 2, 2, 0, 0, 0]
    assert result["heavy"] == []
    assert result["seconds"] < 2, "eleven commands in one process: half a second where nothing else runs"


def test_a_plugin_that_does_not_load_is_named(tmp_path: Path):
    (tmp_path / "listed_faulty.py").write_text("def broken(\n")
    with pytest.raises(UsageError, match=r"listed_faulty.py:1: '\(' was never closed"):
        catalogue.catalogue([str(tmp_path / "listed_faulty.py")])


def test_a_reader_who_has_seen_enough_is_left_alone():
    reader, writer = os.pipe()
    os.close(reader)  # as head does when it has its lines
    command = [sys.executable, "-m", "gnn_depth", "list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 141)
