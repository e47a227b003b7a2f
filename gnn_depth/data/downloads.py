"""Published data files: downloaded completely or not at all, and read only if their checksum is right."""

import hashlib
import os
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock

from gnn_depth.data.checks import DataError

ROOT_VARIABLE = "GNN_DEPTH_DATA"
ATTEMPTS = 2
TIMEOUT_SECONDS = 30  # without any data; a slow connection has no other limit


def _read_checksums() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("checksums.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            checksum, name = line.split()
            table.setdefault(name, []).append(checksum)
    return table


#: The accepted checksums of each published file, by its name.
CHECKSUMS = _read_checksums()


class PublishedFile(NamedTuple):
    """A file whose content is known by its checksum."""

    path: Path  # where it is stored, or will be
    url: str  # where it is published

    def is_published(self, content: bytes) -> bool:
        """True if this is its content, by SHA-256 or by the blob id in the publisher's Git repository."""
        return not {sha256(content), git_blob_id(content)}.isdisjoint(CHECKSUMS[self.path.name])

    @property
    def expected(self) -> str:
        """The accepted checksums, for messages."""
        return " or ".join(CHECKSUMS[self.path.name])


def resolve_root(root: str | None) -> Path:
    """The data folder: ``root``, else $GNN_DEPTH_DATA, else gnn_depth in the user's cache folder."""
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


def read_verified(file: PublishedFile) -> bytes:
    """The content of a published file, downloaded first if it is missing.

    The bytes that are returned are the bytes that were checked, so the file cannot change in between. Of several
    processes one downloads, and the others wait for its file.

    Raises:
        DataError: The file is missing and cannot be downloaded, or its checksum is wrong.
    """
    content = _read_local(file)
    if content is not None:
        return content
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.path.parent / ".lock"):
            content = _read_local(file)
            return _download(file) if content is None else content
    except OSError as error:
        raise _unavailable(file, f"cannot be stored there: {error.strerror or error}") from None


def _read_local(file: PublishedFile) -> bytes | None:
    """The content of a local file with the right checksum; None if there is no file."""
    try:
        content = file.path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"data file {str(file.path)!r} cannot be read: {error.strerror}.") from None
    if file.is_published(content):
        return content
    raise DataError(
        f"data file {str(file.path)!r} is damaged or is not the published one: its sha256 is {sha256(content)}, "
        f"expected {file.expected}.\n"
        f"It was not changed. Move it away to download it from {file.url}\n"
        f"Or set {ROOT_VARIABLE} or the option root to another folder."
    )


def _download(file: PublishedFile) -> bytes:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with open_url(file.url) as response:
                content = response.read()
            break
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            if attempt == ATTEMPTS:
                reason = getattr(error, "reason", None) or error
                raise _unavailable(file, f"cannot be downloaded: {reason}") from None
    if not file.is_published(content):
        corrupt = file.path.with_name(f"{file.path.name}.corrupt")
        corrupt.write_bytes(content)
        raise DataError(
            f"{file.url} returned a file with sha256 {sha256(content)}, expected {file.expected}: it was changed in "
            f"transit or by its publisher.\nIt was kept as {str(corrupt)!r} and is not used."
        )
    # The name is fixed, not random: the next holder of the lock overwrites what a killed process left.
    part = file.path.with_name(f"{file.path.name}.part")
    with part.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file.path)
    return content


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Refuses redirections to another scheme, such as from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise urllib.error.URLError(f"redirected to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str) -> Any:
    """Open an address like a file. Certificates are verified, and no redirection may leave https."""
    # The context is explicit because some programs replace urllib's default one with one that verifies nothing.
    verifying = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(verifying, _SameScheme).open(url, timeout=TIMEOUT_SECONDS)


def _unavailable(file: PublishedFile, reason: str) -> DataError:
    return DataError(
        f"data file {str(file.path)!r} does not exist and {reason}.\n"
        f"It is published at {file.url}\n"
        f"Put it there by hand, or set {ROOT_VARIABLE} or the option root to a folder that has the data."
    )
