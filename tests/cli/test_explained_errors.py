"""Exceptions become words in one place: ours, those of the user's code, and those of libraries."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gnn_depth.cli import main
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import write_whole
from tests.cli.conftest import SHORT

pytestmark = pytest.mark.usefixtures("own_registry")

NORM = """
import torch
import lightning as L
from gnn_depth import FeatureNorm, GraphDropout, Init, Skip, register

@register("norm", "own")
class Own(FeatureNorm):
    def __init__(self, channels: int, scale: float = 1.0) -> None:
        super().__init__(channels)

    def forward(self, x, graph):
        return x
"""
RETURN = "return x\n"


def norm(body: str) -> str:
    return NORM.replace(RETURN, f"{body}\n")


def part(kind: str, base: str, body: str) -> str:
    return f'{NORM}\n\n@register("{kind}", "other")\nclass Other({base}):\n{body}\n'


@pytest.mark.parametrize(
    ("source", "named", "said"),
    [
        (
            norm("return x.mean(-1, keepdim=True)"),
            "norm 'own' (Own,",
            ["plug_own.py:5", "(5, 1)", "(5, 8)"],
        ),
        (
            norm("return x.double()"),
            "norm 'own' (Own,",
            ["plug_own.py:5", "torch.float64", "torch.float32"],
        ),
        (norm("return x, x"), "norm 'own' (Own,", ["plug_own.py:5", "returns tuple", "(5, 8)"]),
        (
            norm("return 0 * x / 0"),
            "norm 'own' (Own,",
            ["plug_own.py:5", "returns NaN or infinity", "clamp_min"],
        ),
        (
            norm("return y"),
            "norm 'own' (Own,",
            ["NameError: name 'y'", "plug_own.py:11: return y", "check_norm"],
        ),
        (
            NORM.replace("(self, x, graph)", "(self, x)"),
            "norm 'own'",
            ["plug_own.py:5", "def forward(self, x, graph)"],
        ),
        (
            NORM.replace("channels: int, scale", "*, scale").replace("(channels)", "(1)"),
            "norm 'own'",
            ["__init__(self, c"],
        ),
        (
            NORM.replace("super().__init__(channels)", "raise ValueError('no room\\n' * 100)"),
            "norm 'own'",
            ["no room", "92 lines more", "plug_own.py:8"],
        ),
        (
            part("init", "Init", "    def draw(self, stack):\n        stack.no"),
            "init 'other'",
            ["check_init"],
        ),
        (
            part(
                "init",
                "Init",
                "    def draw(self, stack):\n        stack.decoder.weight.data.fill_(torch.nan)",
            ),
            "the initialisation",
            ["decoder.weight"],
        ),
        (
            part(
                "skip",
                "Skip",
                "    def forward(self, update, states, graph):\n        return update[:1]",
            ),
            "skip 'other' (Other,",
            ["(1, 8)", "(5, 8)"],
        ),
        (
            part(
                "graph_dropout",
                "GraphDropout",
                "    def __init__(self, p: float = 0.5):\n        self.p = p\n\n    def "
                "__call__(self, graph): ...",
            ),
            "graph_dropout 'other'",
            ["returns None", "Graph"],
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_with_its_file_and_line_before_a_run_begins(
    refused: Callable, source: str, named: str, said: list[str]
):
    Path("plug_own.py").write_text(source.lstrip("\n"))
    option = next(
        (
            f"--model.{kind}"
            for kind in ("init", "skip", "graph_dropout")
            if f'"{kind}", "other"' in source
        ),
        "",
    )
    words = [option or "--model.norm", "other" if option else "own"]
    answer = refused("fit", *SHORT, "--plugins", "plug_own.py", *words)
    assert answer.startswith(named)
    for each in said:
        assert each in answer


def test_a_part_that_raises_during_the_training_ends_the_run_with_its_file_and_line(
    gnn_depth: Callable,
):
    body = "self.calls = getattr(self, 'calls', 0) + 1\n        assert self.calls < 9, 'had enough'\n        return x"
    Path("plug_own.py").write_text(norm(body).lstrip("\n"))
    answer = gnn_depth("fit", *SHORT, "--plugins", "plug_own.py", "--model.norm", "own")
    assert answer.code == 1
    last = answer.err.splitlines()[-3:]
    assert last[0].startswith("stopped: norm 'own' (Own, ")
    assert "AssertionError: had enough" in last[0]
    assert last[1].strip().startswith("plug_own.py:12: assert self.calls")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model.norm batch --model.norm.eps -1", ["model.norm.eps", "above 0, not -1"]),
        ("--trainer.gradient_clip_val -1", ["gradient_clip_val", "at least 0, not -1"]),
        (
            "--trainer.logger MLFlowLogger",
            ["lightning refuses this", "ModuleNotFoundError", "mlflow", "pip install"],
        ),
        (
            "--model.optimizer SparseAdam",
            ["model.optimizer SparseAdam", "does not support dense gradients"],
        ),
        (
            "--model.scheduler StepLR --model.scheduler.step_size 0",
            ["model.scheduler StepLR", "modulo by zero"],
        ),
        (
            "--trainer.callbacks ModelPruning --trainer.callbacks.pruning_fn l1_unstructured",
            ["ModelPruning renames parameters", "torch.nn.utils.prune"],
        ),
    ],
)
def test_what_a_library_refuses_or_would_fail_in_a_step_is_refused_before_a_run_has_a_folder(
    refused: Callable, words: str, said: list[str]
):
    answer = refused("fit", *SHORT, *words.split())
    for each in said:
        assert each in answer


def test_weights_that_do_not_fit_and_what_is_no_checkpoint_are_answered_in_words(
    gnn_depth: Callable,
):
    two = ("--plugins", "plug_own.py", "--model.norm", "own", "--trainer.max_epochs", "2")
    plugin = NORM.replace(
        "super().__init__(channels)",
        "super().__init__(channels)\n        self.a = torch.nn.Parameter(torch.ones(1))",
    )
    Path("plug_own.py").write_text(plugin)
    assert gnn_depth("fit", *SHORT, *two).code == 0
    (path,) = Path("runs").glob("*/*/checkpoints/last.ckpt")
    Path("plug_own.py").write_text(plugin.replace("self.a", "self.b"))
    del sys.modules["plug_own"]
    for command in ("test", "probe"):
        answer = gnn_depth(command, *SHORT, *two[:-2], "--ckpt_path", str(path))
        assert answer.code == 2
        assert "edited" in answer.err
        assert "norms.0.b" in answer.err
    torch.save(torch.ones(3), path.with_name("bare.ckpt"))
    answer = gnn_depth("test", "--ckpt_path", str(path.with_name("bare.ckpt")))
    assert answer.code == 2
    assert "not a checkpoint of a gnn-depth run" in answer.err


def test_a_file_that_cannot_be_written_is_named_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as on a full disk, write() fails
    try:
        with pytest.raises(OSError, match=r"File too large: 'p\.svg'"):
            write_whole(Path("p.svg"), lambda part: part.write_bytes(bytes(5000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(Path().iterdir())


def test_the_whole_traceback_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNN_DEPTH_TRACEBACK", "1")
    Path("plug_own.py").write_text(norm("return y"))
    with pytest.raises(UsageError) as caught:
        main(["fit", *SHORT, "--plugins", "plug_own.py", "--model.norm", "own"])
    assert isinstance(caught.value.__cause__, NameError)
