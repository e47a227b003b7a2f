"""Tree-NeighborsMatch: the published construction, found again by walking the trees."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data import TreeNeighborsMatch
from gnn_depth.data.trees import training_batches

CHECKSUM = "cc1f8f1c091b31a4b290f26819b739053a98b439009a7e2105b2f5192b011655"


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("stage", ["train", "val"])
def test_the_class_is_the_value_of_the_leaf_whose_key_the_root_holds(depth, stage):
    data = TreeNeighborsMatch(depth=depth, batch_size=7)
    batch = next(iter(data.train_dataloader() if stage == "train" else data.val_dataloader()))
    senders = {node: set() for node in range(batch.graph.num_nodes)}
    for source, target in batch.graph.edge_index.T.tolist():
        senders[target].add(source)
    assert all(node in sources for node, sources in senders.items())  # self-loops
    for root in range(7):
        level, seen = [root], {root}
        for _ in range(depth):
            assert all(batch.x[node].tolist() == [0, 0] for node in level if node != root)
            children = [child for node in level for child in sorted(senders[node] - {node})]
            assert len(children) == 2 * len(level)
            level, seen = children, seen | set(children)
        assert all(senders[leaf] == {leaf} for leaf in level)
        assert len(seen) == 2 ** (depth + 1) - 1
        assert {int(batch.graph.node_to_graph[node]) for node in seen} == {root}
        selected, nothing = batch.x[root].tolist()
        pairs = batch.x[level].tolist()
        assert [key for key, _ in pairs] == list(range(1, 2**depth + 1))
        assert sorted(value for _, value in pairs) == list(range(1, 2**depth + 1))
        assert (nothing, int(batch.y[root]) + 1) == (0, dict(pairs)[selected])


def test_the_examples_are_those_of_every_machine_and_differ_by_depth_seed_and_split():
    assert TreeNeighborsMatch(depth=5, batch_size=3, passes=2).checksum == CHECKSUM
    options = [{}, {"depth": 4}, {"seed": 1}]
    assert len({TreeNeighborsMatch(**option).checksum for option in options}) == 3


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 60))
def test_processes_share_the_batches_of_one_process_in_equal_parts(processes, each, more):
    order, size = 3 * torch.arange(processes + more), processes * each
    alone = training_batches(order, size, 0, 1)
    assert torch.equal(torch.cat(alone), order)
    assert all(len(batch) == size for batch in alone[:-1])
    shares = [training_batches(order, size, rank, processes) for rank in range(processes)]
    for ours, theirs in zip(zip(*shares, strict=True), alone, strict=False):
        assert len(set(map(len, ours))) == 1
        merged = torch.cat(ours).sort().values
        # The remainder is left out at the end.
        assert torch.equal(merged, theirs[: len(merged)])
    assert sum(map(len, chain(*shares))) == len(order) - len(order) % processes
