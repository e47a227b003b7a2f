"""Parts of a graph to train on: who is in which batch, and that nothing of the graph is lost or
made up."""

from itertools import chain
from unittest.mock import Mock

import lightning as L
import pytest
import torch

from gnn_depth.data import DataError, GraphSource, MiniBatches, TreeNeighborsMatch
from gnn_depth.data.loaders import share
from gnn_depth.data.mini_batches import induced_subgraph

NODES, TRAINED, PARTS = 60, 23, 4
METHODS = ("random", "partition")


def ring():
    """Sixty nodes on a ring with some chords; a node's feature is its number, its class the
    remainder by three."""
    node = torch.arange(NODES)
    chords = torch.randint(NODES, (2, 90), generator=torch.Generator().manual_seed(0))
    one_way = torch.stack([node, (node + 1) % NODES])
    edges = torch.cat([one_way, one_way.flip(0), chords], 1)
    split = [TRAINED / NODES, 0.3]
    return GraphSource(
        {"x": node[:, None].float(), "y": node % 3, "edge_index": edges}, split=split
    )


def mini(method="random", parts=PARTS):
    return MiniBatches(ring(), method, parts, chunks=2)


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
def test_an_epoch_trains_once_on_every_training_node_and_these_come_first_with_their_classes(
    method,
):
    data = mini(method)
    for epoch in (0, 3):
        found = batches(data, epoch)
        trained = torch.cat([seeds_of(batch) for batch in found])
        assert (
            trained.sort().values.tolist()
            == data.source.batch.train_mask.nonzero().flatten().tolist()
        )
        assert len(found) == len(data.train_dataloader()) == PARTS
        for batch in found:
            assert len(batch.y) > 0
            assert torch.equal(batch.y, seeds_of(batch) % 3)
            assert batch.train_mask.all()
            assert not (batch.val_mask | batch.test_mask).any()
            assert len(batch.x) == batch.graph.num_nodes == len(set(nodes_of(batch).tolist()))


def test_an_induced_subgraph_keeps_repeated_edges_and_loops(graph):
    part = induced_subgraph(graph, torch.tensor([7, 5, 2, 6]))
    assert sorted(part.edge_index.T.tolist()) == [[0, 0], [0, 3], [1, 2], [1, 2], [3, 1], [3, 2]]


@pytest.mark.parametrize("method", METHODS)
def test_processes_take_turns_and_have_equally_many_batches(method):
    alone = [plain(batch) for batch in batches(mini(method))]
    shares = []
    for rank in range(2):
        data = mini(method)
        data.trainer = Mock(spec=L.Trainer, global_rank=rank, world_size=2)
        shares.append(data.train_dataloader())
    assert [len(one) for one in shares] == [PARTS // 2] * 2
    assert [plain(batch) for batch in chain(*zip(*shares))] == alone


def test_what_the_processes_do_not_divide_is_refused():
    trainer = Mock(spec=L.Trainer, global_rank=3, world_size=4)
    with pytest.raises(DataError, match="batch_size 1022 .*4 processes"):
        share(trainer, "batch_size", 1022)
    assert share(trainer, "batch_size", 1024) == (3, 4)
    assert share(None, "batch_size", 3) == (0, 1)


@pytest.mark.parametrize("make", [mini, lambda: TreeNeighborsMatch(depth=2, batch_size=16)])
def test_a_resumed_loader_leaves_out_the_batches_that_were_read_and_the_next_epoch_is_whole(make):
    data = make()
    data.trainer = Mock(global_rank=0, world_size=1)
    data.trainer.fit_loop.epoch_loop.batch_progress.current.ready = 2
    loader = data.train_dataloader()
    whole = [plain(batch) for batch in loader]
    loader.load_state_dict({})
    assert [plain(batch) for batch in loader] == whole[2:]
    assert [plain(batch) for batch in loader] == whole
