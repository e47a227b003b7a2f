"""An edit that may change the numbers of a run changes the checksum of its code, and no other
does."""

import json
import sys
import textwrap
import types

import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.training.source_code import checksum_of_code, checksum_of_file

PROGRAM = '''
import functools
import torch

FACTOR = 2.0
TABLE = torch.tensor([1.0, 2.0])


def scaled(x):
    return x * FACTOR


class Base(torch.nn.Module):
    rate = 0.5

    def both(self, x):
        return x + self.rate


class Mine(Base):
    """Written today."""

    def __init__(self, size=3):
        super().__init__()
        self.size = size

    def forward(self, x):
        inner = lambda y: y - TABLE[0]
        return inner(scaled(self.both(x))) * self.twice

    @property
    def twice(self):
        return 2 * self.size

    @staticmethod
    def unused(x):
        return x
'''


def checksum_of(text: str, name: str = "Mine") -> str:
    module = types.ModuleType("a_notebook")
    sys.modules["a_notebook"] = module  # as that of a notebook, it has no file
    try:
        exec(compile(text, "cell", "exec"), module.__dict__)
        return checksum_of_code(getattr(module, name))
    finally:
        del sys.modules["a_notebook"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("[1.0, 2.0]", "[1.5, 2.0]"),
        ("x * FACTOR", "x / FACTOR"),
        ("rate = 0.5", "rate = 0.6"),
        ("x + self.rate", "x - self.rate"),
        ("size=3", "size=4"),
        ("y - TABLE[0]", "y - TABLE[1]"),
        ("2 * self.size", "3 * self.size"),
        ("        return x\n", "        return -x\n"),
        ("class Mine(Base)", "class Mine(torch.nn.Module)"),
        ("class Base(torch.nn.Module)", "class Base(torch.nn.Identity)"),
    ],
)
def test_an_edit_of_what_a_class_does_changes_its_checksum(before, after):
    assert before in PROGRAM
    assert checksum_of(PROGRAM.replace(before, after)) != checksum_of(PROGRAM)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Written today.", "Written tomorrow."),
        ("def scaled", "# A comment.\n\n\ndef scaled"),
        ("import functools\n", ""),
        ("\nclass Base", "\nUNUSED = 5\n\n\nclass Base"),
    ],
)
def test_words_and_places_do_not_count(before, after):
    assert before in PROGRAM
    assert checksum_of(PROGRAM.replace(before, after)) == checksum_of(PROGRAM)


def test_functions_that_call_each_other_and_unfilled_cells_end():
    text = """
    def even(n): return n == 0 or odd(n - 1)
    def odd(n): return n != 0 and even(n - 1)
    def outer():
        def use(): return later
        return use
        later = 1
    use = outer()
    """
    text = textwrap.dedent(text)
    assert checksum_of(text, "even") != checksum_of(text, "odd")
    assert len(checksum_of(text, "use")) == 64


def test_files_that_a_plugin_imports_count_and_installed_ones_do_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import norms\n")
    (package / "norms.py").write_text("from .tools import size\nimport torch, os\n")
    (package / "tools.py").write_text("import my_numbers\nsize = 1\n")
    (package / "other.py").write_text("size = 1\n")
    (tmp_path / "my_numbers.py").write_text("import my_package\n")

    def checksum():
        return checksum_of_file(package / "__init__.py", "my_package")

    before = checksum()
    (package / "other.py").write_text("size = 2\n")
    assert checksum() == before
    for file in (package / "norms.py", package / "tools.py", tmp_path / "my_numbers.py"):
        text = file.read_text()
        file.write_text(text + "edited = True\n")
        assert checksum() != before
        file.write_text(text)
    assert checksum() == before


def a_norm(factor):
    class Mine(gnn_depth.FeatureNorm):
        """Scale features."""

        def forward(self, x, graph):
            return x * factor

    return Mine


def test_runs_of_one_class_before_and_after_an_edit_are_two_runs(tmp_path):
    data = Data(
        x=torch.randn(12, 3),
        edge_index=torch.randint(12, (2, 30)),
        y=torch.arange(12) % 2,
    )
    identities = []
    for factor in (1.0, 2.0, 1.0):
        options = {"norm": a_norm(factor), "num_layers": 2}
        run = gnn_depth.fit(options, data, epochs=1, root=str(tmp_path), progress=False)
        identities.append(json.loads((run.folder / "result.json").read_text())["identity"])
    assert identities[0] == identities[2] != identities[1]
