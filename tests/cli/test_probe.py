"""gnn-depth probe: what stands in its table, and what it leaves behind, which is nothing."""

import math
import re
from pathlib import Path

import pytest
import torch
from lightning import seed_everything

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.config import read_arguments
from tests.cli.conftest import SHORT, Answer

GAT = [*SHORT, "--model.layer", "gat", "--model.num_layers", "3", "--model.dropout", "0.5"]
LIP = [*GAT, "--model.norm", "lipschitz"]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A terminal in which all columns stand side by side."""
    monkeypatch.setenv("COLUMNS", "220")


def table(answer: Answer) -> dict[str, list[float]]:
    """The numbers of every column, layer by layer; NaN where nothing stands."""
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    head = next(
        re.sub(r"at (\S+) X", r"at_\1", line).split() for line in lines if line.startswith("layer ")
    )
    fields = [line.split() for line in lines if re.match(r"\d+ {2,}", line)]
    return {
        name: [math.nan if row[place] == "-" else float(row[place]) for row in fields]
        for place, name in enumerate(head)
    }


def mu(x: torch.Tensor) -> float:
    return (x - x.mean(0)).norm().item()


def test_its_numbers_are_those_of_the_untrained_model_without_dropout(gnn_depth):
    words = [*LIP, "--model.encoder", "none"]
    columns = table(gnn_depth("probe", *words))
    seed_everything(0, verbose=False)
    cli = CommandLineInterface("probe", read_arguments(words))
    model, batch = cli.model.eval(), cli.datamodule.batch
    entering = [batch.x]
    for place, layer in enumerate(model.stack.layers):
        update = layer(entering[-1], batch.graph)
        entering.append(torch.relu(update) if place < 2 else update)
    entering[1].retain_grad()
    scores, train = model.stack.decoder(entering[-1]), batch.train_mask
    torch.nn.functional.cross_entropy(scores[train], batch.y[train]).backward()
    for position, x in enumerate(entering[:3]):
        assert columns["||X||"][position] == pytest.approx(x.norm().item(), rel=0.01)
        assert columns["mu(X)"][position] == pytest.approx(mu(x), rel=0.01)
    gradient = entering[1].grad
    assert columns["||G||"][1] == pytest.approx(gradient.norm().item(), rel=0.01)
    assert columns["mu(G)"][1] == pytest.approx(mu(gradient), rel=0.01)
    assert math.isnan(columns["||G||"][0])  # features of the data have no gradient
    slopes = [p.grad.flatten() for p in model.stack.layers[0].parameters()]
    assert columns["||dW||"][0] == pytest.approx(torch.cat(slopes).norm().item(), rel=0.01)


def test_neurons_of_a_balanced_initialisation_are_seen_to_be_balanced_and_to_obey_the_law(
    gnn_depth,
):
    columns = table(gnn_depth("probe", *GAT, "--model.init", "balanced_orthogonal"))
    assert max(columns["|c|"]) < 1e-5
    assert max(columns["delta"]) < 1e-6
    answer = gnn_depth("probe", *GAT)
    assert max(table(answer)["|c|"]) > 0.01
    assert "bounds unknown" in answer.out


def test_a_checkpoint_is_probed_instead_of_new_weights(done, gnn_depth):
    lip = [*LIP, "--model.num_layers", "1"]
    words = ["--trainer.max_epochs", "1", "--model.optimizer.lr", "0.5", "--run.root", "kept"]
    done("fit", *lip, *words)
    checkpoint = next(Path("kept").rglob("last.ckpt"))
    trained = gnn_depth("probe", "--ckpt_path", str(checkpoint))
    assert f"at {checkpoint}" in trained.out
    assert len(table(trained)["layer"]) == 1
    assert table(trained)["constant"] != table(gnn_depth("probe", *lip))["constant"]
