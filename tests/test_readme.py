"""What the README shows is what there is; its five minutes are run."""

import re

from gnn_depth.cli import COMMANDS
from tests.pages import ROOT, SMALL, blocks

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BEGIN, END = (
    TEXT.count("\n", 0, TEXT.index(heading)) for heading in ("\n## Add a part\n", "\n## Papers\n")
)
RUN = [block for block in blocks(README) if BEGIN < block.line < END]


def test_every_command_option_and_name_exists(readers_folder):
    for name in ("base.yaml", "mine.yaml"):
        (readers_folder.path / name).write_text("seed_everything: 0\n")
    for block in blocks(README):
        readers_folder.take(block, run=False)


def test_its_five_minutes_are_run(readers_folder):
    assert {block.language for block in RUN} == {"python", "bash"}
    (readers_folder.path / "small.yaml").write_text(SMALL)
    for block in RUN:
        readers_folder.take(block, options=["--config", "small.yaml"])
    assert list((readers_folder.path / "runs").rglob("result.json"))


def test_the_files_that_it_names_are_there():
    for command in re.findall(r"^\$? ?gnn-depth (\w+)", TEXT, re.MULTILINE):
        assert command in COMMANDS
    for name in re.findall(r"\bconfigs/[\w/]+\.yaml\b", TEXT):
        assert (ROOT / name).is_file(), name


def test_the_guide_for_contributors_names_only_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:docs|tests|gnn_depth|configs|tools)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
