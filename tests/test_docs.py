"""The documentation runs: every block of code of every page, in the order and the folder that a reader has."""

import pytest

from tests.pages import ROOT, blocks

PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_does_what_the_page_says(page, readers_folder):
    for block in blocks(page):
        readers_folder.take(block)
