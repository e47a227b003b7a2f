"""Published data files: downloaded completely or not at all, and read only if their checksum is right."""

import hashlib
import os
import shutil
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
# One line per download, "<sha256>  <file name>". A damaged file that we downloaded is set aside and fetched again;
# a user's own file is never touched.
RECORD = ".downloaded"
LOCK = ".lock"
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
    """A file whose content is known by its checksum.

    Attributes:
        path: Where it is stored, or will be.
        url: Where it is published.
    """

    path: Path
    url: str

    @property
    def checksums(self) -> list[str]:
        """The accepted checksums, in hex: SHA-256 of the content, or its blob id in the publisher's Git repository."""
        return CHECKSUMS[self.path.name]


class _InterruptedError(Exception):
    """A download that started and did not finish."""


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

    The bytes that are returned are the bytes that were checked, so the file cannot change in between.

    Raises:
        DataError: The file is missing and cannot be downloaded, or its checksum is wrong.
    """
    content = _read_local(file)
    return _fetch(file) if content is None else content


def _is_published(file: PublishedFile, content: bytes) -> bool:
    return sha256(content) in file.checksums or git_blob_id(content) in file.checksums


def _read_local(file: PublishedFile) -> bytes | None:
    """The content of a local file with the right checksum; None if it must be downloaded (again)."""
    try:
        content = file.path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"data file {str(file.path)!r} cannot be read: {error.strerror}.") from None
    if _is_published(file, content):
        return content
    if _was_downloaded(file.path):
        return None
    raise DataError(
        f"data file {str(file.path)!r} is damaged or is not the published one: its sha256 is {sha256(content)}, "
        f"expected {' or '.join(file.checksums)}.\n"
        f"It was not changed. Move it away to download it from {file.url}\n"
        f"Or set {ROOT_VARIABLE} or the option root to another folder."
    )


def _fetch(file: PublishedFile) -> bytes:
    """Download under a lock, so that of several processes one downloads and the others wait for its file."""
    folder = file.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            content = _read_local(file)
            if content is not None:
                return content
            if file.path.is_file():
                file.path.replace(_corrupt(file.path))
            return _download(file)
    except OSError as error:
        raise _unavailable(file, f"cannot be stored there: {error.strerror or error}") from None


def _download(file: PublishedFile) -> bytes:
    # The name is fixed, not random: the next holder of the lock overwrites what a killed process left.
    part = file.path.with_name(file.path.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _receive(file.url, part)
            break
        except _InterruptedError as error:
            if attempt == ATTEMPTS:
                part.unlink(missing_ok=True)
                raise _unavailable(file, f"its download was interrupted: {error}") from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            part.unlink(missing_ok=True)
            reason = getattr(error, "reason", None) or error
            raise _unavailable(file, f"cannot be downloaded: {reason}") from None
    content = part.read_bytes()
    if not _is_published(file, content):
        part.replace(_corrupt(file.path))
        raise DataError(
            f"{file.url} returned a file with sha256 {sha256(content)}, expected {' or '.join(file.checksums)}: "
            f"it was changed in transit or by its publisher.\n"
            f"It was kept as {str(_corrupt(file.path))!r} and is not used."
        )
    part.replace(file.path)
    with (file.path.parent / RECORD).open("a") as record:
        record.write(f"{sha256(content)}  {file.path.name}\n")
    return content


def _receive(url: str, part: Path) -> None:
    """Write all of ``url`` to the file ``part`` and flush it to disk."""
    with open_url(url) as response, part.open("wb") as out:
        try:
            shutil.copyfileobj(response, out)
        except (HTTPException, TimeoutError, ConnectionError) as error:
            raise _InterruptedError(str(error) or type(error).__name__) from None
        size = out.tell()
        out.flush()
        os.fsync(out.fileno())
    expected = response.headers.get("Content-Length")
    if expected is not None and size != int(expected):
        raise _InterruptedError(f"received {size} of {expected} bytes")


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Refuses redirections to another scheme, such as from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise urllib.error.URLError(f"redirected to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str) -> Any:
    """Open an address like a file. Certificates are verified, and no redirection may leave https.

    Raises:
        OSError, HTTPException: The address cannot be opened.
    """
    # The context is explicit because some programs replace urllib's default one with one that verifies nothing.
    verifying = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(verifying, _SameScheme).open(url, timeout=TIMEOUT_SECONDS)


def _was_downloaded(path: Path) -> bool:
    """True for a file that we downloaded, False for a user's own file."""
    try:
        lines = (path.parent / RECORD).read_text().splitlines()
    except OSError:
        return False
    return any(line.partition("  ")[2] == path.name for line in lines)


def _corrupt(path: Path) -> Path:
    return path.with_name(path.name + ".corrupt")


def _unavailable(file: PublishedFile, reason: str) -> DataError:
    return DataError(
        f"data file {str(file.path)!r} does not exist and {reason}.\n"
        f"It is published at {file.url}\n"
        f"Put it there by hand, or set {ROOT_VARIABLE} or the option root to a folder that has the data."
    )
