"""An initialisation that reads the data is given those of the first pass, once."""

import copy
import itertools

import pytest
import torch

import gnn_depth
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.parts import Init
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
