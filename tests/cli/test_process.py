"""What the command changes in its process, and that importing the package changes nothing."""

import ctypes
import os
import platform
import resource

import pytest
import torch

from gnn_depth.cli import main, process
from tests.cli.conftest import SHORT
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


@pytest.mark.parametrize(
    ("environment", "configured"),
    [
        ({}, False),
        (
            {
                "PATH": "/usr/bin",
                "LD_PRELOAD": "libfakeroot.so",
                "GLIBC_TUNABLES": "glibc.cpu.x86_shstk=on",
            },
            False,
        ),
        ({"MALLOC_ARENA_MAX": "2"}, True),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"}, True),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, True),
    ],
)
def test_a_malloc_that_the_user_configured_is_left_alone(environment, configured):
    assert process.configures_malloc(environment) is configured


@pytest.mark.parametrize(
    ("words", "keeps"),
    [
        ([], True),
        (["--model.checkpoint_every=1"], False),
        (["--model.reversible=2", "--model.skip=residual"], False),
    ],
    ids=["fast", "checkpoints", "reversible"],
)
def test_training_keeps_freed_memory_unless_the_model_is_to_use_little(
    monkeypatch, tmp_path, words, keeps
):
    called = []
    monkeypatch.setattr(process, "keep_freed_memory", lambda: called.append(True))
    assert main(["fit", *SHORT, "--trainer.max_epochs=1", f"--run.root={tmp_path}", *words]) == 0
    assert bool(called) is keeps
