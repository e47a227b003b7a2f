"""What processes that divide one graph must have in common."""

from types import SimpleNamespace

import pytest
import torch.distributed as dist
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from gnn_depth.training import GraphStrategy


@pytest.mark.parametrize("checksums", [["aa", "aa"], ["aa", "bb"]])
def test_processes_that_hold_different_graphs_are_refused(monkeypatch, checksums):
    def gather(found, own):
        assert own == "aa"
        found[:] = checksums

    monkeypatch.setattr(dist, "all_gather_object", gather)
    monkeypatch.setattr(GraphStrategy, "world_size", 2)
    trainer = SimpleNamespace(datamodule=SimpleNamespace(checksum="aa"))
    if checksums == ["aa", "aa"]:
        GraphStrategy()._check_same_data(trainer)
        return
    with pytest.raises(MisconfigurationException, match="process 1 has other data .*bb and aa"):
        GraphStrategy()._check_same_data(trainer)
