"""Resident memory of this process, and its peak."""

import ctypes
import gc
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WARM_UP, STEPS = 2, 3
PAGE_TEST = 100_000_000  # bytes, more than any default threshold


@dataclass(frozen=True)
class Peak:
    """Bytes above what was resident before the model was made.

    Attributes:
        steps: While warm steps ran.
        first: From making the model on, with compiling.
        reset: Whether the peak could be begun anew for the warm steps; else they show that of
            compiling too.
    """

    steps: int
    first: int
    reset: bool


def peak_of(make: Callable[[], Callable[[], object]]) -> Peak:
    """Peaks of making a step, warming it up and running it."""
    tidy()
    base = resident()
    reset_peak()
    step = make()
    for _ in range(WARM_UP):
        step()
    first = peak() - base
    tidy()  # what compiling took is no part of a step
    reset = reset_peak()
    for _ in range(STEPS):
        step()
    steps = peak() - base
    return Peak(steps, max(first, steps), reset)


def field(status: str, name: str) -> int:
    """Bytes that a line such as ``VmHWM:  444024 kB`` of /proc/self/status states.

    Raises:
        ValueError: There is no such line.
    """
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.removesuffix("kB")) * 1024
    raise ValueError(f"no {name} in the status of this process.")


def resident() -> int:
    return _now("VmRSS")


def peak() -> int:
    return _now("VmHWM")


def _now(name: str) -> int:
    if STATUS.exists():
        return field(STATUS.read_text(), name)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # the largest ever


def reset_peak() -> bool:
    """Begin the peak anew; False where the system cannot."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def tidy() -> None:
    """Give back what is free, so that it is counted neither before nor after."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def keeps_freed_pages() -> bool:
    """Whether large tensors reuse the pages of freed ones, as the tuned malloc has it.

    One of several does at least: an aligned block does not always fit where one of its size has
    been.
    """
    faults = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(PAGE_TEST, dtype=torch.uint8)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(faults) < 100
