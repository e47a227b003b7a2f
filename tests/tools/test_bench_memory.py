"""Reading the memory of a process."""

import pytest

from tools.bench.children import TUNED, environment
from tools.bench.memory import field

STATUS = "Name:\tpython\nVmPeak:\t 1000000 kB\nVmHWM:\t  444024 kB\nVmRSS:\t    1024 kB\nThreads:\t2\n"


def test_a_line_of_the_status_is_read_in_bytes():
    assert field(STATUS, "VmHWM") == 444024 * 1024
    assert field(STATUS, "VmRSS") == 1024 * 1024
    with pytest.raises(ValueError, match="no VmSwap"):
        field(STATUS, "VmSwap")


def test_a_child_has_the_malloc_that_is_asked_for_and_no_other(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    default, tuned = environment("default"), environment("tuned")
    assert not any(name.startswith("MALLOC_") for name in default)
    assert tuned == default | TUNED
    assert default["OMP_NUM_THREADS"] == "2"
