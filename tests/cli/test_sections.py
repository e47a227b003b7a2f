"""Expanding and contracting whole configs."""

from typing import Any

import pytest

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.cli.sections import contract_config, expand_config


def test_naming_an_optimizer_writes_out_its_own_defaults():
    model = expand_config({"model": {"optimizer": "SGD", "scheduler": {"class_path": "StepLR", "init_args": {}}}})[
        "model"
    ]
    assert model["optimizer"]["class_path"] == "torch.optim.SGD"
    assert model["optimizer"]["init_args"]["lr"] == 1e-3
    assert "params" not in model["optimizer"]["init_args"]
    assert model["scheduler"]["init_args"] == {"step_size": None, "gamma": 0.1, "last_epoch": -1}


@pytest.mark.parametrize("optimizer", ["NoSuch", "torch.optim.NoSuch", {"lr": 0.1}, None, 3])
def test_an_optimizer_that_is_not_known_is_left_to_the_parser(optimizer: Any):
    assert expand_config({"model": {"optimizer": optimizer}}) == {"model": {"optimizer": optimizer}}


def test_a_config_is_changed_under_model_and_data_only():
    config = {"model": {"norm": "pair", "num_layers": 2}, "data": "Planetoid", "trainer": {"norm": "pair"}, "norm": "x"}
    expanded = expand_config(config)
    assert expanded["trainer"] == {"norm": "pair"}
    assert expanded["norm"] == "x"
    assert expanded["model"]["num_layers"] == 2
    assert expanded["model"]["norm"][0]["class_path"].endswith("PairNorm")
    assert config["model"] == {"norm": "pair", "num_layers": 2}, "the argument was changed"
    assert expand_config(contract_config(expanded)) == expanded


@pytest.mark.parametrize("config", [{"model": None, "data": None}, {}])
def test_a_section_with_nothing_in_it_says_nothing(config: dict):
    assert expand_config(config) == {}
