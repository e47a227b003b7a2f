"""Tree-NeighborsMatch: the published construction, found again by walking the trees."""

from collections import Counter
from itertools import chain, permutations
from unittest.mock import Mock

import lightning as L
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data import DataError, TreeNeighborsMatch
from gnn_depth.data.trees import evaluation_batches, training_batches

CHECKSUM = "cc1f8f1c091b31a4b290f26819b739053a98b439009a7e2105b2f5192b011655"
COUNTS = {2: 96, 3: 8000, 4: 16000, 5: 32000, 6: 32000, 7: 32000, 8: 32000}


def everyone(data):
    """All examples as triples: the value of each leaf, the key of the root, the class; what a batch
    says of them."""
    batches = [*data.train_dataloader(), *data.val_dataloader()]
    for batch in batches:
        key, value = batch.x.view(-1, len(batch.y), 2).unbind(-1)
        yield from zip(
            map(tuple, value[-data.num_classes :].T.tolist()),
            key[0].tolist(),
            batch.y.tolist(),
            strict=True,
        )


@pytest.mark.parametrize("depth", [2, 3, 5, 8])
def test_each_depth_has_the_published_number_of_examples_four_fifths_of_them_to_train_on(depth):
    examples = TreeNeighborsMatch(depth=depth).examples
    train, held_out = examples.train, examples.held_out
    assert len(train) + len(held_out) == COUNTS[depth]
    assert torch.equal(torch.cat([train, held_out]).sort().values, torch.arange(COUNTS[depth]))
    assert len(train) == (76 if depth == 2 else 0.8 * COUNTS[depth])


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


def test_the_examples_are_different_permutations_each_with_every_key():
    of_depth_2 = {
        (values, key, values[key - 1] - 1)
        for values in permutations(range(1, 5))
        for key in range(1, 5)
    }
    assert Counter(everyone(TreeNeighborsMatch(depth=2, batch_size=10))) == Counter(of_depth_2)
    found = list(everyone(TreeNeighborsMatch(depth=3)))
    assert len(set(found)) == len(found) == COUNTS[3]
    assert len({values for values, _, _ in found}) == 1000


@given(st.integers(2, 3), st.floats(0.05, 0.95), st.integers(0, 2**40))
def test_any_fraction_of_each_class_is_trained_on_and_the_rest_held_out(depth, fraction, seed):
    examples = TreeNeighborsMatch(depth=depth, train_fraction=fraction, seed=seed).examples
    count = 24 if depth == 2 else 1000
    for chosen, size in ((examples.train, round(fraction * count)), (examples.held_out, None)):
        classes = examples.values[chosen // 2**depth, chosen % 2**depth]
        assert (
            torch.bincount(classes).tolist()
            == [0] + [size or count - round(fraction * count)] * 2**depth
        )
    assert not set(examples.train.tolist()) & set(examples.held_out.tolist())


def test_the_examples_are_those_of_every_machine_and_differ_by_depth_seed_and_split():
    assert TreeNeighborsMatch(depth=5, batch_size=3, passes=2).checksum == CHECKSUM
    options = [{}, {"depth": 4}, {"seed": 1}, {"train_fraction": 0.7}]
    assert len({TreeNeighborsMatch(**option).checksum for option in options}) == 4


def of_process(rank, processes, **options):
    data = TreeNeighborsMatch(**options)
    data.trainer = Mock(spec=L.Trainer, global_rank=rank, world_size=processes)
    return data


SIZES = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 60))


@given(SIZES)
def test_processes_share_the_batches_of_one_process_in_equal_parts(numbers):
    processes, each, more = numbers
    order, batch_size = 3 * torch.arange(processes + more), processes * each
    alone = [batch.tolist() for batch in training_batches(order, batch_size, 0, 1)]
    assert list(chain(*alone)) == order.tolist()
    assert all(len(batch) == batch_size for batch in alone[:-1])
    shares = [
        [b.tolist() for b in training_batches(order, batch_size, rank, processes)]
        for rank in range(processes)
    ]
    assert all(len({len(part) for part in parts}) == 1 for parts in zip(*shares, strict=True))
    merged = [sorted(chain(*parts)) for parts in zip(*shares, strict=True)]
    left_out = Counter(chain(*alone)) - Counter(chain(*merged))
    assert left_out.total() == len(order) % processes
    for ours, theirs in zip(merged[:-1], alone, strict=False):
        assert ours == sorted(theirs)


@given(SIZES)
def test_processes_evaluate_every_example_once_in_equally_many_batches_none_of_them_empty(numbers):
    processes, each, more = numbers
    order = torch.arange(processes + more)
    shares = [
        evaluation_batches(order, processes * each, rank, processes) for rank in range(processes)
    ]
    assert len({len(parts) for parts in shares}) == 1
    assert all(0 < len(part) <= each + 1 for parts in shares for part in parts)
    assert torch.equal(torch.cat([part for parts in shares for part in parts]).sort().values, order)
    if processes == 1:
        assert torch.equal(torch.cat(shares[0]), order)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_loader_knows_its_length_and_the_size_that_repeats(processes):
    for rank in range(processes):
        loader = of_process(rank, processes, depth=2, batch_size=15, passes=2).train_dataloader()
        batches = list(loader)
        assert len(loader) == len(batches)
        assert all(batch.graph is loader.repeated.graph for batch in batches[:-1])
        assert len(batches[0].y) == loader.repeated.read


def test_each_pass_has_every_example_once_in_another_order_in_each_epoch_and_seed():
    data = [TreeNeighborsMatch(depth=2, passes=2, seed=seed) for seed in (0, 0, 1)]
    train = sorted(data[0].examples.train.tolist())
    orders = [data[0].training_order(0), data[0].training_order(1), data[2].training_order(0)]
    passes = [half.tolist() for order in orders[:2] for half in order.chunk(2)]
    assert all(sorted(half) == train for half in passes)
    assert all(one != other for place, one in enumerate(passes) for other in passes[:place])
    assert not torch.equal(orders[0], orders[2])
    assert torch.equal(orders[0], data[1].training_order(0))


def test_processes_without_an_example_each_are_refused():
    with pytest.raises(DataError, match=r"20 examples .*32 processes"):
        of_process(0, 32, depth=2).val_dataloader()
    with pytest.raises(DataError, match=r"batch_size 1022 .*4 processes"):
        of_process(0, 4, depth=3, batch_size=1022).train_dataloader()
