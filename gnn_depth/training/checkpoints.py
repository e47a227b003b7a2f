"""Checkpoint files: written atomically, verified by checksum, read without running code; the previous one is kept."""

import contextlib
import hashlib
import io
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.utilities import rank_zero_warn

CHUNK = 2**20
DIGEST = re.compile(r"[0-9a-f]{64}\b")


class CheckpointError(OSError):
    """A checkpoint cannot be written or read."""


class DamagedError(CheckpointError):
    """A file is damaged or not a checkpoint."""


class VerifiedCheckpoints(TorchCheckpointIO):
    """Write and read all checkpoints of a training, including those of a user's ``ModelCheckpoint``.

    ``last.ckpt.sha256`` stands beside ``last.ckpt``, in the format of ``sha256sum --check``. The previous file of the
    same name is kept as ``last-1.ckpt``. Whenever the process or the machine dies, at least one of the two is whole,
    and no checksum stands beside a file that it does not belong to. Reading never runs code.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any = None) -> None:
        """Write a checkpoint.

        Raises:
            CheckpointError: It cannot be written. The previous file is still there.
        """
        if "://" in str(path):  # not on a local disk
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _replace(Path(path), _serialise(checkpoint))
        except OSError as error:
            why = str(error) if isinstance(error, CheckpointError) else f"cannot be written ({error.strerror or error})"
            raise CheckpointError(f"the checkpoint {path} {why}; what was saved before is intact.") from error

    def load_checkpoint(self, path: _PATH, map_location: Any = "cpu", weights_only: bool | None = None) -> Any:
        """Read a checkpoint as data only, for any value of ``weights_only``.

        Raises:
            CheckpointError: It is damaged, or contains more than data.
        """
        if "://" in str(path):
            return super().load_checkpoint(path, weights_only=True)
        return read_checkpoint(Path(path), map_location)

    def remove_checkpoint(self, path: _PATH) -> None:
        """Remove a checkpoint, its checksum and the previous file of its name."""
        super().remove_checkpoint(path)
        if "://" not in str(path):
            earlier = previous_of(Path(path))
            for file in (checksum_file(Path(path)), earlier, checksum_file(earlier)):
                file.unlink(missing_ok=True)


def checksum_file(path: Path) -> Path:
    """Path of the file with a checkpoint's SHA-256."""
    return path.with_name(f"{path.name}.sha256")


def previous_of(path: Path) -> Path:
    """Path under which the previous checkpoint of this name is kept."""
    return path.with_name(f"{path.stem}-1{path.suffix}")


def read_checkpoint(path: Path, map_location: Any = "cpu") -> Any:
    """Verify and read a checkpoint as data; nothing in it is run.

    Raises:
        DamagedError: It is not what was written, or not a checkpoint.
        OSError: It cannot be read.
    """
    verify_checkpoint(path)
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:  # torch advises to load it unsafely
        raise DamagedError(f"it is not a checkpoint, or holds more than data ({type(error).__name__})") from error


def verify_checkpoint(path: Path) -> None:
    """Compare a file with its SHA-256 or, without one, with the CRC-32 checksums inside it.

    Raises:
        DamagedError: They differ.
        OSError: It cannot be read.
    """
    if recorded := _recorded_digest(path):
        if (found := _sha256(path)) != recorded:
            raise DamagedError(f"its SHA-256 is {found[:8]}..., and {checksum_file(path).name} says {recorded[:8]}...")
        return
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load does not look at these checksums
            damaged = archive.testzip()
    except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: a flipped flag says compressed or encrypted
        raise DamagedError("it is not a checkpoint, or only a part of one") from error
    if damaged:
        raise DamagedError(f"{damaged} in it does not match its checksum")


def sync_folder(folder: Path) -> None:
    """Flush a folder's file names to the disk, on systems that can; until then a crash may bring older ones back."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _recorded_digest(path: Path) -> str:
    """The checksum beside a file; empty if there is none, or if a power cut left its file empty."""
    beside = checksum_file(path)
    found = DIGEST.match(beside.read_text(encoding="ascii", errors="replace")) if beside.is_file() else None
    return found[0] if found else ""


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()


def _serialise(checkpoint: dict[str, Any]) -> bytes:
    """A checkpoint as bytes that can be read as data; callback states that cannot are left out with a warning.

    Raises:
        CheckpointError: Something else in it cannot be read as data.
    """
    content = _to_bytes(checkpoint)
    if _why_unreadable(content):
        states = checkpoint.get("callbacks", {})
        for name in [name for name, state in states.items() if _why_unreadable(_to_bytes(state))]:
            rank_zero_warn(
                f"the state of the callback {name} is not saved in the checkpoint: it holds more than tensors, "
                "numbers, text, lists and dicts, and reading it could run code. A resumed training starts without it."
            )
            checkpoint = checkpoint | {"callbacks": {k: v for k, v in checkpoint["callbacks"].items() if k != name}}
        content = _to_bytes(checkpoint)
        if why := _why_unreadable(content):
            raise CheckpointError(f"would hold more than data ({why})")
    return content


def _to_bytes(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _why_unreadable(content: bytes) -> str:
    """The reason why a checkpoint cannot be read as data; empty if it can."""
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # pickle's, or raised by the object itself
        return type(error).__name__
    return ""


def _replace(path: Path, content: bytes) -> None:
    """Write new content under a name, and keep the file that had the name as the previous one.

    Raises:
        CheckpointError: The file does not read back as it was written.
        OSError: It cannot be written.
    """
    digest = hashlib.sha256(content).hexdigest()
    with _part_files(path, checksum_file(path)) as (new, new_checksum):
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _drop_from_page_cache(new)  # so that it is read back from the disk
        if _sha256(new) != digest:
            raise CheckpointError("did not read back as it was written")
        new_checksum.write_bytes(_checksum_line(digest, path))  # not synced: the file has checksums inside, too
        if path.is_file():
            _keep_as_previous(path)
        # For a moment there is a file without a checksum: better than a checksum beside another file.
        checksum_file(path).unlink(missing_ok=True)
        new.replace(path)
        new_checksum.replace(checksum_file(path))


def _keep_as_previous(path: Path) -> None:
    """Link a file under the name of the previous checkpoint as well; it keeps its own name."""
    earlier = previous_of(path)
    with _part_files(earlier, checksum_file(earlier)) as (part, checksum):
        checksum_file(earlier).unlink(missing_ok=True)
        try:
            os.link(path, part)
        except OSError:  # a file system without links: for a moment only the previous name exists
            path.replace(part)
        part.replace(earlier)
        if digest := _recorded_digest(path):
            checksum.write_bytes(_checksum_line(digest, earlier))
            checksum.replace(checksum_file(earlier))


@contextlib.contextmanager
def _part_files(*paths: Path) -> Iterator[list[Path]]:
    """Temporary names beside the final ones; files under them are removed before and afterwards."""
    parts = [path.with_name(f".{path.name}.part") for path in paths]
    for part in parts:
        part.unlink(missing_ok=True)  # left by a process that died
    try:
        yield parts
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _checksum_line(digest: str, path: Path) -> bytes:
    return f"{digest}  {path.name}\n".encode()


def _drop_from_page_cache(path: Path) -> None:
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
