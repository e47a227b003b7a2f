"""``gnn-depth new``: files that work from the start. That their tests pass is in
tests/testing/built_in.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SHORT

pytestmark = pytest.mark.usefixtures("own_registry")

#: What is asked for, and how the part is then used.
KINDS = {
    "norm": ([], ["--model.norm", "my_own"]),
    "score": (["--kind-of", "score"], ["--model.layer", "gat", "--model.norm", "my_own"]),
    "weight": (["--kind-of", "weight"], ["--model.norm", "my_own", "--model.norm.scale", "0.5"]),
    "layer": ([], ["--model.layer", "my_own"]),
    "init": ([], ["--model.init", "my_own"]),
    "skip": ([], ["--model.skip", "my_own"]),
}


@pytest.mark.parametrize("what", KINDS)
def test_a_part_that_was_just_written_trains(what: str, gnn_depth: Callable):
    asked, used = KINDS[what]
    kind = what if what in ("layer", "init", "skip") else "norm"
    assert gnn_depth("new", kind, "MyOwn", *asked).code == 0
    answer = gnn_depth("fit", *SHORT, "--plugins", "my_own.py", *used, "--trainer.max_epochs", "2")
    assert answer.code == 0, answer.err
    (result,) = Path("runs").glob("*/*/result.json")
    assert '"finished"' in result.read_text()


def test_an_existing_file_stays_as_it_is(refused: Callable):
    there = Path("test_my_own.py")
    there.write_text("mine\n")
    assert refused("new", "norm", "MyOwn").startswith(f"{there} exists")
    assert there.read_text() == "mine\n"
    assert list(Path().iterdir()) == [there]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nrom MyOwn", "Did you mean 'norm'?"),
        ("norm My-Own", "'My-Own' cannot be the name of a class"),
        ("norm Pair", "norm 'pair' already exists: gnn_depth.nn.norms.pair.PairNorm"),
        ("layer MyOwn --kind-of score", "--kind-of score"),
        (
            "norm MyOwn --output file/below",
            "file/below/my_own.py cannot be written: Not a directory",
        ),
    ],
)
def test_a_wrong_name_or_folder_is_refused_and_nothing_is_written(
    words: str, message: str, refused: Callable
):
    Path("file").write_text("")
    assert message in refused("new", *words.split())
    assert [path.name for path in Path().iterdir()] == ["file"]
