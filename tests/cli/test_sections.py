"""Expanding and contracting whole configs."""

from pathlib import Path
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


def test_what_a_library_has_imported_from_elsewhere_is_none_of_its_classes():
    assert expand_config({"model": {"scheduler": "partial"}}) == {"model": {"scheduler": "partial"}}


def test_a_config_is_changed_under_model_and_data_only():
    config = {"model": {"norm": "pair", "num_layers": 2}, "data": "Planetoid", "trainer": {"norm": "pair"}, "norm": "x"}
    expanded = expand_config(config)
    assert expanded["trainer"] == {"norm": "pair"}
    assert expanded["norm"] == "x"
    assert expanded["model"]["num_layers"] == 2
    assert expanded["model"]["norm"][0]["class_path"].endswith("PairNorm")
    assert config["model"] == {"norm": "pair", "num_layers": 2}, "the argument was changed"
    assert expand_config(contract_config(expanded)) == expanded


@pytest.mark.parametrize(("given", "full"), [("data/x", "{here}/data/x"), ("/data", "/data"), ("~/x", "{home}/x")])
@pytest.mark.parametrize("key", ["path", "root"])
def test_paths_of_data_are_written_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, given: str, full: str
):
    monkeypatch.chdir(tmp_path)
    inner = {"class_path": "gnn_depth.data.UserGraph", "init_args": {key: given}}
    config = {"data": {"class_path": "gnn_depth.data.MissingFeatures", "init_args": {"source": inner, "rate": 0.5}}}
    written = contract_config(config)["data"]["init_args"]["source"]["init_args"][key]
    assert written == full.format(here=tmp_path, home=Path.home())


@pytest.mark.parametrize("given", [None, ""])
def test_a_path_of_data_that_is_not_given_stays_so(given: str | None):
    config = {"data": {"class_path": "Planetoid", "init_args": {"name": "Cora", "root": given}}}
    assert contract_config(config) == config


@pytest.mark.parametrize("config", [{"model": None, "data": None}, {}])
def test_a_section_with_nothing_in_it_says_nothing(config: dict):
    assert expand_config(config) == {}
