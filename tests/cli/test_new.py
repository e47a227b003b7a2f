"""``gnn-depth new``: files that work from the start. That their tests pass is in
tests/testing/built_in.py."""

from pathlib import Path

import pytest

from tests.cli.conftest import SHORT

pytestmark = pytest.mark.usefixtures("own_registry")

#: What is asked for, and how the part is then used.
KINDS = {
    "norm MyOwn": "--model.norm my_own",
    "norm MyOwn --kind-of score": "--model.layer gat --model.norm my_own",
    "norm MyOwn --kind-of weight": "--model.norm my_own --model.norm.scale 0.5",
    "layer MyOwn": "--model.layer my_own",
    "init MyOwn": "--model.init my_own",
    "skip MyOwn": "--model.skip my_own",
}


@pytest.mark.parametrize("asked", KINDS)
def test_a_part_that_was_just_written_trains(done, asked, gnn_depth):
    done("new", *asked.split())
    words = f"--plugins my_own.py {KINDS[asked]} --trainer.max_epochs 2"
    assert "finished after 2 epochs" in gnn_depth("fit", *SHORT, *words.split()).out


def test_an_existing_file_stays_as_it_is(refused):
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
def test_a_wrong_name_or_folder_is_refused_and_nothing_is_written(words, message, refused):
    Path("file").write_text("")
    assert message in refused("new", *words.split())
    assert [path.name for path in Path().iterdir()] == ["file"]
