"""Config files and options: what they resolve to, and that it can be said again."""

from pathlib import Path
from shlex import split

import pytest
import yaml

from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver
from gnn_depth.config_file import to_yaml

FILE = """\
seed_everything: 3
model:
  layer: {name: gat, heads: 8}
  norm:
  - {name: lipschitz, form: released}
  - layer
  init: xavier
  num_layers: 30
data:
  class_path: Planetoid
  init_args: {name: Cora}
"""


@pytest.fixture(scope="module")
def resolver():
    return Resolver([])


@pytest.fixture
def printed(resolver, tmp_path, monkeypatch):
    """``printed(...)``: what ``fit ... --print_config`` prints, by one parser for all tests."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: to_yaml(resolver.resolve(read_arguments(list(words))))


@pytest.fixture
def config(printed):
    return lambda *words: yaml.safe_load(printed(*words))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "gat.yaml"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        "--model.norm '[lipschitz, {name: pair, scale: 2}, layer]' --model.layer gatv2",
        "--config gat.yaml --model.skip residual --trainer.callbacks ModelCheckpoint",
        "--model.scheduler StepLR --model.scheduler.step_size 9 --model.optimizer SGD",
        "--data MissingFeatures --data.source Planetoid --data.source.name Cora --data.rate .5",
    ],
)
def test_a_printed_config_prints_itself_byte_for_byte(printed, file, words):
    first = printed(*split(words))
    Path("printed.yaml").write_text(first)
    assert printed("--config", "printed.yaml") == first


def test_a_config_of_a_fit_serves_the_other_commands(gnn_depth, printed, file):
    of_fit = gnn_depth("fit", "--config", file, "--print_config").out
    assert of_fit == printed("--config", file)
    Path("printed.yaml").write_text(of_fit)
    assert (
        gnn_depth("validate", "--config", "printed.yaml", "--print_config").out
        == f"{of_fit}force: false\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        "--model.norm pair --model.norm.scale 4",
        "--model.norm PairNorm --model.norm.init_args.scale 4",
        "--model.norm '[{class_path: gnn_depth.nn.norms.PairNorm, init_args: {scale: 4}}]'",
        "--model.norm+ pair --model.norm.scale 4",
        "--config '{model: {norm: {name: pair, scale: 4}}}'",
        "--config '{model: {norm: pair}}' --model.norm.scale 4",
    ],
)
def test_all_ways_to_ask_for_a_norm_mean_the_same(config, words):
    assert config(*split(words))["model"]["norm"] == [{"name": "pair", "scale": 4.0}]


def test_later_files_refine_earlier_ones_and_flags_both_wherever_they_stand(config, file):
    Path("deeper.yaml").write_text("model:\n  layer: {heads: 2}\n  num_layers: 64\n")
    files = ["--config", file, "--config", "deeper.yaml"]
    for flags, layers in (([], 64), (["--model.num_layers", "7"], 7)):
        model = config(*flags, *files)["model"]
        assert (model["layer"]["name"], model["layer"]["heads"]) == ("gat", 2)
        assert model["num_layers"] == layers


OVERRIDDEN = """\
model:
  layer: {name: gat, heads: 8, dropout: 0.3}
  norm: {name: pair, scale: 9}
  optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.02, betas: [0.8, 0.9]}}
"""


def test_a_part_in_the_place_of_another_keeps_the_options_that_both_have_and_says_what_it_drops(
    gnn_depth,
):
    Path("c.yaml").write_text(OVERRIDDEN)
    words = ("--config", "c.yaml", "--print_config")
    flags = ("--model.layer=gatv2", "--model.optimizer=SGD", "--model.norm=lipschitz")
    answer = gnn_depth("fit", *flags, *words)
    model = answer.config["model"]
    layer = model["layer"]
    assert (layer["name"], layer["heads"], layer["dropout"]) == ("gatv2", 8, 0.3)
    assert model["optimizer"]["init_args"]["lr"] == 0.02
    assert model["norm"][0]["scale"] is None  # in a list nothing is kept
    assert answer.err == "note: model.optimizer SGD takes no betas from Adam\n"
    Path("other.yaml").write_text("model: {layer: {name: gcn}}\n")
    answer = gnn_depth("fit", "--config", "c.yaml", "--config", "other.yaml", "--print_config")
    assert answer.err == "note: model.layer gcn takes no heads, dropout from gat\n"


def test_what_nobody_asked_for_is_not_kept_and_a_grid_names_parts_with_their_own_defaults(
    gnn_depth, printed
):
    answer = gnn_depth("fit", "--model.optimizer", "SGD", "--print_config")
    optimizer = answer.config["model"]["optimizer"]["init_args"]
    assert (optimizer["lr"], optimizer["weight_decay"], answer.err) == (1e-3, 0, "")
    Path("c.yaml").write_text(OVERRIDDEN)
    of_grid = yaml.safe_load(printed("--config", "c.yaml", "--model.layer", "gatv2"))
    assert of_grid["model"]["layer"]["heads"] == 1


def test_another_data_set_takes_over_nothing(config, refused, file):
    words = ["--config", file, "--data", "HeterophilousGraphs"]
    assert refused("fit", *words).startswith("HeterophilousGraphs needs name: --data.name VALUE.")
    data = config(*words, "--data.name", "chameleon")["data"]
    assert (data["class_path"], data["init_args"]["name"]) == ("HeterophilousGraphs", "chameleon")
    assert data["init_args"]["normalize_features"] is False  # the generated graph's default is true


def test_an_option_is_taken_back_with_null(config):
    Path("run.yaml").write_text("ckpt_path: some.ckpt\nrun: {name: mine}\n")
    resolved = config("--config", "run.yaml", "--ckpt_path", "null", "--run.name", "null")
    assert resolved["ckpt_path"] is None
    assert resolved["run"]["name"] is None


def test_flags_for_keys_of_a_mapping_keep_its_other_keys_and_a_whole_mapping_replaces_it(
    config,
):
    asked = ["--data=PyG", "--data.dataset=FakeDataset"]
    asked += ["--data.options.edge_dim=2", "--data.options.num_graphs=3"]
    assert config(*asked)["data"]["init_args"]["options"] == {"edge_dim": 2, "num_graphs": 3}
    data = config(*asked, "--data.options={task: node}")["data"]
    assert data["init_args"]["options"] == {"task": "node"}


@pytest.mark.parametrize("text", ["# nothing\n", "trainer:\nrun:\nseed_everything: 0\n"])
def test_a_file_that_says_nothing_changes_nothing(config, text):
    Path("empty.yaml").write_text(text)
    assert config("--config", "empty.yaml") == config()


def test_a_shipped_config_is_found_by_its_name_from_any_folder(config, refused):
    assert config("--config", "gat_lip_30")["model"]["num_layers"] == 30
    assert config("--config", "gat_lip")["model"]["norm"][0]["name"] == "lipschitz"
    assert "balance/gcn or expansion/gcn or lipschitz/gcn" in refused("fit", "--config", "gcn")
    assert "Did you mean 'gat_lip_30'?" in refused("fit", "--config", "gat_lp_30")
    Path("configs").mkdir()
    Path("configs/gat_lip_30.yaml").write_text("model: {num_layers: 3}\n")
    assert config("--config", "gat_lip_30")["model"]["num_layers"] == 3
