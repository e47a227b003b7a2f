"""Memory that a step has freed is kept for the next one."""

import ctypes
import os
from collections.abc import Callable, Mapping

#: Parameters of mallopt(3): M_MMAP_THRESHOLD and M_TRIM_THRESHOLD. Blocks up to 32 MB, the most that glibc allows, come
#: from room of which up to 2 GiB stay: to fetch new pages for the tensors of every step takes up to a fifth of it.
KEEP = {-3: 1 << 25, -1: (1 << 31) - 1}


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, unless the environment says something of malloc; other libraries do as ever."""
    mallopt = None if is_chosen(os.environ) else _of_glibc("mallopt")
    if mallopt is not None:
        for parameter, value in KEEP.items():
            mallopt(parameter, value)


def is_chosen(environment: Mapping[str, str]) -> bool:
    """Whether somebody has set something of malloc, or put another in its place."""
    return any(name.startswith("MALLOC_") for name in environment) or any(
        "malloc" in environment.get(name, "") for name in ("GLIBC_TUNABLES", "LD_PRELOAD")
    )


def _of_glibc(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another library, no symbols, Windows
        return None
    return function
