"""Memory that a step has freed is kept for the next one."""

import ctypes
import os
from collections.abc import Mapping

#: A parameter of mallopt(3), and its value. Blocks up to 32 MB, the most that glibc allows, come from room of which
#: less than 2 GiB is ever given back: to fetch new pages for the tensors of every step takes up to a fifth of it.
KEEP = {"M_MMAP_THRESHOLD": (-3, 1 << 25), "M_TRIM_THRESHOLD": (-1, (1 << 31) - 1)}


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, unless the environment says something of malloc; other libraries do as ever."""
    if is_chosen(os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc, no symbols, Windows
        return
    for parameter, value in KEEP.values():
        mallopt(parameter, value)


def is_chosen(environment: Mapping[str, str]) -> bool:
    """Whether somebody has set something of malloc, or put another in its place."""
    return any(name.startswith("MALLOC_") for name in environment) or any(
        "malloc" in environment.get(name, "") for name in ("GLIBC_TUNABLES", "LD_PRELOAD")
    )
