"""Downloads that fail in every way, and files that are not what they should be."""

from pathlib import Path

import pytest

from gnn_depth.data import Amazon, Coauthor, heterophilous
from gnn_depth.data.checks import DataError
from gnn_depth.data.downloads import (
    CHECKSUMS,
    git_blob_id,
    read_verified,
    sha256,
)

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def published(server, tmp_path, monkeypatch) -> tuple[Path, str]:
    """A file that is on the server and not here."""
    server.files["data.bin"] = CONTENT
    monkeypatch.setitem(CHECKSUMS, "data.bin", [sha256(CONTENT)])
    return tmp_path / "set" / "data.bin", f"{server.url}/data.bin"


def test_every_published_file_has_a_checksum():
    planetoid = {
        f"ind.{name}.{part}"
        for name in ("cora", "citeseer", "pubmed")
        for part in ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
    }
    splits = {
        f"{name}_split_0.6_0.2_{i}.npz"
        for name in ("cora", "citeseer", "pubmed")
        for i in range(10)
    }
    benchmark = set()
    for data_set in (Amazon, Coauthor):
        for files in data_set.files.values():
            benchmark |= set(files)
    assert set(CHECKSUMS) == planetoid | splits | benchmark | {
        f"{name}.npz" for name in heterophilous.HeterophilousGraphs.names
    }
    assert {len(checksum) for checksums in CHECKSUMS.values() for checksum in checksums} == {40, 64}
    assert git_blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def names(folder) -> set[str]:
    """What lies there beside the lock."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_missing_file_is_downloaded_once_and_a_present_one_never(published, server, tmp_path):
    for _ in range(2):
        assert read_verified(*published) == CONTENT
    assert server.requests == ["data.bin"]
    assert names(published[0].parent) == {"data.bin"}
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert read_verified(tmp_path / "data.bin", published[1]) == CONTENT
    assert server.requests == ["data.bin"]
    assert {path.name for path in tmp_path.iterdir()} == {"set", "data.bin"}  # no lock


def test_a_download_with_another_checksum_is_set_aside_and_never_used(published, server):
    server.files["data.bin"] = CONTENT[::-1]
    for _ in range(2):
        with pytest.raises(DataError, match=sha256(CONTENT[::-1])):
            read_verified(*published)
        assert names(published[0].parent) == set()
    server.files["data.bin"] = CONTENT
    assert read_verified(*published) == CONTENT


def test_a_file_that_is_not_the_published_one_is_refused_by_name_and_left_alone(published, server):
    published[0].parent.mkdir()
    published[0].write_bytes(b"mine")
    with pytest.raises(DataError, match=r"data\.bin.*sha256") as caught:
        read_verified(*published)
    assert published[1] in str(caught.value)
    assert published[0].read_bytes() == b"mine"
    assert names(published[0].parent) == {"data.bin"}
    assert server.requests == []
