"""Published data files: downloaded completely or not at all, and read only if their checksum is
right."""

import hashlib
import io
import os
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from gnn_depth.data.checks import DataError

ROOT_VARIABLE = "GNN_DEPTH_DATA"
TIMEOUT_SECONDS = 30  # without any data; a slow connection has no other limit


def _read_checksums() -> dict[str, list[str]]:
    """The accepted checksums of each published file, by its name: SHA-256, or the blob id in the
    publisher's repository."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("checksums.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            checksum, name = line.split()
            found.setdefault(name, []).append(checksum)
    return found


CHECKSUMS = _read_checksums()


def resolve_root(root: str | None) -> Path:
    """The data folder: ``root``, else $GNN_DEPTH_DATA, else gnn_depth in the user's cache
    folder."""
    given = root or os.environ.get(ROOT_VARIABLE)
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gnn_depth"


def sha256(content: bytes) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def git_blob_id(content: bytes) -> str:
    """The id that Git gives a file with this content, in hex."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def read_verified(path: Path, url: str) -> bytes:
    """The content of a published file, downloaded to ``path`` first if it is missing.

    The bytes that are returned are the bytes that were checked, so the file cannot change in
    between. Of several processes one downloads, and the others wait for its file.

    Raises:
        DataError: The file is missing and cannot be downloaded, or its checksum is wrong.
    """
    try:
        # Without the lock first: a folder of data may be read-only.
        content = _read_local(path, url)
        if content is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.parent / ".lock"):
                # Another process may have downloaded it meanwhile.
                content = _read_local(path, url) or _download(path, url)
        return content
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise DataError(
            f"data file {str(path)!r} cannot be read or downloaded: {reason}.\n"
            f"It is published at {url}\n"
            f"Put it there by hand, or set {ROOT_VARIABLE} or the option root to a folder that has "
            "the data."
        ) from None


def read_npz(path: Path, url: str) -> Any:
    """The arrays of a published ``.npz`` file by name: see :func:`read_verified`."""
    return np.load(io.BytesIO(read_verified(path, url)), allow_pickle=False)


def _wrong_checksum(path: Path, content: bytes) -> str | None:
    """The checksum of a content and those that are expected, unless it is one of them."""
    expected = CHECKSUMS[path.name]
    if not {sha256(content), git_blob_id(content)}.isdisjoint(expected):
        return None
    return f"sha256 {sha256(content)}, expected {' or '.join(expected)}"


def _read_local(path: Path, url: str) -> bytes | None:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    wrong = _wrong_checksum(path, content)
    if wrong is not None:
        raise DataError(
            f"data file {str(path)!r} is damaged or is not the published one: it has {wrong}.\n"
            f"It was not changed. Move it away to download it from {url}\n"
            f"Or set {ROOT_VARIABLE} or the option root to another folder."
        )
    return content


def _download(path: Path, url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        content = response.read()
    wrong = _wrong_checksum(path, content)
    if wrong is not None:
        raise DataError(
            f"{url} returned a file with {wrong}: it was changed in transit or by its publisher, "
            "and is not used."
        )
    # The name is fixed, not random: the next holder of the lock overwrites what a killed process
    # left.
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)
    return content
