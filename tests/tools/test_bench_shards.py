"""The bench of one graph over several processes counts what is sent, and says what does not fit."""

import sys

import pytest

from tools.bench import shards


@pytest.mark.slow
def test_bytes_are_those_on_paper_and_what_does_not_fit_is_said(monkeypatch, capsys):
    sizes = [
        "--nodes",
        "40000",
        "--edges",
        "80000",
        "--width",
        "64",
        "--layers",
        "6",
        "--limit",
        "140",
    ]
    monkeypatch.setattr(sys, "argv", ["shards", *sizes, "--processes", "1", "4"])
    shards.main()
    *_, one, four = capsys.readouterr().out.splitlines()
    assert "out of memory" in one
    *_, sent, paper = four.split()
    assert float(sent) == float(paper) > 0
