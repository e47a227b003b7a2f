"""Resident memory of this process, and its peak, as Linux counts them."""

import ctypes
import gc
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def status(name: str) -> int:
    """Bytes that a line such as ``VmHWM:  444024 kB`` of the status states."""
    for line in STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.removesuffix("kB")) * 1024
    raise ValueError(f"no {name} in the status of this process.")


def resident() -> int:
    return status("VmRSS")


def peak() -> int:
    return status("VmHWM")


def begin_peak() -> int:
    """Give back what is free, begin the peak anew, and return what is resident."""
    tidy()
    CLEAR.write_text("5")
    return resident()


def tidy() -> None:
    """Give back what is free, so that it is counted neither before nor after."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
