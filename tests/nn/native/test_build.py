"""The libraries of kernels: compiled once, whole, and by whom."""

import logging
from functools import cache as cache_of

import pytest

from gnn_depth.nn.native import build, kernels

FAMILY = "activation"  # takes half a second to compile


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; one small family stands for all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.setattr(build, "families", lambda: [FAMILY])
    return tmp_path / "gnn_depth" / "native"


def library(cache):
    (found,) = cache.glob("*.so")
    return found


def test_a_library_is_compiled_once_and_again_if_it_is_damaged(cache, monkeypatch):
    compiled = []
    compile_families = build._compile

    def count(compiler, libraries):
        compiled.append([path.name.partition("-")[0] for path in libraries])
        compile_families(compiler, libraries)

    monkeypatch.setattr(build, "_compile", count)
    key, _ = build.load_kernels()
    content = library(cache).read_bytes()
    assert build.load_kernels()[0] == key
    assert compiled == [[FAMILY]]
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (content[: len(content) // 2], b"", bytes(flipped)):
        other = cache / "damaged"
        other.write_bytes(damaged)
        other.replace(library(cache))  # in place it would damage what this process has loaded
        build.load_kernels()
        assert build._is_whole(library(cache))
    assert len(compiled) == 4
    assert not list(cache.glob("*.tmp"))


def no_compiler(monkeypatch, cache):
    monkeypatch.setattr(build, "which", lambda name: None)


def broken_compiler(monkeypatch, cache, then="echo no space left\nexit 1"):
    script = cache.parent.parent / "compiler"
    script.write_text(f'#!/bin/sh\ntest "$1" = --version && exit 0\n{then}\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))


def hanging_compiler(monkeypatch, cache):
    broken_compiler(monkeypatch, cache, "sleep 100 & wait")
    monkeypatch.setattr(build, "MOST_SECONDS", 0.1)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (no_compiler, r"no C\+\+ compiler was found"),
        (broken_compiler, "cannot compile them: no space left"),
        (hanging_compiler, "had not ended after 0.1 seconds"),
    ],
)
def test_without_kernels_one_line_says_why(cache, monkeypatch, fault, reason, caplog):
    fault(monkeypatch, cache)
    with pytest.raises(build.NoKernelsError, match=reason):
        build.load_kernels()
    monkeypatch.setattr(kernels, "_found", cache_of(kernels._found.__wrapped__))
    with caplog.at_level(logging.WARNING, "gnn_depth"):
        assert kernels.available_for() is None
        assert kernels.available_for() is None
    assert len(caplog.records) == 1
    assert kernels.why_not() in caplog.text


def test_the_switch_turns_them_off_without_a_word(cache, monkeypatch, caplog):
    monkeypatch.setenv(build.SWITCH, "off")
    monkeypatch.setattr(kernels, "_found", cache_of(kernels._found.__wrapped__))
    assert kernels.available_for() is None
    assert build.SWITCH in kernels.why_not()
    assert not caplog.records
    assert not cache.exists()
