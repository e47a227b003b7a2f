"""Exceptions become words in one place: ours, those of the user's code, and those of libraries."""

from pathlib import Path

import pytest

from gnn_depth.cli import main
from gnn_depth.cli.errors import UsageError, explanation
from tests.cli.conftest import SHORT

pytestmark = pytest.mark.usefixtures("own_registry")

NORM = """\
import torch
from gnn_depth import FeatureNorm, Init, Skip, register

@register("norm", "own")
class Own(FeatureNorm):
    def __init__(self, channels: int, scale: float = 1.0) -> None:
        super().__init__(channels)

    def forward(self, x, graph):
        return x
"""
OWN = ["--plugins", "plug_own.py", "--model.norm", "own"]


def norm(body: str) -> str:
    return NORM.replace("return x\n", f"{body}\n")


def part(kind: str, base: str, body: str) -> str:
    return f'{NORM}\n\n@register("{kind}", "other")\nclass Other({base}):\n    {body}\n'


INIT = "def draw(self, stack):\n        stack."
FILL = f"{INIT}decoder.weight.data.fill_(torch.nan)"
SKIP = "def forward(self, update, states, graph):\n        return update[:1]"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (norm("return x.mean(-1, keepdim=True)"), ["plug_own.py:4", "[5, 1]", "(5, 8)"]),
        (norm("return x, x"), ["norm 'own' (Own,", "returns tuple", "(5, 8)"]),
        (norm("return x.double()"), ["plug_own.py:4", "returns torch.float64 for torch.float32"]),
        (norm("return 0 * x / 0"), ["plug_own.py:4", "returns NaN or infinity", "clamp_min"]),
        (norm("return y"), ["NameError: name 'y'", "plug_own.py:10"]),
        (NORM.replace("(self, x, graph)", "(self, x)"), ["forward() takes 2 positional"]),
        (NORM.replace("super().__init__(channels)", "pass"), ["norm 'own' (Own,", "'_parameters'"]),
        (
            NORM.replace("channels: int, scale", "*, scale"),
            ["but scale has a default"],
        ),
        (part("init", "Init", f"{INIT}no"), ["init 'other' (Other,", "plug_own.py:16"]),
        (part("init", "Init", FILL), ["the initialisation", "decoder.weight"]),
        (part("skip", "Skip", SKIP), ["skip 'other' (Other,", "[1, 8]", "(5, 8)"]),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_with_its_file_and_line_before_a_run_begins(
    refused, source, said
):
    Path("plug_own.py").write_text(source)
    words = ["--model.norm", "own"]
    for kind in ("init", "skip"):
        if f'"{kind}", "other"' in source:
            words = [f"--model.{kind}", "other"]
    answer = refused("fit", *SHORT, "--plugins", "plug_own.py", *words)
    for each in said:
        assert each in answer


def test_a_part_that_raises_during_the_training_ends_the_run_with_its_file_and_line(
    gnn_depth,
):
    body = "self.calls = getattr(self, 'calls', 0) + 1\n        assert self.calls < 9, 'had enough'\n        return x"
    Path("plug_own.py").write_text(norm(body))
    answer = gnn_depth("fit", *SHORT, *OWN)
    assert answer.code == 1
    *_, first, place, _ = answer.err.splitlines()
    assert first.startswith("stopped: norm 'own' (Own, ")
    assert first.endswith("AssertionError: had enough")
    assert place.strip() == "plug_own.py:11"


def test_the_whole_traceback_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNN_DEPTH_TRACEBACK", "1")
    Path("plug_own.py").write_text(norm("return y"))
    with pytest.raises(UsageError) as caught:
        main(["fit", *SHORT, *OWN])
    assert isinstance(caught.value.__cause__, NameError)


def test_a_missing_package_of_an_extra_is_named_with_the_extra():
    missing = ModuleNotFoundError("Requirement 'wandb>=0.12.10' not met. HINT: Try ...")
    assert "needs the package wandb: pip install 'gnn-depth[loggers]'" in str(explanation(missing))
