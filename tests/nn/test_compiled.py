"""Runs the tests of compiled code and of all parts in a process of their own: shape checks cannot
be traced."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gnn_depth.nn.variants.compile import remove_torn

HERE = Path(__file__).parent
FILES = ["nn/compiled_stack.py", "nn/functional/compiled.py", "testing/built_in.py"]


@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_compiled_code_does_what_it_does_uncompiled(speed):
    alone = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *alone, "-m", speed]
    command += [str(HERE.parent / file) for file in FILES]
    child = subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env=os.environ | {"JAXTYPING_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(child.stdout, child.stderr, sep="\n")
    assert child.returncode == 0, "\n".join(child.stdout.splitlines()[-40:])


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
