"""gnn-depth probe: what stands in its table, and what it leaves behind, which is nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning import seed_everything

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.words import split
from tests.cli.conftest import SHORT, Answer

GAT = [*SHORT, "--model.layer", "gat", "--model.num_layers", "3", "--model.dropout", "0.5"]
LIP = [*GAT, "--model.norm", "lipschitz"]


def rows(answer: Answer) -> list[list[str]]:
    """The fields of each layer."""
    assert answer.code == 0, answer.err
    return [line.split() for line in answer.out.splitlines() if re.match(r"\d+ {2,}", line)]


def column(answer: Answer, place: int) -> list[float]:
    return [float("nan") if fields[place] == "-" else float(fields[place]) for fields in rows(answer)]


def test_every_layer_has_its_sizes_gradients_constant_and_bound(gnn_depth: Callable):
    answer = gnn_depth("probe", *LIP)
    assert [fields[0] for fields in rows(answer)] == ["1", "2", "3"]
    assert answer.out.startswith("3 layers of GAT on SyntheticCitation, loss ")
    measured, bounds = column(answer, 5), column(answer, 6)
    assert all(0 < value <= bound for value, bound in zip(measured, bounds, strict=True))
    product = measured[0] * measured[1] * measured[2]
    said = re.search(r"product of all layers: measured (\S+), bound (\S+)\.\n", answer.out)
    assert said
    assert float(said[1]) == pytest.approx(product, rel=0.02)
    assert "no bound" not in answer.out


def test_its_numbers_are_those_of_the_untrained_model_without_dropout(gnn_depth: Callable):
    answer = gnn_depth("probe", *LIP, "--model.encoder", "none")
    seed_everything(0, verbose=False)
    cli = CommandLineInterface("probe", split([*LIP, "--model.encoder", "none"]))
    model, batch = cli.model.eval(), cli.datamodule.batch
    entering = [batch.x]
    for place, layer in enumerate(model.stack.layers):
        update = layer(entering[-1], batch.graph)
        entering.append(torch.relu(update) if place < 2 else update)
    entering[1].retain_grad()
    scores = model.stack.decoder(entering[-1])
    torch.nn.functional.cross_entropy(scores[batch.train_mask], batch.y[batch.train_mask]).backward()
    assert column(answer, 1) == pytest.approx([x.norm().item() for x in entering[:3]], rel=0.01)
    assert column(answer, 3)[1] == pytest.approx(entering[1].grad.norm().item(), rel=0.01)
    assert rows(answer)[0][3] == "-", "features of the data have no gradient"
    of_layer = torch.cat([p.grad.flatten() for p in model.stack.layers[0].parameters()]).norm().item()
    assert column(answer, 4)[0] == pytest.approx(of_layer, rel=0.01)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (GAT, "no bound of layers 1 to 3: no norm bounds its attention scores."),
        (
            [*SHORT, "--model.num_layers", "1", "--model.layer", "sage"],
            "no bound of layer 1: none is known of SAGE.",
        ),
        ([*LIP, "--model.norm.form", "released"], "does not bound its scores."),
    ],
)
def test_where_there_is_no_bound_it_says_why(gnn_depth: Callable, words: list[str], why: str):
    answer = gnn_depth("probe", *words)
    assert why in " ".join(answer.out.split())
    assert all(fields[6] == "-" for fields in rows(answer))
    assert "bound unknown" in answer.out


def test_scaled_inputs_stay_below_the_bound_with_the_norm_and_leave_it_without(gnn_depth: Callable):
    # Raw features make scores that the softmax feels.
    words = [
        *SHORT,
        "--model.layer",
        "gat",
        "--model.num_layers",
        "1",
        "--model.encoder",
        "none",
        "--scales",
        "1",
        "1000",
    ]
    normed, plain = gnn_depth("probe", *words, "--model.norm", "lipschitz"), gnn_depth("probe", *words)
    assert "at 1000 X" in normed.out
    assert "at 1 X" not in normed.out
    bound = column(normed, 7)[0]
    assert max(column(normed, 5)[0], column(normed, 6)[0]) <= bound
    assert column(plain, 6)[0] > bound > column(plain, 5)[0]


def test_a_checkpoint_is_probed_instead_of_new_weights(gnn_depth: Callable):
    fitted = gnn_depth("fit", *LIP, "--trainer.max_epochs", "3", "--run.root", "kept")
    assert fitted.code == 0, fitted.err
    checkpoint = next(Path("kept").rglob("last.ckpt"))
    trained = gnn_depth("probe", "--ckpt_path", str(checkpoint))
    assert len(rows(trained)) == 3
    assert column(trained, 5) != column(gnn_depth("probe", *LIP), 5)


def test_nothing_is_written_and_nothing_else_said(gnn_depth: Callable):
    answer = gnn_depth("probe", *LIP)
    assert answer.err.replace("Seed set to 0\n", "") == ""
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.norm", "lipshitz"], "Did you mean 'lipschitz'?"),
        (["--scale", "3"], "Did you mean '--scales'?"),
        (["--scales", "ten"], "scales"),
        (["--scales"], "--scales needs a value."),
        (["--scales", "0"], "--scales are numbers above 0, not 0."),
        (["--scales", "inf"], "scales is a number, not 'inf'."),
        (["--ckpt_path", "missing.ckpt"], "checkpoint 'missing.ckpt' does not exist"),
    ],
)
def test_what_does_not_exist_is_answered_as_for_a_fit(refused: Callable, words: list[str], message: str):
    assert message in refused("probe", *words)
