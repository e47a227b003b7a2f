"""Checkpoints on the disk: whole at every instant, compared with their checksums, and read without running code."""

import contextlib
import errno
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from gnn_depth.training import checkpoints
from gnn_depth.training.checkpoints import (
    CheckpointError,
    DamagedError,
    VerifiedCheckpoints,
    checksum_file,
    previous_of,
    read_checkpoint,
    verify_checkpoint,
)

DISK = VerifiedCheckpoints()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "last.ckpt"


def save(path: Path, number: float) -> None:
    DISK.save_checkpoint({"state_dict": {"weight": torch.full((1000,), number)}, "epoch": 1}, path)


def number(path: Path) -> float:
    return read_checkpoint(path)["state_dict"]["weight"][0].item()


def flip(path: Path, content: bytes) -> None:
    """Change one bit in the middle of some content of a file."""
    whole = bytearray(path.read_bytes())
    whole[whole.index(content) + len(content) // 2] ^= 1
    path.write_bytes(whole)


def weights(number: float) -> bytes:
    return torch.full((1000,), number).numpy().tobytes()


def test_the_one_before_stays_and_both_agree_with_their_checksums(path):
    for value in (1.0, 2.0, 3.0):
        save(path, value)
    assert (number(path), number(previous_of(path))) == (3.0, 2.0)
    names = {"last.ckpt", "last.ckpt.sha256", "last-1.ckpt", "last-1.ckpt.sha256"}
    assert {file.name for file in path.parent.iterdir()} == names


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum")
def test_the_system_s_own_tool_reads_the_checksums(path):
    save(path, 1.0)
    save(path, 2.0)
    command = ["sha256sum", "--check", "--strict", "last.ckpt.sha256", "last-1.ckpt.sha256"]
    assert subprocess.run(command, cwd=path.parent, check=False, capture_output=True).returncode == 0
    flip(path, weights(2.0))
    assert subprocess.run(command, cwd=path.parent, check=False, capture_output=True).returncode == 1


class Killed(BaseException):
    """The end of a process: nothing happens after it."""


class Dying:
    """Let a process die at one of its calls that change the disk: it and all later ones do nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left = at
        for owner, name in (
            *((Path, name) for name in ("open", "replace", "unlink", "mkdir")),
            *((os, name) for name in ("link", "fsync")),
        ):
            monkeypatch.setattr(owner, name, self.guard(getattr(owner, name)))

    def guard(self, call):
        def guarded(*args, **kwargs):
            self.left -= 1
            if self.left < 0:
                raise Killed
            return call(*args, **kwargs)

        return guarded


def test_a_process_that_is_killed_at_any_step_leaves_a_whole_checkpoint_and_can_save_again(tmp_path):
    for step in range(100):
        path = tmp_path / str(step) / "last.ckpt"
        save(path, 1.0)
        save(path, 2.0)
        with pytest.MonkeyPatch.context() as patch:
            dying = Dying(patch, step)
            with contextlib.suppress(Killed):
                save(path, 3.0)
        assert number(path) in (2.0, 3.0), step
        assert not previous_of(path).exists() or number(previous_of(path)) in (1.0, 2.0), step
        save(path, 4.0)
        assert number(path) == 4.0
        if dying.left >= 0:
            break
    assert step > 15, "the steps were not counted"
    assert not list(path.parent.glob("*.part"))


def test_without_links_the_one_before_is_whole_while_the_name_is_free(path, monkeypatch):
    def link(*_):
        raise OSError(errno.EPERM, "not supported")

    monkeypatch.setattr(os, "link", link)
    save(path, 1.0)
    save(path, 2.0)
    assert (number(path), number(previous_of(path))) == (2.0, 1.0)


@pytest.mark.parametrize("checksum", [True, False], ids=["with its checksum", "without"])
def test_one_flipped_bit_in_a_tensor_is_an_error(path, checksum):
    save(path, 1.0)
    flip(path, weights(1.0))
    if not checksum:
        checksum_file(path).unlink()
    with pytest.raises(DamagedError, match="SHA-256" if checksum else "checksum"):
        read_checkpoint(path)


def test_a_checksum_that_a_power_cut_left_empty_is_none(path):
    save(path, 1.0)
    checksum_file(path).write_bytes(b"")
    save(path, 2.0)
    assert number(previous_of(path)) == 1.0
    assert not checksum_file(previous_of(path)).exists()
    checksum_file(path).write_bytes(bytes(80))
    assert number(path) == 2.0
    flip(path, weights(2.0))
    with pytest.raises(DamagedError):
        read_checkpoint(path)


def test_a_bit_that_says_that_it_is_encrypted_is_an_error(path):
    save(path, 1.0)
    checksum_file(path).unlink()
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError):
        read_checkpoint(path)


@pytest.mark.parametrize("checksum", [True, False], ids=["with its checksum", "without"])
@pytest.mark.parametrize("left", [0, 100, -100])
def test_a_part_of_a_checkpoint_is_an_error(path, checksum, left):
    save(path, 1.0)
    path.write_bytes(path.read_bytes()[:left])
    if not checksum:
        checksum_file(path).unlink()
    with pytest.raises(DamagedError):
        read_checkpoint(path)


class Payload:
    def __reduce__(self):
        return Path.write_text, (Path("ran.txt"), "code")


@pytest.mark.parametrize(
    "write", [torch.save, lambda x, file: file.write_bytes(pickle.dumps(x))], ids=["zip", "pickle"]
)
def test_a_checkpoint_that_holds_code_is_refused_and_does_not_run(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write({"state_dict": Payload()}, Path("evil.ckpt"))
    with pytest.raises(DamagedError) as error:
        DISK.load_checkpoint("evil.ckpt", weights_only=False)
    assert not Path("ran.txt").exists()
    assert "weights_only" not in str(error.value)


@pytest.mark.parametrize("number_of_error", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_what_cannot_be_written_is_one_line_and_leaves_what_was_there(path, monkeypatch, number_of_error):
    save(path, 1.0)
    save(path, 2.0)

    def fail(_):
        raise OSError(number_of_error, os.strerror(number_of_error))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(CheckpointError) as error:
            save(path, 3.0)
    assert str(error.value).count("\n") == 0
    assert os.strerror(number_of_error) in str(error.value)
    assert "what was saved before is intact" in str(error.value)
    assert (number(path), number(previous_of(path))) == (2.0, 1.0)
    assert not [file for file in path.parent.iterdir() if file.name.endswith(".part")]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(tmp_path / "file" / "last.ckpt", 1.0)


def test_what_reads_otherwise_than_it_was_written_takes_nobody_s_place(path, monkeypatch):
    save(path, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_sha256", lambda _: "0" * 64)
        with pytest.raises(CheckpointError, match="did not read back as it was written"):
            save(path, 2.0)
    assert number(path) == 1.0


class Odd(Callback):
    """A callback whose state is more than data."""

    def state_dict(self):
        return {"odd": Path()}


def test_a_state_that_could_run_code_is_left_out_with_a_warning_and_the_others_stay(path):
    with pytest.warns(UserWarning, match="callback Odd"):
        DISK.save_checkpoint({"callbacks": {"Odd": Odd().state_dict(), "Fine": {"x": 1}}}, path)
    assert read_checkpoint(path)["callbacks"] == {"Fine": {"x": 1}}
    with pytest.raises(CheckpointError, match="would hold more than data"):
        DISK.save_checkpoint({"hyper_parameters": Path()}, path)


def test_a_user_s_own_checkpoints_are_verified_too_and_removed_with_all_that_belongs_to_them(
    tmp_path, make_trainer, tiny, model
):
    own = ModelCheckpoint(dirpath=tmp_path / "own", save_top_k=1, monitor="val/loss", filename="{epoch}")
    trainer = make_trainer(4, callbacks=[own], enable_checkpointing=True)
    trainer.strategy.checkpoint_io = DISK
    trainer.fit(model, datamodule=tiny)
    (kept,) = (tmp_path / "own").glob("*.ckpt")
    verify_checkpoint(kept)
    assert {file.name for file in kept.parent.iterdir()} == {kept.name, f"{kept.name}.sha256"}
