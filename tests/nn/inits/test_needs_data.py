"""An initialisation that reads the data is given those of the first pass, once."""

import copy
import itertools

import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import GraphSource
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.parts import Init
from gnn_depth.training import NodeClassifier
from tests.nn.inits.conftest import NODES


class Counting(Init):
    """Xavier; counts its calls, and sets every bias to the mean of the features."""

    needs_data = True

    def __init__(self) -> None:
        self.calls = []

    def draw(self, stack):
        gnn_depth.build("init", "xavier").draw(stack)

    def calibrate(self, stack, x, graph):
        self.calls.append((tuple(x.shape), graph.num_nodes))
        for layer in stack.layers:
            layer.bias.fill_(float(x.mean()))


def test_data_is_read_once_in_the_first_pass_of_any_mode(data):
    x, graph = data
    for mode, evaluates in itertools.product((True, False), (True, False)):
        init = Counting()
        stack = DeepGNN(9, 3, num_layers=2, init=init).train(mode)
        if evaluates:
            with torch.inference_mode():
                stack(x, graph)
        for _ in range(2):
            stack(x, graph)
        stack.train()(x, graph).sum().backward()
        assert init.calls == [((NODES, 9), NODES)]
        assert stack.layers[0].bias.detach().tolist() == pytest.approx([float(x.mean())] * 64)


def test_loaded_parameters_and_copies_are_not_calibrated_again(data):
    x, graph = data
    first, second = Counting(), Counting()
    stack = DeepGNN(9, 3, num_layers=2, init=first)
    out = stack(x, graph)
    other = DeepGNN(9, 3, num_layers=2, init=second)
    other.load_state_dict(stack.state_dict())
    torch.testing.assert_close(other(x, graph), out)
    torch.testing.assert_close(copy.deepcopy(stack)(x, graph), out)
    assert second.calls == []
    second(other)  # drawn again
    other(2 * x, graph)
    assert len(second.calls) == 1


def test_training_probing_and_a_stack_alone_start_from_the_same_parameters(
    data, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    x, graph = data
    y = torch.arange(NODES) % 3
    source = GraphSource(Data(x=x, edge_index=graph.edge_index, y=y))
    stack = {"num_layers": 3, "hidden_channels": 8, "init": "critical", "activation": "tanh"}
    options = {**stack, "optimizer": {"name": "SGD", "lr": 0.0}}
    run = gnn_depth.fit(options, source, max_epochs=1, seed=4, progress=False)
    trained = run.model.stack.state_dict()
    torch.manual_seed(4)
    alone = DeepGNN(9, 3, **stack)
    alone(source.batch.x, source.batch.graph)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(trained[name], value)
    torch.manual_seed(4)
    model = NodeClassifier(9, 3, **options)
    gnn_depth.probe(model, source.batch)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(model.stack.state_dict()[name], value)
