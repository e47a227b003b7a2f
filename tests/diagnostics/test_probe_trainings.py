"""Short trainings beside a probe are the trainings that they claim to be."""

import copy

import pytest
import torch

from gnn_depth.diagnostics.probe.trainings import short_trainings
from gnn_depth.training.module import NodeClassifier


def test_losses_and_gradients_are_those_of_a_loop_by_hand():
    x, edge_index = torch.randn(12, 5), torch.randint(0, 12, (2, 40))
    y = torch.randint(0, 3, (12,))
    built = {}

    def build(options):
        torch.manual_seed(options["num_layers"])
        model = NodeClassifier(5, 3, hidden_channels=8, **options)
        built[options["num_layers"]] = copy.deepcopy(model)
        return model

    def loss_of(model):
        return torch.nn.functional.cross_entropy(model(x, edge_index), y)

    options = {"num_layers": 7, "optimizer": {"name": "SGD", "lr": 0.5}}
    table = short_trainings(build, options, loss_of, steps=8)
    assert table.index.tolist() == [1, 2, 4, 8]
    for num_layers in (7, 4):
        model = built[num_layers].train()
        for step in range(1, 9):
            model.zero_grad()
            loss = loss_of(model)
            loss.backward()
            if step in table.index:
                gradients = [p.grad.flatten() for p in model.stack.layers[0].parameters()]
                row = table.loc[step]
                assert row[f"loss, {num_layers} layers"] == pytest.approx(loss.item())
                norm = torch.cat(gradients).norm().item()
                assert row[f"gradient, {num_layers} layers"] == pytest.approx(norm, rel=1e-5)
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.5 * parameter.grad
