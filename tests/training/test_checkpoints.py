"""Checkpoints on the disk: whole at every instant, compared with their checksums, and read without
running code."""

import contextlib
import errno
import os
import pickle
from pathlib import Path

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from gnn_depth.cli import main
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import (
    CheckpointError,
    DamagedError,
    VerifiedCheckpoints,
    previous_of,
    read_checkpoint,
)
from gnn_depth.training.prediction import load_model

DISK = VerifiedCheckpoints()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoints" / "last.ckpt"


def save(path, number, size=1000):
    DISK.save_checkpoint({"state_dict": {"weight": torch.full((size,), number)}, "epoch": 1}, path)


def number(path):
    return read_checkpoint(path)["state_dict"]["weight"][0].item()


class Killed(BaseException):
    """The end of a process: nothing happens after it."""


class Dying:
    """Let a process die at one of its calls that change the disk: it and all later ones do
    nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left = at
        for owner, name in (
            *((Path, name) for name in ("open", "replace", "unlink", "mkdir")),
            (os, "fsync"),
        ):
            monkeypatch.setattr(owner, name, self.guard(getattr(owner, name)))

    def guard(self, call):
        def guarded(*args, **kwargs):
            self.left -= 1
            if self.left < 0:
                raise Killed
            return call(*args, **kwargs)

        return guarded


def test_a_process_killed_at_any_step_leaves_a_whole_checkpoint(tmp_path):
    for step in range(100):
        path = tmp_path / str(step) / "last.ckpt"
        save(path, 1.0)
        save(path, 2.0)
        with pytest.MonkeyPatch.context() as patch:
            dying = Dying(patch, step)
            with contextlib.suppress(Killed):
                save(path, 3.0)
        whole = path if path.exists() else previous_of(path)
        assert number(whole) in (2.0, 3.0), step
        assert not previous_of(path).exists() or number(previous_of(path)) in (1.0, 2.0), step
        save(path, 4.0)
        assert number(path) == 4.0
        if dying.left >= 0:
            break
    assert step > 5  # the steps are counted
    assert not list(path.parent.glob("*.part"))


def test_a_flipped_bit_is_an_error_or_changes_nothing(path):
    save(path, 1.0, size=20)
    whole = path.read_bytes()
    refused, weights = set(), whole.index(torch.ones(20).numpy().tobytes())
    for place in range(len(whole)):
        content = bytearray(whole)
        # In the archive's table of contents this bit may say that a tensor is a folder.
        content[place] ^= 1 << 4
        path.write_bytes(content)
        try:
            found = read_checkpoint(path)
        except DamagedError:
            refused.add(place)
        else:
            assert found["epoch"] == 1
            assert torch.equal(found["state_dict"]["weight"], torch.ones(20)), place
    assert refused > set(range(weights, weights + 80))


@pytest.mark.parametrize("left", [0, 100, -100])
def test_a_part_of_a_checkpoint_is_an_error(path, left):
    save(path, 1.0)
    path.write_bytes(path.read_bytes()[:left])
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


def test_what_cannot_be_written_is_one_line_and_leaves_what_was_there(path, monkeypatch):
    save(path, 1.0)
    save(path, 2.0)

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(CheckpointError) as error:
            save(path, 3.0)
    assert "what was saved before is intact" in str(error.value)
    assert (number(path), number(previous_of(path))) == (2.0, 1.0)
    assert not [file for file in path.parent.iterdir() if file.name.endswith(".part")]


def test_a_callback_state_that_could_run_code_is_left_out_with_a_warning(path):
    with pytest.warns(UserWarning, match="callback Odd"):
        DISK.save_checkpoint({"callbacks": {"Odd": {"odd": Path()}, "Fine": {"x": 1}}}, path)
    assert read_checkpoint(path)["callbacks"] == {"Fine": {"x": 1}}
    with pytest.raises(CheckpointError, match="would hold more than data"):
        DISK.save_checkpoint({"hyper_parameters": Path()}, path)


def test_checkpoints_of_a_users_callback_are_verified_and_removed_as_a_whole(
    tmp_path, make_trainer, tiny, model
):
    own = ModelCheckpoint(
        dirpath=tmp_path / "own", save_top_k=1, monitor="val/loss", filename="{epoch}"
    )
    trainer = make_trainer(4, callbacks=[own], enable_checkpointing=True)
    trainer.strategy.checkpoint_io = DISK
    trainer.fit(model, datamodule=tiny)
    (kept,) = (tmp_path / "own").glob("*.ckpt")
    read_checkpoint(kept)
    assert {file.name for file in kept.parent.iterdir()} == {kept.name}


def test_a_checkpoint_whose_options_name_code_to_call_is_refused_by_every_reader(
    tmp_path, monkeypatch, make_trainer, tiny, model
):
    (tmp_path / "marker.py").write_text("open('ran.txt', 'w')\nclass Model: ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    trainer, path = make_trainer(1), tmp_path / "named.ckpt"
    trainer.strategy.checkpoint_io = DISK
    trainer.fit(model, tiny)
    trainer.save_checkpoint(path)
    content = read_checkpoint(path)
    content["hyper_parameters"]["_instantiator"] = "marker.call"
    torch.save(content, path)
    for read in (load_model, NodeClassifier.load_from_checkpoint):
        with pytest.raises((TypeError, ValueError), match="_instantiator|instantiators"):
            read(path)
        assert not Path("ran.txt").exists()
    assert main(["predict", "--ckpt_path", str(path)]) == 2
    assert not Path("ran.txt").exists()
