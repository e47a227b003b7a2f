"""Sets of many graphs: pooled targets, batches of graphs, generated graphs, and PyTorch
Geometric's data sets."""

import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from gnn_depth import DeepGNN
from gnn_depth.data import (
    GraphSource,
    GraphTransfer,
    PyG,
)
from gnn_depth.data.generated import transfer_edges
from gnn_depth.graph import Graph


def drawn(number, y, nodes=None):
    """A small random graph."""
    draws = torch.Generator().manual_seed(number)
    size = nodes or int(torch.randint(2, 6, (), generator=draws))
    edges = torch.randint(size, (2, 2 * size), generator=draws)
    return Data(x=torch.randn(size, 3, generator=draws), edge_index=edges, y=y)


def graph_of(data):
    return Graph(data.edge_index, data.num_nodes, data.batch)


@pytest.fixture
def graphs():
    return [drawn(number, torch.tensor([number % 3])) for number in range(12)]


@pytest.mark.parametrize(
    ("pool", "of_pyg"),
    [("mean", global_mean_pool), ("sum", global_add_pool), ("max", global_max_pool)],
)
def test_pooled_outputs_are_those_of_each_graph_alone_and_of_pyg(graphs, pool, of_pyg):
    torch.manual_seed(0)
    stack = DeepGNN(3, 4, layer="sage", norm="pair", num_layers=3, hidden_channels=8).double()
    batch = next(iter(DataLoader(graphs, batch_size=12)))
    together = stack(batch.x.double(), graph_of(batch), pool=pool)
    alone = [stack(one.x.double(), graph_of(one), pool=pool) for one in graphs]
    torch.testing.assert_close(together, torch.cat(alone))
    states = {}
    handle = stack.decoder.register_forward_pre_hook(
        lambda module, inputs: states.update(pooled=inputs[0])
    )
    stack(batch.x.double(), graph_of(batch), pool=pool)
    pooled = states["pooled"]
    stack(batch.x.double(), graph_of(batch))
    handle.remove()
    torch.testing.assert_close(pooled, of_pyg(states["pooled"], batch.batch))


def test_every_training_graph_is_in_one_batch_of_an_epoch_and_epochs_differ(graphs):
    data = GraphSource(graphs, batch_size=3, split=[0.8, 0.2])
    loader = data.train_dataloader()
    seen = []
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        batches = list(loader)
        assert len(batches) == len(loader) == 4
        seen.append(sorted(row for batch in batches for row in batch.x.tolist()))
        order = [batch.y.tolist() for batch in batches]
    assert seen[0] == seen[1]
    loader.set_epoch(0)
    assert [batch.y.tolist() for batch in loader] != order
    trained = data.batch.graph.node_to_graph
    assert len(seen[0]) == int(data.batch.train_mask[trained].sum())


@pytest.mark.parametrize(
    ("count", "batch_size", "sizes"),
    [(5, 2, [2, 2, 1]), (7, 4, [4, 3]), (5, 9, [5]), (130, None, [44, 43, 43]), (64, None, [64])],
)
def test_a_batch_has_at_most_the_asked_number_of_graphs_and_64_by_default(count, batch_size, sizes):
    graphs = [drawn(number, torch.tensor([number % 2]), nodes=2) for number in range(count)]
    data = GraphSource(graphs, split=[1.0, 0.0], batch_size=batch_size)
    assert [int(batch.train_mask.sum()) for batch in data.train_dataloader()] == sizes


@pytest.mark.parametrize(
    ("y", "task", "outputs", "per_graph"),
    [
        (lambda k: torch.tensor([k % 3]), "multiclass", 3, True),
        (lambda k: torch.tensor([[0.5 * k]]), "regression", 1, True),
        (lambda k: torch.tensor([[k % 2, 1]]), "multilabel", 2, True),
        (lambda k: torch.arange(4) % 3, "multiclass", 3, False),
        (lambda k: torch.rand(4, 2), "regression", 2, False),
    ],
)
def test_the_task_and_whether_graphs_have_targets_follow_from_y(y, task, outputs, per_graph):
    data = GraphSource([drawn(number, y(number), nodes=4) for number in range(6)])
    assert (data.task, data.num_classes, data.per_graph) == (task, outputs, per_graph)


def test_data_sets_of_pyg_are_found_by_name_and_generated_from_the_seed():
    options = {"num_graphs": 8, "avg_num_nodes": 5, "task": "graph", "num_classes": 3}
    data = PyG("FakeDataset", options=options)
    assert (data.task, data.per_graph, data.batch.graph.num_graphs) == ("multiclass", True, 8)
    assert data.checksum == PyG("FakeDataset", options=options).checksum
    assert data.checksum != PyG("FakeDataset", options=options, seed=1).checksum
    for make, words in (
        (lambda: PyG("FakeDatasett"), "'FakeDataset'"),
        (lambda: PyG("KarateClub", options={"transfrom": None}).batch, "refuses .*'transfrom'"),
        (lambda: PyG("no.such.Set"), "cannot be imported"),
    ):
        with pytest.raises(ValueError, match=words):
            make()


@pytest.mark.parametrize("shape", ["line", "ring", "crossed_ring"])
def test_the_target_is_at_the_asked_distance_and_knows_nothing_itself(shape):
    edges, size = transfer_edges(shape, 5)
    roads = csr_array((torch.ones(edges.shape[1]), edges.numpy()), shape=(size, size))
    assert dijkstra(roads, directed=False, indices=0)[5] == 5
    batch = GraphTransfer(shape, 5, num_classes=3, num_graphs=10).batch
    x, y = batch.x.view(10, size, 3), batch.y.view(10, size)
    assert torch.equal(x[:, 0].argmax(1), y[:, 5])
    assert not x[:, 5].any()
    assert [int(mask.sum()) for mask in batch.masks] == [6, 2, 2]
    assert sum(batch.masks).view(10, size)[:, 5].all()


class InParts(list):
    """A data set that is divided into parts, as ZINC is: graphs of three nodes."""

    def __init__(self, split: str = "train", per_graph: bool = True):
        count = {"train": 3, "val": 1, "test": 2}[split]
        graphs = []
        for number in range(count):
            y = torch.tensor([number % 2]) if per_graph else torch.arange(3)
            graphs.append(drawn(count, y, nodes=3))
        super().__init__(graphs)


@pytest.mark.parametrize("per_graph", [True, False])
def test_the_parts_of_a_data_set_are_its_split(per_graph):
    data = PyG(f"{__name__}.InParts", options={"per_graph": per_graph})
    assert [int(mask.sum()) for mask in data.batch.masks] == [
        size * (1 if per_graph else 3) for size in (3, 1, 2)
    ]
    assert data.batch.train_mask[: 3 if per_graph else 9].all()
