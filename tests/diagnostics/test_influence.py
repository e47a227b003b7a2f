"""The influence by distance equals that of PyTorch Geometric and of a Jacobian by hand."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.utils import erdos_renyi_graph, total_influence

import gnn_depth
from gnn_depth.diagnostics import influence
from gnn_depth.diagnostics.jacobian import hops_to


@pytest.fixture
def graph():
    torch.manual_seed(0)
    edge_index = erdos_renyi_graph(40, 0.06)
    return Data(x=torch.randn(40, 5, dtype=torch.float64), edge_index=edge_index)


def test_influence_by_distance_is_that_of_pytorch_geometric(graph):
    graph.x = graph.x.float()  # their breadth is of float32 alone
    model = GCN(5, 8, num_layers=3, out_channels=2).eval()
    found = influence(model, graph.x, graph.edge_index, nodes=range(40))
    # Within four hops PyTorch Geometric sees all degrees that count.
    torch.manual_seed(0)
    theirs, breadth = total_influence(model, graph, 4, normalize=False)
    ours = np.zeros(5)
    ours[: found.by_hop.shape[1]] = found.by_hop.mean(0)[:5]
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5)
    assert found.range == pytest.approx(breadth, rel=1e-5)


def test_a_stack_is_measured_exactly_in_evaluation_mode_and_left_as_it_was(graph):
    model = gnn_depth.DeepGNN(5, 3, hidden_channels=8, num_layers=4, norm="batch").double()
    model.blocks[0].eval()
    found = influence(model, graph.x, graph.edge_index, nodes=[7])
    assert [block.training for block in model.blocks] == [False, True, True, True]
    model.eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x, graph.edge_index)[7], graph.x)
    by_node = jacobian.abs().sum((0, 2))
    distance = hops_to(7, graph.edge_index, 40)
    for hop, value in enumerate(found.by_hop[0]):
        assert value == pytest.approx(by_node[distance == hop].sum().item(), rel=1e-10, abs=1e-14)
    assert found.by_hop[0, 5:].sum() == 0


@pytest.mark.parametrize("variant", [{"checkpoint_every": 2}, {"reversible": 2}])
def test_stacks_that_recompute_their_states_go_backwards_for_every_node(graph, variant):
    options = {"hidden_channels": 8, "num_layers": 6, "skip": "residual", **variant}
    model = gnn_depth.DeepGNN(5, 3, **options).double()
    found = influence(model, graph.x, graph.edge_index, [3, 4])
    for row, node in enumerate(found.nodes):
        alone = influence(model, graph.x, graph.edge_index, [int(node)]).by_hop[0]
        assert found.by_hop[row, : len(alone)] == pytest.approx(alone, rel=1e-9)


def test_a_node_that_copies_its_fourth_neighbour_has_range_four():
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x = torch.randn(5, 2)
    found = influence(lambda x, edge_index: x.roll(4, 0), x, path, nodes=[4])
    assert found.range == 4
    assert found.hops_within(0.9) == 4
    assert found.shares.tolist() == [0, 0, 0, 0, 1]


def test_influence_without_a_path_is_reported_and_not_counted_as_near():
    halves = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    x = torch.randn(4, 2)
    found = influence(lambda x, edge_index: x - x.mean(0), x, halves, nodes=[0])
    assert found.without_path[0] == pytest.approx(1.0)
    assert found.hops_within(0.9) is None
    assert "no path" in str(found)


def test_nodes_that_read_nothing_are_counted_and_undefined_outputs_refused():
    edges = torch.tensor([[0, 1], [1, 0]])
    found = influence(lambda x, _: x * torch.tensor([[1.0], [0.0]]), torch.ones(2, 1), edges)
    assert found.shares.tolist() == [1, 0]
    assert "1 of the nodes read nothing" in str(found)
    with pytest.raises(ValueError, match="read nothing"):
        influence(lambda x, _: 0 * x, torch.ones(2, 1), edges)
    with pytest.raises(ValueError, match="NaN or infinite"):
        influence(lambda x, _: x * torch.nan, torch.ones(2, 1), edges)
    with pytest.raises(ValueError, match="no nodes"):
        influence(lambda x, _: x, torch.ones(2, 1), edges, nodes=0)
