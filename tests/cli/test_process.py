"""What the command changes in its process, and that importing the package changes nothing."""

import ctypes
import os
import platform
import resource

import pytest
import torch

from gnn_depth.cli import process
from tests.processes import call_in_fresh_process

PAGES = 20 * 8_000_000 // os.sysconf("SC_PAGE_SIZE")


def changed() -> dict[str, list]:
    """What importing all modules of the package has changed in the server of processes, and so
    here."""
    from tests.imported import CHANGED, MEASURES

    assert MEASURES
    return CHANGED


# tests/training/test_module.py has a training from Python.
def test_importing_the_package_leaves_the_process_unchanged(tmp_path):
    assert call_in_fresh_process(tmp_path, changed) == {}


def fetched() -> int:
    """The number of pages fetched while twenty blocks of 8 MB are written, each freed before the
    next."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(2_000_000), torch.ones(2_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def fetched_when_configured_and_when_not() -> tuple[int, int]:
    # What the variable does when a process starts: MALLOC_MMAP_THRESHOLD_ is option -3.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"
    assert ctypes.CDLL(None).mallopt(-3, 131072)
    process.keep_freed_memory()
    fetched()
    configured = fetched()
    del os.environ["MALLOC_MMAP_THRESHOLD_"]
    process.keep_freed_memory()
    fetched()
    return configured, fetched()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
@pytest.mark.skipif(process.configures_malloc(os.environ), reason="malloc is configured")
def test_freed_pages_are_kept_unless_the_environment_configures_malloc(tmp_path):
    configured, kept = call_in_fresh_process(tmp_path, fetched_when_configured_and_when_not)
    assert configured > 1.5 * PAGES
    assert kept < PAGES / 10
