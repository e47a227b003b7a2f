"""Downloads that fail in every way, and files that are not what they should be."""

import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from gnn_depth.data.checks import DataError
from gnn_depth.data.verify import DataFile, _SameScheme, read_verified, resolve_root, sha256

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def published(server, tmp_path) -> DataFile:
    """A file that is on the server and not here."""
    server.files["data.bin"] = CONTENT
    return DataFile(tmp_path / "set" / "data.bin", f"{server.url}/data.bin", (sha256(CONTENT),))


def names(folder) -> set[str]:
    """What lies there beside the lock and the record."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_missing_file_is_downloaded_once(published, server):
    assert read_verified(published) == CONTENT
    assert read_verified(published) == CONTENT
    assert server.requests == ["data.bin"]
    assert names(published.path.parent) == {"data.bin"}


def test_nothing_is_asked_or_written_where_the_file_is(published, server):
    published.path.parent.mkdir()
    published.path.write_bytes(CONTENT)
    assert read_verified(published) == CONTENT
    assert server.requests == []
    assert [path.name for path in published.path.parent.iterdir()] == ["data.bin"]


def test_a_download_that_breaks_off_is_tried_again(published, server):
    server.truncate = 1
    assert read_verified(published) == CONTENT
    assert server.requests == ["data.bin"] * 2


def test_a_download_that_always_breaks_off_leaves_no_file(published, server):
    server.truncate = 100
    with pytest.raises(DataError, match=r"data\.bin.*broke off: 5120 of 10240 bytes"):
        read_verified(published)
    assert names(published.path.parent) == set()


def test_a_truncated_download_is_noticed_without_a_checksum(published, server):
    server.truncate = 100
    with pytest.raises(DataError, match="broke off"):
        read_verified(DataFile(published.path, published.url))
    assert names(published.path.parent) == set()


def test_what_a_killed_download_left_does_no_harm(published, server):
    published.path.parent.mkdir()
    published.path.with_name("data.bin.part").write_bytes(CONTENT * 2)
    assert read_verified(published) == CONTENT
    assert names(published.path.parent) == {"data.bin"}


def test_a_download_with_another_checksum_is_set_aside_and_never_used(published, server):
    server.files["data.bin"] = CONTENT[::-1]
    for _ in range(2):
        with pytest.raises(DataError, match=sha256(CONTENT[::-1])):
            read_verified(published)
        assert names(published.path.parent) == {"data.bin.corrupt"}
    server.files["data.bin"] = CONTENT
    assert read_verified(published) == CONTENT


@pytest.mark.parametrize("known", [True, False], ids=["checksum known", "checksum recorded"])
def test_a_file_we_downloaded_and_that_was_damaged_is_fetched_again(published, server, known):
    file = published if known else DataFile(published.path, published.url)
    read_verified(file)
    file.path.write_bytes(CONTENT[:100])
    assert read_verified(file) == CONTENT
    assert server.requests == ["data.bin"] * 2
    assert file.path.with_name("data.bin.corrupt").read_bytes() == CONTENT[:100]


def test_a_users_own_file_is_refused_by_name_and_left_alone(published, server):
    published.path.parent.mkdir()
    published.path.write_bytes(b"mine")
    with pytest.raises(DataError, match=r"data\.bin.*sha256") as caught:
        read_verified(published)
    assert "Move it away" in str(caught.value)
    assert published.path.read_bytes() == b"mine"
    assert names(published.path.parent) == {"data.bin"}
    assert server.requests == []


def test_offline_three_lines_name_path_address_and_variable(tmp_path):
    # Port 9 of this computer: nobody answers there.
    file = DataFile(tmp_path / "data.bin", "http://127.0.0.1:9/data.bin", ("0" * 64,))
    with pytest.raises(DataError) as caught:
        read_verified(file)
    path, url, variable = str(caught.value).split("\n")
    assert str(file.path) in path
    assert file.url in url
    assert "GNN_DEPTH_DATA" in variable
    assert "root" in variable
    # Lightning and the command line print the chain of causes.
    assert caught.value.__suppress_context__
    assert names(tmp_path) == set()


def test_a_file_the_publisher_does_not_have_is_named(published, server):
    server.files.clear()
    with pytest.raises(DataError, match=r"data\.bin.*Not Found"):
        read_verified(published)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, server):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"data\.bin.*cannot be put there"):
        read_verified(DataFile(tmp_path / "file" / "data.bin", f"{server.url}/data.bin"))
    assert server.requests == []


@pytest.mark.parametrize("scheme", ["http", "ftp"])
def test_https_leads_to_https_alone(scheme):
    asked, follow = urllib.request.Request("https://publisher/data.bin"), _SameScheme().redirect_request
    assert follow(asked, None, 302, "Found", {}, "https://elsewhere/data.bin").full_url == "https://elsewhere/data.bin"
    with pytest.raises(urllib.error.URLError, match=f"redirected to {scheme}://elsewhere"):
        follow(asked, None, 302, "Found", {}, f"{scheme}://elsewhere/data.bin")


def test_of_two_processes_one_downloads_and_the_other_waits(published, server):
    server.delay = 1.0
    script = (
        "import sys; from pathlib import Path; from gnn_depth.data.verify import DataFile, read_verified, sha256\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(sha256(read_verified(DataFile(Path(sys.argv[1]), sys.argv[2], (sys.argv[3],)))))"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(published.path), published.url, *published.sha256]
    started = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for _ in range(2)]
    # Both are to begin at the same time, however long their imports take.
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60)[0].strip() for process in started]
    assert results == [sha256(CONTENT)] * 2
    assert server.requests == ["data.bin"]
    assert names(published.path.parent) == {"data.bin"}


def test_the_root_is_the_option_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GNN_DEPTH_DATA", "/from/variable")
    assert str(resolve_root("/from/option")) == "/from/option"
    assert str(resolve_root(None)) == "/from/variable"
    monkeypatch.delenv("GNN_DEPTH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(resolve_root(None)) == "/cache/gnn_depth"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_root(None) == tmp_path / ".cache" / "gnn_depth"
    assert resolve_root("~/data") == tmp_path / "data"
