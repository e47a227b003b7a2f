import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from gnn_depth.runs import new_run_folder, read_result, write_atomically, write_result


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_run_folder(tmp_path, "run"), range(8)))
    assert len(set(folders)) == 8
    assert all(folder.is_dir() for folder in folders)


def test_a_name_does_not_lead_out_of_the_root(tmp_path):
    with pytest.raises(ValueError, match="leads out of"):
        new_run_folder(tmp_path / "runs", "../elsewhere")
    assert new_run_folder(tmp_path / "runs", "group/one").is_dir()


def test_a_file_is_written_whole_or_is_the_old_one_and_nothing_else_is_left(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomically(path, "older")
    write_atomically(path, "old")
    monkeypatch.delattr(os, "fsync")
    with pytest.raises(AttributeError):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_are_not_finite_are_written_as_text(tmp_path):
    write_result(
        tmp_path,
        {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": {"d": 1.5}, "e": None},
    )
    assert read_result(tmp_path) == {"a": "nan", "b": ["inf", "-inf"], "c": {"d": 1.5}, "e": None}


def test_a_result_with_one_flipped_bit_is_refused(tmp_path):
    result = {"status": "finished", "metrics": {"test/acc": 0.8125}, "reason": None}
    write_result(tmp_path, result)
    assert read_result(tmp_path) == result
    path = tmp_path / "result.json"
    content = bytearray(path.read_bytes())
    for place in range(content.index(b'"status"'), content.index(b'"checksum"')):
        content[place] ^= 1
        path.write_bytes(content)
        with contextlib.suppress(ValueError):  # "is damaged"
            assert read_result(tmp_path) == result  # white space
        content[place] ^= 1
