"""Disks that are full, or that cannot be written."""

import pytest

from gnn_depth.runs import read_result


@pytest.mark.parametrize(("left", "epochs"), [(0, 120), (32768, 4)])
def test_a_full_disk_ends_a_run_with_one_line_and_spoils_no_older_result(
    fit, harm, mounted, left, epochs
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
    assert read_result(folder)["status"] != "finished"
    assert files == {path: path.read_bytes() for path in files}
    assert not list(folder.rglob("*.part"))


def test_a_folder_that_cannot_be_written_is_found_before_training(fit, mounted):
    disk = mounted("ro,size=1m")
    answer, _ = fit(root=str(disk))
    assert answer.code == 2
    for part in (str(disk / "run"), "Read-only file system", "--run.root"):
        assert part in answer.err
