"""Which example is in which batch, of which process, in which epoch; and that Lightning sees it so."""

import logging
from collections import Counter
from itertools import chain

import lightning as L
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data import DataError, TreeNeighborsMatch
from gnn_depth.data.tree_loaders import InOrder, Share, Shuffle, Shuffled

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def as_they_are(chosen):
    return chosen.tolist()


def shuffled(examples, share=Share(0, 1), batch_size=8, passes=1, seed=0, epoch=0):  # noqa: B008
    loader = Shuffled(Shuffle(examples, passes, seed), share, batch_size, as_they_are, done=int, graph_of=int)
    loader.sampler.set_epoch(epoch)
    return loader


sizes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 60))


@given(sizes, st.integers(1, 3))
def test_every_example_is_given_once_in_each_pass(numbers, passes):
    _, batch_size, more = numbers
    examples = 3 * torch.arange(1 + more)
    batches = list(shuffled(examples, batch_size=batch_size, passes=passes))
    given_out = [example for batch in batches for example in batch]
    assert Counter(given_out) == dict.fromkeys(examples.tolist(), passes)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    for start in range(0, len(given_out), len(examples)):
        assert len(set(given_out[start : start + len(examples)])) == len(examples)


@given(sizes, st.integers(1, 3))
def test_the_size_that_repeats_is_that_of_every_batch_but_the_last(numbers, passes):
    processes, batch_size, more = numbers
    examples = torch.arange(processes + more)
    for rank in range(processes):
        loader = shuffled(examples, Share(rank, processes), processes * batch_size, passes)
        first, *_ = loader
        assert loader.repeated == (len(first), len(first))  # here a graph is the number of its examples


@given(sizes, st.integers(1, 3))
def test_processes_share_the_batches_of_one_process_in_equal_parts(numbers, passes):
    processes, each, more = numbers
    examples, batch_size = torch.arange(processes + more), processes * each
    alone = list(shuffled(examples, batch_size=batch_size, passes=passes))
    together = [list(shuffled(examples, Share(rank, processes), batch_size, passes)) for rank in range(processes)]
    lengths = {len(shuffled(examples, Share(rank, processes), batch_size, passes)) for rank in range(processes)}
    assert lengths == {len(parts) for parts in together}
    assert all(len({len(part) for part in parts}) == 1 for parts in zip(*together, strict=True))
    merged = [sorted(example for part in parts for example in part) for parts in zip(*together, strict=True)]
    left_out = Counter(chain(*alone)) - Counter(chain(*merged))
    assert left_out.total() == passes * len(examples) % processes
    for ours, theirs in zip(merged[:-1], alone, strict=False):
        assert ours == sorted(theirs)


@given(sizes)
def test_processes_evaluate_every_example_once_in_equally_many_batches_none_of_them_empty(numbers):
    processes, each, more = numbers
    order = torch.arange(processes + more)
    shares = [Share(rank, processes).of_evaluation(order, processes * each) for rank in range(processes)]
    assert len({len(parts) for parts in shares}) == 1
    assert all(0 < len(part) <= each + 1 for parts in shares for part in parts)
    assert torch.equal(torch.cat([part for parts in shares for part in parts]).sort().values, order)
    if processes == 1:
        assert torch.equal(torch.cat(shares[0]), order)


def test_orders_differ_between_epochs_and_seeds_and_are_the_same_again():
    orders = [list(shuffled(torch.arange(40), seed=seed, epoch=epoch)) for seed in (0, 1) for epoch in (0, 1)]
    assert all(one != other for place, one in enumerate(orders) for other in orders[:place])
    assert list(shuffled(torch.arange(40), seed=1, epoch=1)) == orders[3]


def test_other_examples_are_left_out_in_other_epochs():
    def left_out(epoch):
        shares = [Share(rank, 3) for rank in range(3)]
        return set(range(20)) - {e for s in shares for b in shuffled(torch.arange(20), s, 6, epoch=epoch) for e in b}

    found = [left_out(epoch) for epoch in range(20)]
    assert {len(examples) for examples in found} == {2}
    assert len(set().union(*found)) > 10


@pytest.mark.parametrize(
    ("batch_size", "examples", "words"),
    [
        (1024, 2, "2 examples are too few for 4 processes"),
        (1022, 100, "all 4 processes together, and they do not divide it: take 1020 or 1024"),
        (3, 100, "do not divide it: take 4"),
    ],
)
def test_what_processes_cannot_share_is_refused(batch_size, examples, words):
    with pytest.raises(DataError, match=words):
        Share(0, 4).check(examples, batch_size)


class Listener(L.LightningModule):
    """Learns nothing, and notes who is in each batch of each epoch; optionally stops dead before one."""

    def __init__(self, stop_before=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.heard, self.stop_before = {}, stop_before

    def training_step(self, batch, batch_idx):
        if self.global_step == self.stop_before:
            raise KeyboardInterrupt
        self.heard.setdefault(self.current_epoch, []).append(batch.x.tolist())
        return self.weight * 0

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Save(L.Callback):
    """Save when a training is stopped, or after a number of steps."""

    def __init__(self, path, after=None):
        self.path, self.after = path, after

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.after:
            trainer.save_checkpoint(self.path)

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.path)


def listen(path, epochs=3, resume=False, stop_before=None, save_after=None):
    """Fit with everything of Lightning's left at its default; the batches of each epoch."""
    module = Listener(stop_before)
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        callbacks=[Save(path, save_after)],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    data = TreeNeighborsMatch(depth=2, batch_size=16)
    try:
        trainer.fit(module, datamodule=data, ckpt_path=path if resume else None)
    except SystemExit:  # Lightning's answer to Ctrl-C
        return module.heard
    if not save_after:
        trainer.save_checkpoint(path)
    return module.heard


def test_lightning_tells_the_loader_its_epoch(tmp_path):
    data = TreeNeighborsMatch(depth=2, batch_size=16)
    for epoch, batches in listen(tmp_path / "kept.ckpt").items():
        loader = data.train_dataloader()
        loader.sampler.set_epoch(epoch)
        assert batches == [batch.x.tolist() for batch in loader]


@pytest.mark.parametrize(
    ("how", "batches"),
    [
        ({"epochs": 1}, 5),
        ({"epochs": 2}, 10),
        ({"stop_before": 5}, 5),
        ({"stop_before": 7}, 7),
        ({"save_after": 5}, 5),
        ({"save_after": 7}, 7),
    ],
    ids=str,
)
def test_a_resumed_training_sees_every_batch_that_was_left_and_no_other(tmp_path, how, batches):
    whole = listen(tmp_path / "whole.ckpt")
    assert [len(epoch) for epoch in whole.values()] == [5, 5, 5]
    listen(tmp_path / "kept.ckpt", **how)
    rest = listen(tmp_path / "kept.ckpt", resume=True)
    assert list(chain(*rest.values())) == list(chain(*whole.values()))[batches:]
    assert all(rest[epoch] == whole[epoch][-len(rest[epoch]) :] for epoch in rest)


def test_without_a_trainer_there_is_one_process():
    data = TreeNeighborsMatch(depth=2, batch_size=16)
    assert isinstance(data.val_dataloader(), InOrder)
    assert [len(batch.y) for batch in data.val_dataloader()] == [16, 4]
    assert [len(batch.y) for batch in data.train_dataloader()] == [16, 16, 16, 16, 12]
