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
from torch import Tensor

LARGEST_COUNT = 2**53  # of steps and epochs


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
            why = f"cannot be written ({error.strerror or error})"
            if isinstance(error, CheckpointError):
                why = str(error)
            raise CheckpointError(
                f"the checkpoint {path} {why}; what was saved before is intact."
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
    """The arguments of a checkpoint's model, without the entries that Lightning adds.

    Raises:
        DamagedError: It is not a checkpoint of a model.
    """
    if not isinstance(content, dict) or not {"hyper_parameters", "state_dict"} <= content.keys():
        raise DamagedError("it is not a checkpoint of a model: it has no weights and options")
    arguments = content["hyper_parameters"].items()
    return {name: value for name, value in arguments if not name.startswith("_")}


def check_progress(content: Any) -> None:
    """Refuse a checkpoint from which no training can go on, because its progress is no progress.

    Raises:
        DamagedError: Its loops, or the states of its optimizers, schedules and recorder, hold
            something else than they are written with.
    """
    if not isinstance(content, dict):
        return
    for name in ("epoch", "global_step", "loops"):
        if _holds_text(content.get(name)):
            raise DamagedError(f"its {name} holds text where numbers belong")
    if not isinstance(content.get("loops", {}), dict) or not _are_counts(content.get("loops")):
        raise DamagedError("its loops hold something else than counts")
    for name in ("optimizer_states", "lr_schedulers"):
        states = content.get(name, [])
        if not isinstance(states, list) or not all(isinstance(state, dict) for state in states):
            raise DamagedError(f"its {name} is no list of states")
    for state in content.get("optimizer_states", []):
        groups = state.get("param_groups")
        if _holds_text(state.get("state")) or not isinstance(groups, list):
            raise DamagedError("the state of its optimizer holds text where tensors belong")
        for group in groups:
            # Other options may be words, such as the line search of LBFGS.
            if not isinstance(group, dict) or _holds_text([group.get("lr"), group.get("params")]):
                raise DamagedError("the state of its optimizer holds text where numbers belong")
        if not _are_alike(state.get("state")):
            raise DamagedError("the state of its optimizer is of another kind for some parameters")
    callbacks = content.get("callbacks")
    if not isinstance(callbacks, dict | None):
        raise DamagedError("its callbacks are no states by name")
    recorded = (callbacks or {}).get("RunRecorder")
    if recorded is not None and not _is_record(recorded):
        raise DamagedError("its record of the best and the last epoch is none")


def _are_counts(loops: Any) -> bool:
    """True if all counts of steps and epochs inside loops are whole numbers from 0 on."""
    if not isinstance(loops, dict):
        return True
    for name, value in loops.items():
        is_progress = name in ("total", "current") or name.endswith(("_loop", "progress"))
        if is_progress and not isinstance(value, dict):
            return False
        if name in ("total", "current"):
            for count in value.values():
                # To isinstance, True is an int.
                if type(count) is not int or not 0 <= count < LARGEST_COUNT:
                    return False
        elif not _are_counts(value):
            return False
    return True


def _are_alike(states: Any) -> bool:
    """True if an optimizer keeps the same kinds of values for all its parameters."""
    if not isinstance(states, dict) or not all(isinstance(of, dict) for of in states.values()):
        return False
    kinds: dict[str, set[type]] = {}
    for of_parameter in states.values():
        for name, value in of_parameter.items():
            if value is not None:
                kinds.setdefault(name, set()).add(type(value))
    return all(len(found) == 1 for found in kinds.values())


def _is_record(recorded: Any) -> bool:
    """True for the state of a recorder."""
    if not isinstance(recorded, dict):
        return False
    tables: dict[str, Any] = {"metrics": (int, float), "weights": Tensor, "last": Tensor}
    for name, kind in tables.items():
        table = recorded.get(name, {})
        if not isinstance(table, dict):
            return False
        if not all(isinstance(value, kind) for value in table.values()):
            return False
    is_ended = isinstance(recorded.get("ended"), dict | None)
    return is_ended and isinstance(recorded.get("epoch"), int | None)


def _holds_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_text(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds_text(item) for item in value)
    return isinstance(value, str | bytes)


def _serialise(checkpoint: dict[str, Any]) -> bytes:
    """A checkpoint as bytes that can be read as data; callback states that cannot are left out with
    a warning."""
    content = _to_bytes(checkpoint)
    # Read back at once: what no resume could read is noticed while the training still runs.
    if not _why_unreadable(content):
        return content
    states = {}
    for name, state in checkpoint.get("callbacks", {}).items():
        if not _why_unreadable(_to_bytes(state)):
            states[name] = state
            continue
        rank_zero_warn(
            f"the state of the callback {name} is not saved in the checkpoint: it holds more than "
            "tensors, numbers, text, lists and dicts, and reading it could run code. A resumed "
            "training starts without it."
        )
    content = _to_bytes(checkpoint | {"callbacks": states})
    why = _why_unreadable(content)
    if why:
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
    """Write new content under a name, and keep the file that had the name as the previous one."""
    part, earlier = _part_of(path), previous_of(path)
    try:
        # On the disk before it has the name: after a power cut the name leads to whole content.
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.is_file():
            link = _part_of(earlier)
            link.unlink(missing_ok=True)  # left by a process that died
            try:
                os.link(path, link)  # so that the file keeps its own name, too
                link.replace(earlier)
                # Still there if earlier was another name of the same file.
                link.unlink(missing_ok=True)
            except OSError:
                # A file system without links: for a moment only the previous name exists.
                path.replace(earlier)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not every file system can flush the names in a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")
