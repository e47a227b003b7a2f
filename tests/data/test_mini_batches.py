"""Parts of a graph to train on: who is in which batch, and that nothing of the graph is lost or made up."""

import logging
from contextlib import suppress
from itertools import chain

import lightning as L
import pytest
import torch

from gnn_depth import DeepGNN
from gnn_depth.data import DataError, FullBatch, MiniBatches, MissingFeatures, NodeBatch, NodeDataModule
from gnn_depth.data.draws import Draws
from gnn_depth.data.node_parts import PartLoader
from gnn_depth.data.subgraphs import induced, sampled
from gnn_depth.graph import Graph
from gnn_depth.nn.layers import SAGE

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

NODES, TRAINED, PARTS = 60, 23, 4
METHODS = ("random", "partition", "neighbor")


class Ring(NodeDataModule):
    """Sixty nodes on a ring with some chords; a node's feature is its number, its class the remainder by three."""

    num_classes = 3

    def load(self):
        node = torch.arange(NODES)
        chords = torch.randint(NODES, (2, 90), generator=torch.Generator().manual_seed(0))
        edges = torch.cat([torch.stack([node, (node + 1) % NODES]), torch.stack([(node + 1) % NODES, node]), chords], 1)
        train = torch.zeros(NODES, dtype=torch.bool)
        train[Draws(0, "trained").permutation(NODES)[:TRAINED]] = True
        val = ~train & (node % 2 == 0)
        return NodeBatch(node[:, None].float(), node % 3, Graph(edges, NODES), train, val, ~train & ~val)


def mini(method="random", parts=PARTS, **options):
    options |= {"chunks": 2} if method == "partition" else {"neighbors": [3, 2]} if method == "neighbor" else {}
    return MiniBatches(Ring(), method, parts, **options)


def batches(data, epoch=0):
    loader = data.train_dataloader()
    loader.sampler.set_epoch(epoch)
    return list(loader)


def nodes_of(batch):
    return batch.x[:, 0].long()


def seeds_of(batch):
    return nodes_of(batch)[: len(batch.y)]


def plain(batch):
    return [part.tolist() for part in (batch.x, batch.y, batch.graph.edge_index)]


@pytest.mark.parametrize("method", METHODS)
def test_an_epoch_trains_once_on_every_training_node_and_on_no_other(method):
    data = mini(method)
    for epoch in (0, 3):
        found = batches(data, epoch)
        trained = torch.cat([seeds_of(batch) for batch in found])
        assert trained.sort().values.tolist() == data.source.batch.train_mask.nonzero().flatten().tolist()
        assert len(found) == len(data.train_dataloader()) == PARTS
        assert all(len(batch.y) > 0 for batch in found)


@pytest.mark.parametrize("method", METHODS)
def test_training_nodes_come_first_with_their_classes_and_only_they_are_read(method):
    for batch in batches(mini(method)):
        assert torch.equal(batch.y, seeds_of(batch) % 3)
        assert batch.train_mask.all()
        assert not batch.val_mask.any()
        assert not batch.test_mask.any()
        assert len(batch.x) == batch.graph.num_nodes == len(set(nodes_of(batch).tolist()))


@pytest.mark.parametrize("method", ["random", "partition"])
def test_parts_share_out_all_nodes_and_have_all_edges_inside(method):
    data = mini(method)
    whole = data.source.batch.graph.edge_index
    found = batches(data)
    assert torch.cat([nodes_of(batch) for batch in found]).sort().values.tolist() == list(range(NODES))
    for batch in found:
        nodes = nodes_of(batch)
        inside = whole[:, torch.isin(whole, nodes).all(0)]
        assert sorted(nodes[batch.graph.edge_index].T.tolist()) == sorted(inside.T.tolist())


def test_drawn_edges_are_of_the_graph_as_many_as_asked_for_and_none_twice():
    graph = Ring().batch.graph
    seeds, sizes = torch.tensor([5, 17, 40]), [3, 2]
    nodes, part = sampled(graph, seeds, sizes, Draws(0, "test"))
    assert nodes[:3].tolist() == seeds.tolist()
    assert len(set(nodes.tolist())) == len(nodes) == part.num_nodes
    known, drawn = graph.edge_index.T.tolist(), nodes[part.edge_index].T.tolist()
    assert all(drawn.count(edge) <= known.count(edge) for edge in drawn)
    first = len(set(nodes[part.source[part.target < 3]].tolist()) - set(seeds.tolist()))
    degree = graph.in_degree[nodes]
    assert part.in_degree[:3].tolist() == degree[:3].clamp_max(3).tolist()
    assert part.in_degree[3 : 3 + first].tolist() == degree[3 : 3 + first].clamp_max(2).tolist()
    assert not part.in_degree[3 + first :].any()


def test_neighbours_are_drawn_evenly():
    star = Graph(torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.long)]), 9)
    counts = torch.zeros(9)
    for seed in range(800):
        counts[sampled(star, torch.tensor([0]), [2], Draws(seed, "test"))[0][1:]] += 1
    assert counts[1:].sum() == 1600
    assert (counts[1:] - 200).abs().max() < 60  # five standard deviations


def test_a_sample_of_all_neighbours_gives_the_training_nodes_what_the_whole_graph_gives():
    graph = Ring().batch.graph
    seeds = torch.tensor([3, 30])
    nodes, part = sampled(graph, seeds, [NODES, NODES], Draws(0, "test"))
    assert len(nodes) < NODES
    x, model = torch.randn(NODES, 5).double(), DeepGNN(5, 3, SAGE, 2, 8).double().eval()
    torch.testing.assert_close(model(x[nodes], part, 2), model(x, graph)[seeds])


def test_an_induced_subgraph_keeps_repeated_edges_and_loops(graph):
    part = induced(graph, torch.tensor([7, 5, 2, 6]))
    assert sorted(part.edge_index.T.tolist()) == [[0, 0], [0, 3], [1, 2], [1, 2], [3, 1], [3, 2]]


@pytest.mark.parametrize("method", METHODS)
def test_batches_depend_on_seed_and_epoch_alone(method):
    torch.manual_seed(1)
    late = [plain(batch) for batch in batches(mini(method), 5)]
    torch.manual_seed(2)
    data = mini(method)
    by_epoch = [[plain(batch) for batch in batches(data, epoch)] for epoch in range(6)]
    assert by_epoch[5] == late
    assert all(one != other for place, one in enumerate(by_epoch) for other in by_epoch[:place])
    assert [plain(batch) for batch in batches(mini(method, seed=1))] != by_epoch[0]


@pytest.mark.parametrize("method", METHODS)
def test_processes_take_turns_and_have_equally_many_batches(method):
    data = mini(method)
    alone = [plain(batch) for batch in batches(data)]
    shares = [PartLoader(data.all_parts, rank, 2, int) for rank in range(2)]
    assert [len(share) for share in shares] == [PARTS // 2] * 2
    together = [plain(batch) for batch in chain(*zip(*shares))]
    assert together == alone


def test_parts_that_the_processes_do_not_divide_are_refused():
    with pytest.raises(DataError, match="all 3 processes together, and they do not divide it: take 3 or 6"):
        PartLoader(mini().all_parts, 0, 3, int)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parts": 0}, "parts must be at least 1, not 0"),
        ({"chunks": 3}, "chunks is an option of method partition, and method is random"),
        ({"neighbors": [5]}, "neighbors is an option of method neighbor, and method is random"),
        ({"method": "neighbor", "neighbors": []}, "neighbors is empty"),
        ({"method": "neighbor", "neighbors": [5, 0]}, "neighbors must be at least 1, not 0"),
        ({"method": "partition", "chunks": 0}, "chunks must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_options_out_of_range_or_of_another_method_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        MiniBatches(Ring(), **options)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            lambda: MiniBatches(Ring(), parts=24),
            "parts is 24, but there are only 23 training nodes.* parts 23 or fewer",
        ),
        (lambda: MiniBatches(Ring(), "neighbor", 24), "only 23 training nodes"),
        (lambda: MiniBatches(Ring(), "partition", 24, chunks=2), "only [0-9]+ chunks that have training nodes"),
        (lambda: MiniBatches(Ring(), "partition", 20, chunks=4), "more chunks than the graph has nodes, 60"),
    ],
)
def test_more_parts_than_can_be_trained_on_are_refused(data, words):
    with pytest.raises(DataError, match=words):
        data().train_dataloader()


def test_evaluation_and_predictions_see_the_whole_graph_of_the_source():
    data = mini()
    for loader in (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader()):
        assert isinstance(loader, FullBatch)
        assert loader.batch is data.source.batch


def test_what_is_known_of_the_source_is_known_of_its_parts():
    source = MissingFeatures(Ring(), 0.5)
    data = MiniBatches(source)
    assert (data.num_features, data.num_classes, data.task) == (1, 3, "multiclass")
    assert data.checksum == source.checksum
    assert data.missing_hash == source.missing_hash
    assert torch.equal(data.missing_mask, source.missing_mask)
    assert mini().missing_mask is mini().missing_hash is None


class Listener(L.LightningModule):
    """Learns nothing, and notes the training nodes of each batch; stops dead before one."""

    def __init__(self, stop_before=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.heard, self.stop_before = [], stop_before

    def training_step(self, batch, batch_idx):
        if self.global_step == self.stop_before:
            raise KeyboardInterrupt
        self.heard.append((self.current_epoch, plain(batch)))
        return self.weight * 0

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveWhenStopped(L.Callback):
    def __init__(self, path):
        self.path = path

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.path)


def listen(path, resume=False, stop_before=None):
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
    module = Listener(stop_before)
    trainer = L.Trainer(max_epochs=3, accelerator="cpu", callbacks=[SaveWhenStopped(path)], **quiet)
    with suppress(SystemExit):  # Lightning's answer to Ctrl-C
        trainer.fit(module, datamodule=mini("neighbor"), ckpt_path=path if resume else None)
    return module.heard


def test_a_training_that_is_resumed_in_an_epoch_sees_the_batches_that_were_left(tmp_path):
    whole = listen(tmp_path / "whole.ckpt")
    assert [epoch for epoch, _ in whole] == [0] * 4 + [1] * 4 + [2] * 4
    first = listen(tmp_path / "kept.ckpt", stop_before=6)
    assert first + listen(tmp_path / "kept.ckpt", resume=True) == whole
