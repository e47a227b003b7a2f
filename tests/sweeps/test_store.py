import errno
import multiprocessing
import os
import signal

import pytest

from gnn_depth.sweeps.store import ResultWarning, Store
from tests.sweeps.jobs import planned

PLACE = planned("depth=2", 0, "a" * 64)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, "sweep")


def hold(root, said):
    with Store(root, "sweep").claim(PLACE.identity) as mine:
        said.send(mine)
        signal.pause()


def test_a_run_that_has_begun_is_found_by_its_identity(store):
    folder = store.begin(PLACE).folder
    assert folder == store.folder / "depth=2" / "seed_0-aaaaaaaa"
    (record,) = store.records(PLACE.identity).values()
    assert (record.folder, record.status) == (folder, "running")
    assert store.records().keys() == {PLACE.identity}
    assert store.records("b" * 64) == {}


def test_a_claim_ends_with_its_process_even_if_that_is_killed(store, tmp_path):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(tmp_path, there))
    process.start()
    assert here.recv()
    with store.claim(PLACE.identity) as mine, store.claim("b" * 64) as other:
        assert (mine, other) == (False, True)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with store.claim(PLACE.identity) as mine:
        assert mine


def test_archived_runs_are_moved_and_not_changed(store, tmp_path):
    contents = []
    for number in range(3):
        folder = store.begin(PLACE, number).folder
        contents.append((folder / "result.json").read_text())
        store.archive(folder)
        assert not folder.exists()
    kept = sorted((tmp_path / "archive" / "sweep" / "depth=2").rglob("result.json"))
    assert sorted(path.read_text() for path in kept) == sorted(contents)
    assert store.records() == {}


@pytest.mark.parametrize("text", ['{"status": "fin', "[]", '{"format": 99}'])
def test_a_damaged_result_is_named_and_does_not_count(store, text):
    folder = store.begin(PLACE).folder
    (folder / "result.json").write_text(text)
    with pytest.warns(ResultWarning, match="seed_0-aaaaaaaa/result.json"):
        assert store.records() == {}


def test_a_file_system_without_locks_is_refused(store, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", missing)
    with pytest.raises(OSError, match="Function not implemented"), store.claim("a"):
        pass
