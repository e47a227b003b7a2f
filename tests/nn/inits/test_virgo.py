"""VirGo, and the promise of an initialisation to read the data of the first pass."""

import copy
import itertools

import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import GraphSource
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import VirGo
from gnn_depth.nn.parts import Init
from gnn_depth.training import NodeClassifier
from tests.nn.inits.conftest import NODES, normed_adjacency

BARE = {"encoder": "none", "decoder": "none"}


def slow_variances(x, graph, widths, direction):
    """The formulas with a dense matrix and its powers; the last layer gives the class scores."""
    normed = normed_adjacency(graph)
    depth = len(widths) - 1

    def size(vector, power):
        return float((torch.linalg.matrix_power(normed, power) @ vector).square().sum())

    mean, ones = x.double().mean(1), torch.ones(NODES, dtype=torch.float64)
    forward, backward = [], []
    for layer in range(1, depth + 1):
        ratio = 1 if layer == 1 else size(mean, layer - 1) / size(mean, layer)
        forward.append(2 / widths[layer - 1] * ratio)
        ratio = size(ones, depth - layer) / size(ones, depth - layer + 1)
        factor = 1 / (widths[-1] - 1) if layer == depth else 2 / widths[layer]
        backward.append(factor * ratio)
    both = [2 / (1 / one + 1 / other) for one, other in zip(forward, backward, strict=True)]
    return {"forward": forward, "backward": backward, "both": both}[direction]


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_matrices_are_uniform_with_the_variances_of_a_slow_reference(data, direction):
    x, graph = data
    for num_layers in (1, 2, 5):
        widths = [9, *[200] * (num_layers - 1), 3]
        torch.manual_seed(0)
        stack = DeepGNN(
            9, 3, "gcn", num_layers, 200, init={"name": "virgo", "direction": direction}, **BARE
        )
        before = [layer.lin.weight.detach().clone() for layer in stack.layers]
        stack(x, graph)
        wanted = slow_variances(x, graph, widths, direction)
        for layer, drawn, variance in zip(stack.layers, before, wanted, strict=True):
            weight = layer.lin.weight.detach()
            torch.testing.assert_close(weight, drawn * variance**0.5)
            assert weight.abs().max() <= (3 * variance) ** 0.5 * (1 + 1e-6)
            assert weight.var() == pytest.approx(variance, rel=0.3)


def test_deep_states_keep_their_size_where_those_of_xavier_vanish(data):
    x, graph = data
    sizes = {}
    for init in ("virgo", "xavier"):
        logs = []
        for seed in range(5):
            torch.manual_seed(seed)
            stack = DeepGNN(
                9,
                9,
                "gcn",
                24,
                128,
                init={"name": "virgo", "direction": "forward"} if init == "virgo" else init,
                **BARE,
            )
            seen = []
            for block in stack.blocks:
                block.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out.norm()))
            with torch.no_grad():
                stack(x, graph)
            logs.append((seen[-2] / seen[0]).log())
        sizes[init] = torch.stack(logs).mean().exp()
    assert 0.02 < sizes["virgo"] < 50
    assert sizes["xavier"] < 1e-3


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
    options = {"num_layers": 3, "hidden_channels": 8, "init": "virgo", "optimizer": SGD_OF_ZERO}
    run = gnn_depth.fit(options, source, max_epochs=1, seed=4, progress=False)
    trained = run.model.stack.state_dict()
    torch.manual_seed(4)
    alone = DeepGNN(9, 3, num_layers=3, hidden_channels=8, init="virgo")
    alone(source.batch.x, source.batch.graph)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(trained[name], value)
    torch.manual_seed(4)
    model = NodeClassifier(9, 3, **options)
    gnn_depth.probe(model, source.batch)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(model.stack.state_dict()[name], value)


SGD_OF_ZERO = {"name": "SGD", "lr": 0.0}


def test_what_virgo_cannot_draw_is_refused_with_the_way_out(data):
    x, graph = data
    with pytest.raises(ValueError, match="share_layers false"):
        DeepGNN(9, 3, num_layers=3, share_layers=True, init="virgo")
    with pytest.raises(ValueError, match="decoder linear"):
        DeepGNN(9, 1, num_layers=3, init="virgo", **BARE)
    with pytest.raises(ValueError, match="weight chain"):
        DeepGNN(9, 3, layer="unitary", init="virgo")
    stack = DeepGNN(9, 3, init="virgo")
    with pytest.raises(ValueError, match="direction backward"):
        stack(torch.zeros_like(x), graph)
    DeepGNN(9, 3, init=VirGo("backward"))(torch.zeros_like(x), graph)
    embedded = DeepGNN((4, 4), 3, encoder="embedding", init="virgo")
    with pytest.raises(ValueError, match="integers"):
        embedded(torch.ones(NODES, 2, dtype=torch.long), graph)
