"""The table of faults names tests that exist, and has every fault."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = re.findall(
    r"^\| (\d+) \|(.*)\|$", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"), re.MULTILINE
)
FAULTS = 49


def test_every_fault_has_its_row():
    assert [int(number) for number, _ in ROWS] == list(range(1, FAULTS + 1))


def test_the_tests_of_every_fault_exist():
    for number, row in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, f"no test shows row {number}"
        for file, name in named:
            functions = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
            assert name in {node.name for node in functions if isinstance(node, ast.FunctionDef)}, (
                f"{file}::{name}"
            )
