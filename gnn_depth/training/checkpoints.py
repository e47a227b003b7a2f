"""Checkpoint files: written atomically, verified, read without running code; the previous one is
kept."""

import contextlib
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.utilities import rank_zero_warn

from gnn_depth.runs import write_atomically


class CheckpointError(OSError):
    """A checkpoint cannot be written or read."""


class DamagedError(CheckpointError):
    """A file is damaged or not a checkpoint."""


class VerifiedCheckpoints(TorchCheckpointIO):
    """Write and read all checkpoints of a training, including those of a user's
    ``ModelCheckpoint``.

    The previous file of the same name is kept as ``last-1.ckpt``. Whenever the process or the
    machine dies, at least one of the two is whole. Reading verifies the checksums inside the file
    and never runs code.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any = None
    ) -> None:
        if "://" in str(path):  # not on a local disk
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _replace(Path(path), _serialise(checkpoint))
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {path} cannot be written ({error.strerror or error}); what was "
                "saved before is intact."
            ) from error

    def load_checkpoint(
        self, path: _PATH, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> Any:
        """Read a checkpoint as data only, for any value of ``weights_only``."""
        if "://" in str(path):
            return super().load_checkpoint(path, weights_only=True)
        return read_checkpoint(Path(path), map_location)

    def remove_checkpoint(self, path: _PATH) -> None:
        """Remove a checkpoint and the previous file of its name."""
        super().remove_checkpoint(path)
        if "://" not in str(path):
            previous_of(Path(path)).unlink(missing_ok=True)


def previous_of(path: Path) -> Path:
    """Path under which the previous checkpoint of this name is kept."""
    return path.with_name(f"{path.stem}-1{path.suffix}")


def read_checkpoint(path: Path, map_location: Any = "cpu") -> Any:
    """Read a checkpoint as data, after comparing its content with the CRC-32 checksums in it;
    nothing in it is run.

    Raises:
        DamagedError: It is not what was written, or not a checkpoint.
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            damaged = archive.testzip()  # torch.load does not compare the checksums
            # No checksum covers these fields: torch leaves them empty, and reads no folder.
            flagged = any(file.is_dir() or file.external_attr for file in archive.infolist())
    except Exception as error:  # of many kinds, if the archive's own fields are damaged
        raise DamagedError("it is not a checkpoint, or only a part of one") from error
    if damaged or flagged:
        raise DamagedError(f"{damaged or 'a file'} in it does not match its checksum")
    try:
        return torch.load(io.BytesIO(content), map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        # torch's own message advises to load it unsafely.
        raise DamagedError(
            f"it is not a checkpoint, or holds more than data ({type(error).__name__})"
        ) from error


def options_in(content: Any) -> dict[str, Any]:
    """The arguments of a checkpoint's model.

    Raises:
        DamagedError: It is not a checkpoint of a model, or one of a class of the user's.
    """
    if not isinstance(content, dict) or "state_dict" not in content:
        raise DamagedError("it is not a checkpoint of a model: it has no weights")
    if "subclass" in content or "kernels" not in content:  # which every NodeClassifier notes
        load = f"{content.get('subclass', 'CLASS')}.load_from_checkpoint"
        raise DamagedError(
            f"it is of a class of your own: load it with {load}; fit, validate and test take it "
            "with --model"
        )
    return dict(content["hyper_parameters"])


def _serialise(checkpoint: dict[str, Any]) -> bytes:
    """A checkpoint as bytes that can be read as data; callback states that cannot are left out with
    a warning."""
    content, why = _as_data(checkpoint)
    if not why:
        return content
    states = {}
    for name, state in checkpoint.get("callbacks", {}).items():
        if not _as_data(state)[1]:
            states[name] = state
            continue
        rank_zero_warn(
            f"the state of the callback {name} is not saved in the checkpoint: it holds more than "
            "tensors, numbers, text, lists and dicts, and reading it could run code. A resumed "
            "training starts without it."
        )
    content, why = _as_data(checkpoint | {"callbacks": states})
    if why:
        raise CheckpointError(f"it would hold more than data, {why}")
    return content


def _as_data(content: Any) -> tuple[bytes, str]:
    """Something as the bytes of a file, and the reason why these cannot be read as data; empty if
    they can."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.seek(0)
    why = ""
    try:
        # Read back at once: what no resume could read is noticed while the training still runs.
        torch.load(buffer, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle's, or raised by the object itself
        why = type(error).__name__
    return buffer.getvalue(), why


def _replace(path: Path, content: bytes) -> None:
    """Write new content under a name, and keep the file that had the name as the previous one."""
    new = path.with_name(f".{path.name}.part")
    # On the disk before it has the name: after a power cut the name leads to whole content.
    write_atomically(new, content)
    if path.is_file():
        path.replace(previous_of(path))  # for a moment only the previous name exists
    new.replace(path)
    with contextlib.suppress(OSError):  # not every file system can flush the names in a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
