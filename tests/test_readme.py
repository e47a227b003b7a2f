"""What the README shows is what there is."""

import re
from pathlib import Path

import yaml

from gnn_depth.cli import COMMANDS, items
from gnn_depth.cli.resolve import Resolver, line_of
from gnn_depth.cli.words import split
from gnn_depth.sweeps.grid_file import read_grid

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def test_its_grid_is_one_whose_every_option_exists():
    (block,) = re.findall(r"```yaml\n(# grid\.yaml\n.*?)```", TEXT, re.DOTALL)
    grid, resolver = read_grid(yaml.safe_load(block), "grid"), Resolver([])
    combinations = list(grid.combinations())
    assert len(combinations) == 3 * 3 * 2 - 3
    for combination in combinations[::4]:
        config = resolver.resolve(line_of(combination, grid.base, ROOT, split([])))
        expected = 600 if combination.labels["depth"] in (10, 30) else 1000
        assert config["trainer"]["max_epochs"] == expected


def test_its_commands_items_and_files_exist():
    for command in re.findall(r"^\$? ?gnn-depth (\w+)", TEXT, re.MULTILINE):
        assert command in COMMANDS
    for item in re.findall(r"gnn-depth reproduce (\w+/\w+)", TEXT):
        assert item in items.names()
    for name in re.findall(r"\bconfigs/[\w/]+\.yaml\b", TEXT):
        assert (ROOT / name).is_file(), name
