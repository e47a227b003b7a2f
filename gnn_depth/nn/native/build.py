"""Compile the kernels at their first use, and load them.

The sources lie beside this file. Each is compiled by itself, all at once, into the user's cache;
the name holds a hash of the source, the compiler, its flags and the processor, so a change of any
of them makes a new library. One process compiles at a time while others wait.
"""

import ctypes
import hashlib
import logging
import os
import platform
import signal
import subprocess
import time
from pathlib import Path
from shutil import which

from filelock import FileLock

log = logging.getLogger("gnn_depth")

#: The one switch: ``off`` leaves everything to PyTorch.
SWITCH = "GNN_DEPTH_NATIVE"
SOURCES = Path(__file__).parent
COMPILERS = ("g++", "clang++")
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    # Products and sums may be fused; nothing else changes what IEEE says of a number.
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
CPU_INFO = Path("/proc/cpuinfo")
#: Lines of /proc/cpuinfo that decide what -march=native means.
OF_CPU = ("vendor_id", "model name", "flags", "Features", "CPU part")
#: A compiler that has not ended by then is stopped.
MOST_SECONDS = 180


class NoKernelsError(Exception):
    """Why there are no native kernels here."""


def families() -> list[str]:
    """The names of the source files, without their suffix."""
    return sorted(path.stem for path in SOURCES.glob("*.cpp"))


def is_switched_off() -> bool:
    """True if the user wants PyTorch alone."""
    return os.environ.get(SWITCH, "").lower() in ("0", "off", "false")


def load_kernels() -> tuple[str, list[ctypes.CDLL]]:
    """The libraries of all families, compiled if they are not in the cache, and their key.

    Raises:
        NoKernelsError: They cannot be built or loaded; the message says why.
    """
    compiler = _compiler()
    caches = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")  # the user's
    folder = Path(caches) / "gnn_depth" / "native"
    key = _key(compiler)
    libraries = [folder / f"{name}-{key}.so" for name in families()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=2 * MOST_SECONDS):
            missing = [library for library in libraries if not _is_whole(library)]
            if missing:
                log.info("compiling the native kernels, which takes a few seconds, once")
                _compile(compiler, missing)
        # A whole one may still not load: from a folder that runs no code, or without OpenMP's.
        return key, [ctypes.CDLL(str(library)) for library in libraries]
    except OSError as error:
        raise NoKernelsError(f"the cache {folder} cannot be used: {error}") from error


def _compiler() -> str:
    """The C++ compiler, chosen as torch's own compiler does."""
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        found = which(name)
        if found:
            return found
    raise NoKernelsError(f"no C++ compiler was found ({', '.join(COMPILERS)})")


def _key(compiler: str) -> str:
    """A hash of everything that the compiled code depends on."""
    try:
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernelsError(f"{compiler} does not run: {error}") from error
    found = hashlib.sha256()
    # Separated by zeros, so that no two lists of texts make one hash.
    for text in (*FLAGS, version, platform.machine(), *_processor()):
        found.update(f"{text}\0".encode())
    for path in sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp")]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _processor() -> list[str]:
    """The lines of /proc/cpuinfo on the first core; none where there is no such file."""
    if not CPU_INFO.is_file():
        return []
    found = []
    # Stop after the first core: the file lists every one, and reading it queries each.
    with CPU_INFO.open() as lines:
        for line in lines:
            if not line.strip():
                break
            if line.startswith(OF_CPU):
                found.append(line.strip())
    return found


def _is_whole(library: Path) -> bool:
    """True if the library is there and has the checksum that it was written with."""
    checksum = library.with_suffix(".sha256")
    if not (library.is_file() and checksum.is_file()):
        return False
    # As bytes: a damaged checksum need not be a text.
    return hashlib.sha256(library.read_bytes()).hexdigest().encode() == checksum.read_bytes()


def _compile(compiler: str, libraries: list[Path]) -> None:
    """Compile families at the same time; a library gets its name once it is complete."""
    # One process each, so several cores share the work.
    running = []
    for library in libraries:
        partial = library.with_suffix(f".{os.getpid()}.tmp")
        source = SOURCES / f"{library.stem.partition('-')[0]}.cpp"
        said = partial.with_suffix(".log")
        # Not into a pipe, which processes that the compiler starts may hold open; and in a group of
        # its own, so that all of them can be stopped.
        with said.open("wb") as log_file:
            process = subprocess.Popen(
                [compiler, *FLAGS, str(source), "-o", str(partial)],
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )
        running.append((library, partial, process, said))
    failed = ""
    deadline = time.monotonic() + MOST_SECONDS
    for library, partial, process, said in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said.write_text(f"it had not ended after {MOST_SECONDS} seconds")
        first = said.read_text(errors="replace").strip().partition("\n")[0]
        said.unlink()
        if process.returncode:
            failed = first or f"{compiler} ended with {process.returncode}"
            partial.unlink(missing_ok=True)
            continue
        digest = hashlib.sha256(partial.read_bytes()).hexdigest()
        # The old library goes first, so that no moment has a library with a checksum of another.
        library.unlink(missing_ok=True)
        library.with_suffix(".sha256").write_text(digest)
        partial.replace(library)
    # Only now: the libraries that have become whole stay for the next attempt.
    if failed:
        raise NoKernelsError(f"{compiler} cannot compile them: {failed}")
