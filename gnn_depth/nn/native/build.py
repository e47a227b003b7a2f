"""Compile the kernels at their first use, and load them.

The sources lie beside this file. Each is compiled by itself, all at once, into the user's cache;
the name holds a hash of the source, the compiler, its flags and the processor, so a change of any
of them makes a new library. One process compiles at a time while others wait.

For machines without a compiler, ``python -m gnn_depth.nn.native.build x86-64-v3`` compiles them
ahead, for every processor of that level, into a folder that wheels take up.
"""

import argparse
import ctypes
import hashlib
import logging
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from filelock import FileLock

log = logging.getLogger("gnn_depth")

#: The one switch: ``off`` leaves everything to PyTorch.
SWITCH = "GNN_DEPTH_NATIVE"
SOURCES = Path(__file__).parent
COMPILERS = ("g++", "clang++")
FLAGS = (
    *("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC"),
    # Products and sums may be fused; nothing else changes what IEEE says of a number.
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
CPU_INFO = Path("/proc/cpuinfo")
#: Lines of /proc/cpuinfo that decide what -march=native means.
OF_CPU = ("vendor_id", "model name", "flags", "Features", "CPU part")
MOST_SECONDS = 300
#: Libraries that were compiled ahead.
AHEAD = SOURCES / "ahead"
AVX2 = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
#: Levels of processors that libraries can be compiled ahead for, the best first: what each demands,
#: in the words of /proc/cpuinfo.
LEVELS = {"x86-64-v4": {*AVX2, *AVX512}, "x86-64-v3": {*AVX2}}


class NoKernelsError(Exception):
    """Why there are no native kernels here."""


def families() -> list[str]:
    """The names of the source files, without their suffix."""
    return sorted(path.stem for path in SOURCES.glob("*.cpp"))


def cache_folder() -> Path:
    """The folder of compiled kernels, in the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "gnn_depth" / "native"


def is_switched_off() -> bool:
    """True if the user wants PyTorch alone."""
    return os.environ.get(SWITCH, "").lower() in ("0", "off", "false")


def load_kernels() -> tuple[str, list[ctypes.CDLL]]:
    """The libraries of all families, compiled if they are not in the cache, and their key.

    Raises:
        NoKernelsError: They are switched off, or cannot be built or loaded; the message says why.
    """
    if is_switched_off():
        raise NoKernelsError(f"{SWITCH} is off")
    folder, key = AHEAD, _key_of_ahead()
    if key is None:
        folder, key = cache_folder(), _compiled_here()
    # A whole library may still not load: from a folder that runs no code, or without OpenMP's.
    try:
        return key, [ctypes.CDLL(str(_library(folder, name, key))) for name in families()]
    except OSError as error:
        raise NoKernelsError(f"they cannot be loaded: {error}") from error


def _compiled_here() -> str:
    """The key of the libraries for this processor in the cache, compiled if they are missing."""
    compiler = _compiler()
    folder = cache_folder()
    key = _key(compiler)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            missing = [name for name in families() if not _is_whole(_library(folder, name, key))]
            if missing:
                log.info("compiling the native kernels, which takes a few seconds, once")
                _compile(compiler, folder, missing, key, "native")
    except OSError as error:
        raise NoKernelsError(f"the cache {folder} cannot be used: {error}") from error
    return key


def _key_of_ahead() -> str | None:
    """The key of libraries that were compiled ahead from these sources and run on this
    processor."""
    if not AHEAD.is_dir():
        return None
    flags: set[str] = set()
    for line in _processor():
        if line.startswith("flags"):
            flags.update(line.split())
    for level, demanded in LEVELS.items():
        key = f"{level}-{_hash_of_sources((level,))}"
        is_whole = all(_is_whole(_library(AHEAD, name, key)) for name in families())
        if is_whole and demanded <= flags:
            return key
    return None


def compile_ahead(level: str) -> list[Path]:
    """Compile the kernels for every processor of a level, into the folder that wheels take up.

    Args:
        level: ``x86-64-v3`` (AVX2) or ``x86-64-v4`` (AVX-512).

    Returns:
        The libraries.

    Raises:
        NoKernelsError: There is no compiler, or it fails.
    """
    AHEAD.mkdir(exist_ok=True)
    key = f"{level}-{_hash_of_sources((level,))}"
    _compile(_compiler(), AHEAD, families(), key, level)
    return [_library(AHEAD, name, key) for name in families()]


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
            [compiler, "--version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernelsError(f"{compiler} does not run: {error}") from error
    return _hash_of_sources((version, platform.machine(), *_processor()))


def _hash_of_sources(others: Sequence[str]) -> str:
    """A hash of the sources, the flags, and other texts."""
    found = hashlib.sha256()
    # Separated by zeros, so that no two lists of texts make one hash.
    for text in (*FLAGS, *others):
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


def _library(folder: Path, name: str, key: str) -> Path:
    return folder / f"{name}-{key}.so"


def _checksum(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _is_whole(library: Path) -> bool:
    """True if the library is there and has the checksum that it was written with."""
    checksum = _checksum(library)
    if not (library.is_file() and checksum.is_file()):
        return False
    return hashlib.sha256(library.read_bytes()).hexdigest() == checksum.read_text()


def _compile(compiler: str, folder: Path, names: list[str], key: str, processor: str) -> None:
    """Compile families at the same time; a library gets its name once it is complete."""
    flags = (*FLAGS, f"-march={processor}")
    # One process each, so several cores share the work.
    running = []
    for name in names:
        partial = folder / f"{name}-{key}.{os.getpid()}.tmp"
        command = [compiler, *flags, str(SOURCES / f"{name}.cpp"), "-o", str(partial)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        running.append((name, partial, process))
    failed = ""
    for name, partial, process in running:
        try:
            said, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        if process.returncode:
            said_first = said.decode(errors="replace").strip().partition("\n")[0]
            failed = said_first or f"{compiler} ended with {process.returncode}"
            partial.unlink(missing_ok=True)
            continue
        library = _library(folder, name, key)
        digest = hashlib.sha256(partial.read_bytes()).hexdigest()
        # The old library goes first, so that no moment has a library with a checksum of another.
        library.unlink(missing_ok=True)
        _checksum(library).write_text(digest)
        partial.replace(library)
    # Only now: the libraries that have become whole stay for the next attempt.
    if failed:
        raise NoKernelsError(f"{compiler} cannot compile them: {failed}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m gnn_depth.nn.native.build",
        description="Compile the kernels ahead, for a wheel: they run on every processor of a "
        "level, and need no compiler there.",
    )
    parser.add_argument("level", choices=LEVELS, help="x86-64-v3: AVX2; x86-64-v4: AVX-512")
    for library in compile_ahead(parser.parse_args().level):
        print(library)


if __name__ == "__main__":
    main()
