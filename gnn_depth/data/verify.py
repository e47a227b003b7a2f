"""Files of published data: found, downloaded whole or not at all, and read only when their checksum is right."""

import hashlib
import os
import shutil
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from gnn_depth.data.checks import DataError

ROOT_VARIABLE = "GNN_DEPTH_DATA"
# Beside what was downloaded: "<sha256>  <file name>" a line. Tells our files, which may be set aside and fetched
# again, from a user's own, and notices later damage to files whose publisher's checksum is unknown.
RECORD = ".downloaded"
LOCK = ".lock"
ATTEMPTS = 2
# Of a silent connection; a slow one may take as long as it needs.
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class DataFile:
    """A published file.

    Attributes:
        path: Where it is, or is to be.
        url: Where it is published.
        sha256: Its accepted checksums; none where the published one is not known.
    """

    path: Path
    url: str
    sha256: tuple[str, ...] = ()


class _InterruptedError(Exception):
    """A download that began and did not come to its end."""


def resolve_root(root: str | None) -> Path:
    """Where data lies: ``root``, else $GNN_DEPTH_DATA, else gnn_depth in the user's cache folder."""
    given = root or os.environ.get(ROOT_VARIABLE)
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gnn_depth"


def sha256(content: bytes) -> str:
    """Checksum of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def read_verified(file: DataFile) -> bytes:
    """The content of a published file, downloaded first where it is not there.

    The checksum is taken of the very bytes that are returned, so nothing can change between the check and the use.

    Raises:
        DataError: The file is not there and cannot be fetched, or it is not the published one.
    """
    content = _present(file)
    return _fetch(file) if content is None else content


def _present(file: DataFile) -> bytes | None:
    """The content of a file that is there and right; None where it is to be fetched (again)."""
    try:
        content = file.path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"data file {str(file.path)!r} cannot be read: {error.strerror}.") from None
    found, recorded = sha256(content), _recorded(file.path)
    accepted = file.sha256 or ((recorded,) if recorded else ())
    if not accepted or found in accepted:
        return content
    if recorded:
        return None
    raise DataError(
        f"data file {str(file.path)!r} is not the published one, or is damaged: its sha256 is {found}, "
        f"not {' or '.join(accepted)}.\n"
        f"It was left as it is. Move it away, and it will be downloaded from {file.url}\n"
        f"Or point {ROOT_VARIABLE} or the option root at another folder."
    )


def _fetch(file: DataFile) -> bytes:
    """Download under a lock, so that of several processes one downloads and the others wait for its file."""
    folder = file.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            content = _present(file)
            if content is not None:
                return content
            if file.path.is_file():
                file.path.replace(_corrupt(file.path))
            return _download(file)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{_missing(file)}, and cannot be put there: {reason}.\n{_advice(file)}") from None


def _download(file: DataFile) -> bytes:
    # The name is fixed, not random: what a killed process left is overwritten by the next one that holds the lock.
    part = file.path.with_name(file.path.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _receive(file.url, part)
            break
        except _InterruptedError as error:
            if attempt == ATTEMPTS:
                part.unlink(missing_ok=True)
                raise DataError(f"{_missing(file)}, and its download broke off: {error}.\n{_advice(file)}") from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            part.unlink(missing_ok=True)
            reason = getattr(error, "reason", None) or error
            raise DataError(f"{_missing(file)}, and cannot be fetched: {reason}.\n{_advice(file)}") from None
    content = part.read_bytes()
    found = sha256(content)
    if file.sha256 and found not in file.sha256:
        part.replace(_corrupt(file.path))
        raise DataError(
            f"{file.url} gave a file with sha256 {found}, not {' or '.join(file.sha256)}: it was changed on its way "
            f"or by its publisher.\nIt was kept as {str(_corrupt(file.path))!r} and is not used."
        )
    part.replace(file.path)
    with (file.path.parent / RECORD).open("a") as record:
        record.write(f"{found}  {file.path.name}\n")
    return content


def _receive(url: str, part: Path) -> None:
    """Write what ``url`` gives to ``part``, all of it and to the disk."""
    with open_url(url) as response, part.open("wb") as out:
        try:
            shutil.copyfileobj(response, out)
        except (HTTPException, TimeoutError, ConnectionError) as error:
            raise _InterruptedError(str(error) or type(error).__name__) from None
        size = out.tell()
        out.flush()
        os.fsync(out.fileno())
    wanted = response.headers.get("Content-Length")
    if wanted is not None and size != int(wanted):
        raise _InterruptedError(f"{size} of {wanted} bytes came")


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows no redirection that leaves https, not even on its way to https again."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise urllib.error.URLError(f"redirected to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str) -> Any:
    """Open an address as a file. Certificates of https are verified, and no redirection may leave https.

    Raises:
        OSError, HTTPException: It cannot be had.
    """
    # Named, since programs are about that replace what urllib takes by default with one that verifies nothing.
    verifying = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(verifying, _SameScheme).open(url, timeout=TIMEOUT_SECONDS)


def _recorded(path: Path) -> str | None:
    """Checksum that the file had when it was downloaded by us, or None for a user's own file."""
    try:
        lines = (path.parent / RECORD).read_text().splitlines()
    except OSError:
        return None
    known = [checksum for checksum, _, name in (line.partition("  ") for line in lines) if name == path.name]
    return known[-1] if known else None


def _corrupt(path: Path) -> Path:
    return path.with_name(path.name + ".corrupt")


def _missing(file: DataFile) -> str:
    return f"data file {str(file.path)!r} is not there"


def _advice(file: DataFile) -> str:
    return (
        f"It is published at {file.url}\n"
        f"Put it there by hand, or point {ROOT_VARIABLE} or the option root at a folder that has the data."
    )
