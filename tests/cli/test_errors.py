"""Wrong usage: one message that says what, where, the near miss and the choices; exit code 2; no
traceback."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import BOMB, EMPTY_BOMB, SMALL


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (
            "--model.norm lipshitz",
            ["unknown norm 'lipshitz'. Did you mean 'lipschitz'? Available: "],
        ),
        (
            "--model.layer gat --model.norm lipschitz --model.norm.alhpa 3",
            ["norm 'lipschitz' has no option 'alhpa'.", "Accepted: scale, form, per_head."],
        ),
        (
            "--trainer.max_epochs five",
            ["trainer.max_epochs must be a whole number or null, not 'five'."],
        ),
        ("--trainer.callbacks None_such", [", ... "]),
        (
            "--trainer.callbacks EarlyStopping --trainer.callbacks.monitor val/loss "
            "--trainer.callbacks+ EarlyStopping --trainer.callbacks.monitor val/loss",
            ["Found more than one stateful callback of type `EarlyStopping`"],
        ),
        ("--trainer.accelerator gpu", ["Lightning refuses this: No supported gpu backend"]),
        (
            "--model.norm lipschitz",
            ["norm 'lipschitz' acts on attention scores, and layer 'gcn' has none.", "gat"],
        ),
        (
            "--data MissingFeatures --data.source Planetoid --data.source.nam Cora --data.rate .5",
            ["data 'Planetoid' has no option 'nam'. Did you mean 'name'? Accepted: name, split,"],
        ),
        (
            "--seed_everything 4294967296",
            ["seed_everything must be at least 0 and at most 4294967295, not 4294967296."],
        ),
        (f"--model.hidden_channels {2**62}", ["Storage size calculation overflowed"]),
        ("--ckpt_path missing.ckpt", ["checkpoint 'missing.ckpt' does not exist"]),
        ("--run.root /dev/null", ["/dev/null", "choose another with --run.root"]),
    ],
)
def test_a_wrong_option_is_answered_in_one_message(refused, words, messages):
    answer = refused("fit", *words.split())
    for message in messages:
        assert message in answer


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("model:\n  norm:\n  - {scale: 1, scale: 2}\n", 3, "'model.norm.0.scale' is already on"),
        ("\nmodle:\n  num_layers: 3\n", 2, "unknown option 'modle'. Did you mean 'model'?"),
        ("model:\n  norm:\n  - name: lipschitz\n    froom: paper\n", 4, "Did you mean 'form'?"),
        ("model:\n  lr: 3\n", 2, "'model.optimizer.lr'"),
        ("\nmodel: gat\n", 2, "--model.layer gat"),
        ("model: [\n", 2, "YAML"),
        (
            "model:\n  optimizer:\n    class_path: Adam\n    lr: 3\n",
            4,
            "'lr' stands beside class_path",
        ),
        ("\nconfig: other.yaml\n", 2, "unknown option 'config'"),
        ("model: {}\n1: 2\n", 2, "a key must be text"),
        ("plugins: 3\n", 1, "plugins must be names of files or modules"),
    ],
)
def test_an_error_in_a_file_is_answered_with_file_and_line(refused, text, line, message):
    Path("run.yaml").write_text(text)
    answer = refused("fit", "--config", "run.yaml")
    assert answer.startswith(f"run.yaml:{line}: ")
    assert message in answer


def test_an_unknown_command_kind_or_part_is_answered_with_the_nearest(refused):
    assert "predict" in refused()
    assert "Did you mean 'fit'?" in refused("fti")
    assert "--config gat_lip_30." in refused("fit", "gat_lip_30")
    assert "unknown command '--config'" in refused("--config", "a.yaml", "fit")
    assert "'nrm'. Did you mean 'norm'?" in refused("list", "nrm")
    assert "'pari'. Did you mean 'pair'?" in refused("fit", "--model.norm.help", "pari")


def test_a_command_that_needs_a_trained_model_says_how_to_name_one(refused):
    assert "checkpoints/best.ckpt" in refused("test")
    Path("x.ckpt").write_text("nothing")
    assert "'x.ckpt' cannot be used" in refused("test", "--ckpt_path", "x.ckpt")


@pytest.mark.parametrize("target", ["training.module.make_task", "data.synthetic.Range"])
def test_a_bug_keeps_its_traceback(gnn_depth, monkeypatch, target):
    monkeypatch.setattr(f"gnn_depth.{target}", None)
    with pytest.raises(TypeError, match=r"'NoneType' object is not callable"):
        gnn_depth("fit", *SMALL)


@pytest.mark.parametrize(
    "text",
    [BOMB, EMPTY_BOMB, "[" * 3000 + "]" * 3000, "&x [*x]"],
    ids=["bomb", "bomb of empty lists", "deep", "inside itself"],
)
@pytest.mark.parametrize("place", ["flag", "file", "text in a file", "trusted", "grid"])
def test_yaml_that_grows_without_end_is_refused_wherever_it_stands(refused, text, place):
    quoted = place in ("text in a file", "trusted")
    Path("own.yaml").write_text(f"model:\n  num_layers: {json.dumps(text) if quoted else text}\n")
    words = {"flag": ["fit", "--model.num_layers", text], "grid": ["sweep", "own.yaml"]}
    trusted = ["--trusted-only"] if place == "trusted" else []
    message = refused(*words.get(place, ["fit", "--config", "own.yaml", *trusted]))
    assert "more than 100 deep" in message
    assert len(message) < 300


def test_codes_for_terminals_in_a_message_are_written_out(refused):
    message = refused("fit", "--model.norm", "\x1b[31mpair")
    assert "\x1b" not in message
    assert r"\x1b[31m" in message
