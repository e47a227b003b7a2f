"""What processes that divide one graph must have in common."""

from types import SimpleNamespace

import pytest
import torch.distributed as dist
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from gnn_depth.training import GraphStrategy


def test_processes_that_hold_different_graphs_are_refused(monkeypatch):
    checksums = ["aa", "aa"]
    monkeypatch.setattr(
        dist, "all_gather_object", lambda found, own: found.__setitem__(slice(None), checksums)
    )
    monkeypatch.setattr(GraphStrategy, "world_size", 2)
    trainer = SimpleNamespace(datamodule=SimpleNamespace(checksum="aa"))
    GraphStrategy()._check_same_data(trainer)
    checksums[1] = "bb"
    with pytest.raises(MisconfigurationException, match="process 1 has other data .*bb and aa"):
        GraphStrategy()._check_same_data(trainer)
