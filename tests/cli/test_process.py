"""What the command changes in its process, and that importing the package changes nothing."""

import os
import platform
import subprocess
import sys

import pytest

from gnn_depth.cli import main, process
from tests.cli.conftest import SHORT

# The number of pages fetched while twenty blocks of 8 MB are written, each freed before the next.
COUNT = """
import os
import resource
import torch
from gnn_depth.cli.process import keep_freed_memory

def fetched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(2_000_000), torch.ones(2_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
fetched()
configured = fetched()
del os.environ["MALLOC_MMAP_THRESHOLD_"]
keep_freed_memory()
fetched()
print(configured, fetched())
"""
PAGES = 20 * 8_000_000 // os.sysconf("SC_PAGE_SIZE")
# Importing everything, between two looks at the process. What libraries change is done first.
# tests/training/test_module.py has a training from Python.
SCRIPT = """
import os, signal, sys, threading, warnings
import argcomplete, lightning, pandas, torch, torch.utils.tensorboard, torch_geometric, tqdm
import lightning.pytorch.cli, matplotlib.pyplot, torch._inductor.config, torchmetrics

def state():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return dict(os.environ), threading.excepthook, sys.excepthook, handlers, warnings.filters[:], warnings.showwarning

before = state()
import importlib, pkgutil, gnn_depth
assert gnn_depth.diagnostics.MEASURES, "known without an import of their own"
for module in pkgutil.walk_packages(gnn_depth.__path__, "gnn_depth."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
names = ("environ", "threading.excepthook", "sys.excepthook", "signal handlers", "warnings.filters", "showwarning")
for name, old, new in zip(names, before, state()):
    if old != new:
        print(name, [one for one in new if one not in old])
"""


def printed_by(script: str, **environment: str) -> str:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not process.configures_malloc({name: value})
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=clean | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """What one process prints that runs both programs: each import of torch takes seconds."""
    return printed_by(SCRIPT + COUNT, MALLOC_MMAP_THRESHOLD_="131072").splitlines()


def test_importing_the_package_leaves_the_process_unchanged(printed):
    assert len(printed) == 1, printed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_freed_pages_are_kept_unless_the_environment_configures_malloc(printed):
    configured, kept = map(int, printed[-1].split())
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
