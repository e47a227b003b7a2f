"""Disks that are full, or that cannot be written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_depth.runs import read_result, write_result


@pytest.mark.parametrize(("left", "epochs"), [(0, 120), (32768, 4)])
def test_a_full_disk_ends_a_run_with_one_line_and_spoils_no_older_result(
    fit: Callable, harm: Callable, mounted: Callable, left: int, epochs: int
):
    disk = mounted("size=1m")
    _, older = fit(root=str(disk / "runs"))
    files = {path: path.read_bytes() for path in older.rglob("*") if path.is_file()}
    words = harm("Fill", folder=disk, left=left)
    answer, folder = fit(*words, "--trainer.max_epochs", str(epochs), root=str(disk / "runs"))
    assert answer.code == 1
    assert "Traceback" not in answer.err
    (said,) = (line for line in answer.err.splitlines() if "No space left on device" in line)
    assert str(folder) in said
    assert "what was saved before is intact" in said
    assert read_result(folder)["status"] == "failed"
    assert files == {path: path.read_bytes() for path in files}
    assert not list(folder.rglob("*.part"))


def test_a_folder_that_cannot_be_written_is_found_before_training(fit: Callable, mounted: Callable):
    disk = mounted("ro,size=1m")
    answer, _ = fit(root=str(disk))
    assert answer.code == 2
    for part in (str(disk / "run"), "Read-only file system", "--run.root"):
        assert part in answer.err


def test_a_result_that_cannot_be_written_marks_a_running_one_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for status, later in (("running", "failed"), ("finished", "finished")):
        write_result(tmp_path, {"status": status, "seed": 3})
        with monkeypatch.context() as patch:
            patch.setattr("gnn_depth.runs.write_atomically", full)
            with pytest.raises(OSError, match="No space"):
                write_result(tmp_path, {"status": "failed", "reason": "full"})
        assert read_result(tmp_path) == {"status": later, "seed": 3}
