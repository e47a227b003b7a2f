"""Reading the memory of a process."""

import pytest

from tools.bench.children import TUNED, environment
from tools.bench.depth import budget, render
from tools.bench.memory import field

STATUS = "Name:\tpython\nVmPeak:\t 1000000 kB\nVmHWM:\t  444024 kB\nVmRSS:\t    1024 kB\nThreads:\t2\n"


def test_a_line_of_the_status_is_read_in_bytes():
    assert field(STATUS, "VmHWM") == 444024 * 1024
    assert field(STATUS, "VmRSS") == 1024 * 1024


def test_a_missing_line_is_an_error():
    with pytest.raises(ValueError, match="no VmSwap"):
        field(STATUS, "VmSwap")


def test_a_child_has_the_malloc_that_is_asked_for_and_no_other(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    default, tuned = environment("default"), environment("tuned")
    assert not any(name.startswith("MALLOC_") for name in default)
    assert tuned == default | TUNED
    assert default["OMP_NUM_THREADS"] == "2"


def of_depth(layers, gib):
    sizes = {"above": 300 * 2**20, "process": int(gib * 2**30)}
    return {"layers": layers, "way": "reversible 2", "seconds": 0.5, "losses": [1.9, 1.25], **sizes}


def test_the_budget_of_a_thousand_layers_is_said_to_be_met_or_not():
    assert budget(of_depth(256, 1.0)) is None
    assert budget(of_depth(1000, 1.5)) == ("1000 layers, reversible 2: 1.50 GiB for the whole process, budget 2: met")
    assert budget(of_depth(1000, 2.5)).endswith("2.50 GiB for the whole process, budget 2: not met")


def test_memory_against_depth_is_a_line_a_measurement():
    table, _, verdict = render([of_depth(16, 1.0), of_depth(1024, 1.0)]).rpartition("\n\n")
    assert table.splitlines()[2].split("|")[1:-1] == [
        " 16     ",
        " reversible 2 ",
        " 300                  ",
        " 1,024               ",
        " 500     ",
        " 1.90, 1.25         ",
    ]
    assert len(table.splitlines()) == 4
    assert verdict.startswith("1024 layers")
