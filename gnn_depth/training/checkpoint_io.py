"""Checkpoints on the disk: written whole, read back, with a checksum beside each and the one before it kept."""

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
    """A checkpoint that cannot be written, or is not what was written."""


class DamagedError(CheckpointError):
    """A file that is no checkpoint any more."""


class VerifiedCheckpoints(TorchCheckpointIO):
    """Lightning's way to the disk, for every checkpoint of a training, a user's ``ModelCheckpoint`` too.

    Beside ``last.ckpt`` stands ``last.ckpt.sha256``, as ``sha256sum --check`` reads it. What a name stood for before
    stays as ``last-1.ckpt``. Whenever a process or the machine dies, a whole file has the name or the one before it
    has its own, and no checksum is beside a file that it does not belong to. Reading never runs code.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any = None) -> None:
        """Write a checkpoint.

        Raises:
            CheckpointError: It cannot be written; what was there before is there still.
        """
        if "://" in str(path):  # not on a disk
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            replace(Path(path), serialised(checkpoint))
        except CheckpointError as error:
            raise CheckpointError(f"the checkpoint {path} {error}; what was saved before is intact.") from error
        except OSError as error:
            why = error.strerror or error
            raise CheckpointError(
                f"the checkpoint {path} cannot be written ({why}); what was saved before is intact."
            ) from error

    def load_checkpoint(self, path: _PATH, map_location: Any = "cpu", weights_only: bool | None = None) -> Any:
        """Read a checkpoint, as data only, whatever ``weights_only`` says.

        Raises:
            CheckpointError: It is damaged, or holds more than data.
        """
        return (
            super().load_checkpoint(path, weights_only=True) if "://" in str(path) else load(Path(path), map_location)
        )

    def remove_checkpoint(self, path: _PATH) -> None:
        """Remove a checkpoint, its checksum and the one before it."""
        super().remove_checkpoint(path)
        if "://" not in str(path):
            earlier = before(Path(path))
            for file in (checksum_file(Path(path)), earlier, checksum_file(earlier)):
                file.unlink(missing_ok=True)


def checksum_file(path: Path) -> Path:
    """Where the SHA-256 of a checkpoint is."""
    return path.with_name(f"{path.name}.sha256")


def before(path: Path) -> Path:
    """What the checkpoint that a name stood for before is called now."""
    return path.with_name(f"{path.stem}-1{path.suffix}")


def load(path: Path, map_location: Any = "cpu") -> Any:
    """Read a checkpoint as data: nothing in it is run.

    Raises:
        DamagedError: It is not what was written, or no checkpoint.
        OSError: It cannot be read.
    """
    check(path)
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:  # torch advises to load it unsafely
        raise DamagedError(f"it is no checkpoint, or holds more than data ({type(error).__name__})") from error


def check(path: Path) -> None:
    """Compare a file with its checksum; where it has none, with those of 32 bits that are inside it.

    Raises:
        DamagedError: They differ.
        OSError: It cannot be read.
    """
    if there := _recorded(path):
        if (here := sha256(path)) != there:
            raise DamagedError(f"its SHA-256 is {here[:8]}..., and {checksum_file(path).name} says {there[:8]}...")
        return
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load does not look at them
            damaged = archive.testzip()
    except (zipfile.BadZipFile, RuntimeError) as error:  # the latter of a flag: compressed somehow, or encrypted
        raise DamagedError("it is no checkpoint, or a part of one") from error
    if damaged:
        raise DamagedError(f"the checksum of {damaged} in it is another")


def _recorded(path: Path) -> str:
    """The checksum beside a file; empty where there is none, or a power cut left a file without what was in it."""
    beside = checksum_file(path)
    found = DIGEST.match(beside.read_text(encoding="ascii", errors="replace")) if beside.is_file() else None
    return found[0] if found else ""


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()


def serialised(checkpoint: dict[str, Any]) -> bytes:
    """A checkpoint as bytes that can be read as data; states of callbacks that cannot are left out, with a warning.

    Raises:
        CheckpointError: Something else in it cannot be read as data.
    """
    content = _bytes(checkpoint)
    if unreadable(content):
        states = checkpoint.get("callbacks", {})
        for name in [name for name, state in states.items() if unreadable(_bytes(state))]:
            rank_zero_warn(
                f"the state of the callback {name} is not in the checkpoint: it is more than tensors, numbers, text, "
                "lists and dicts, and reading it could run code. A resumed training begins anew with it."
            )
            checkpoint = checkpoint | {"callbacks": {k: v for k, v in checkpoint["callbacks"].items() if k != name}}
        content = _bytes(checkpoint)
        if why := unreadable(content):
            raise CheckpointError(f"would hold more than data ({why})")
    return content


def unreadable(content: bytes) -> str:
    """Why a checkpoint cannot be read as data; empty where it can."""
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # of pickle, or of the object's own making
        return type(error).__name__
    return ""


def _bytes(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def replace(path: Path, content: bytes) -> None:
    """Give a name to new content, and the content that it had to the name before it.

    Raises:
        CheckpointError: What was written reads otherwise.
        OSError: It cannot be written.
    """
    digest = hashlib.sha256(content).hexdigest()
    with _parts(path, checksum_file(path)) as (new, new_checksum):
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _forget(new)  # so that it is read from the disk
        if sha256(new) != digest:
            raise CheckpointError("was read back other than it was written")
        new_checksum.write_bytes(_line(digest, path))  # not waited for: without it there is the file's own
        if path.is_file():
            _keep(path)
        # In between a file without a checksum is better than one beside another's.
        checksum_file(path).unlink(missing_ok=True)
        new.replace(path)
        new_checksum.replace(checksum_file(path))


def _keep(path: Path) -> None:
    """Name what is there as the one before, too; the name itself stays."""
    earlier = before(path)
    with _parts(earlier, checksum_file(earlier)) as (part, checksum):
        checksum_file(earlier).unlink(missing_ok=True)
        try:
            os.link(path, part)
        except OSError:  # a file system without links: for a moment there is only the one before
            path.replace(part)
        part.replace(earlier)
        if digest := _recorded(path):
            checksum.write_bytes(_line(digest, earlier))
            checksum.replace(checksum_file(earlier))


@contextlib.contextmanager
def _parts(*paths: Path) -> Iterator[list[Path]]:
    """Names for what will be files; whatever has them before and afterwards is removed."""
    parts = [path.with_name(f".{path.name}.part") for path in paths]
    for part in parts:
        part.unlink(missing_ok=True)  # of a process that died
    try:
        yield parts
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _line(digest: str, path: Path) -> bytes:
    return f"{digest}  {path.name}\n".encode()


def _forget(path: Path) -> None:
    """Drop what the machine's memory has of a file, where it can be told to."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder on the disk, where folders can be synchronised; till then it may have older ones."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
