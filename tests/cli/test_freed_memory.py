"""Memory that a step has freed is kept for the next one."""

import os
import platform
import subprocess
import sys

import pytest

from gnn_depth.cli.freed_memory import is_chosen

# How many pages are fetched while twenty blocks of 8 MB are written, each freed before the next.
COUNT = """
import resource
import torch
from gnn_depth.cli.freed_memory import keep_freed_memory

def fetched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(2_000_000), torch.ones(2_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
fetched()
print(fetched())
"""
on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
PAGES = 20 * 8_000_000 // os.sysconf("SC_PAGE_SIZE")  # of the twenty blocks


def said_by(code, **environment):
    clean = {name: value for name, value in os.environ.items() if not is_chosen({name: value})}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True)
    return list(map(int, done.stdout.split()))


@on_glibc
def test_pages_are_fetched_once():
    (fetched,) = said_by(COUNT)
    assert fetched < PAGES / 10


@on_glibc
def test_what_the_environment_says_stays():
    (fetched,) = said_by(COUNT, MALLOC_MMAP_THRESHOLD_="131072")
    assert fetched > 1.5 * PAGES


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, False),
        ({"PATH": "/usr/bin", "LD_PRELOAD": "libfakeroot.so"}, False),
        ({"MALLOC_ARENA_MAX": "2"}, True),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"}, True),
        ({"GLIBC_TUNABLES": "glibc.cpu.x86_shstk=on"}, False),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, True),
    ],
)
def test_another_malloc_or_its_settings_are_somebodys_choice(environment, chosen):
    assert is_chosen(environment) is chosen


@pytest.mark.parametrize(
    ("words", "keep"),
    [([], True), (["--model.checkpoint_every=1"], False), (["--model.reversible=2", "--model.skip=residual"], False)],
    ids=["fast", "checkpoints", "reversible"],
)
def test_a_training_keeps_it_unless_the_stack_is_to_take_little(monkeypatch, tmp_path, words, keep):
    from gnn_depth.cli import main, run

    said = []
    monkeypatch.setattr(run, "keep_freed_memory", lambda: said.append(True))
    data = ["--data=SyntheticCitation", "--data.num_nodes=60", "--data.num_features=8", "--data.num_edges=90"]
    data += ["--data.num_train_per_class=2", "--data.num_val=10", "--data.num_test=10"]
    rest = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", f"--run.root={tmp_path}"]
    assert main(["fit", *data, *rest, "--model.hidden_channels=8", *words]) == 0
    assert bool(said) is keep
