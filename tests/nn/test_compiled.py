"""Runs the tests of compiled code and of all parts in a process of their own: shape checks cannot
be traced."""

import os
import struct
from pathlib import Path

import jaxtyping
import pytest

from gnn_depth.nn.variants.compile import remove_torn
from tests.processes import SAID, call_in_fresh_process

HERE = Path(__file__).parent
FILES = ["nn/compiled_stack.py", "nn/functional/compiled.py", "testing/built_in.py"]


def run_tests(*words):
    """Run tests in this process, which checks no shapes; their exit code."""
    jaxtyping.config.update("jaxtyping_disable", True)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # some are imported already, and it warns
    return pytest.main(list(words))


@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_compiled_code_does_what_it_does_uncompiled(speed, tmp_path):
    alone = ["-o", "addopts=", "-p", "no:cacheprovider"]
    files = [str(HERE.parent / file) for file in FILES]
    code = call_in_fresh_process(tmp_path, run_tests, *alone, "-q", "-m", speed, *files)
    assert code == 0, (tmp_path / SAID).read_text()[-4000:]


def test_a_library_that_ends_before_its_sections_is_removed_unless_it_is_being_written(tmp_path):
    header = (
        b"\x7fELF\x02\x01".ljust(40, b"\0")
        + struct.pack("<Q", 64).ljust(18, b"\0")
        + struct.pack("<HHH", 64, 1, 0)
    )
    whole, torn, written = (
        (tmp_path / "ab" / f"{name}.so") for name in ("whole", "torn", "written")
    )
    whole.parent.mkdir()
    for library, content in ((whole, header + bytes(64)), (torn, header), (written, header)):
        library.write_bytes(content)
        os.utime(library, (0, 0))
    os.utime(written)
    remove_torn(tmp_path)
    assert set(tmp_path.glob("ab/*")) == {whole, written}
