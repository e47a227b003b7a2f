"""One way from values to objects: names, options, class paths, classes and objects."""

import subprocess
import sys
from functools import partial
from typing import Any, Literal

import pytest
import torch

from gnn_depth import registry
from gnn_depth.builder import LISTS, PartError, build, check, resolved, without_paths
from gnn_depth.data import SyntheticCitation
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.graph_dropouts import DropEdge
from gnn_depth.nn.inits import Balanced, Xavier
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm, PairNorm
from gnn_depth.nn.parts import Init
from gnn_depth.nn.skips import Residual
from gnn_depth.part_specs import describe, parts_of
from gnn_depth.ranges import FilePath, Probability, Range
from gnn_depth.training import NodeClassifier
from gnn_depth.training.models import build_model
from tests.test_ranges import NEEDED

BY_NAME = {
    "layer": {"name": "gat", "heads": 2},
    "norm": ["layer", {"name": "lipschitz", "form": "released"}, {"name": "pair", "scale": 2.0}],
    "skip": "residual",
    "graph_dropout": {"name": "drop_edge", "p": 0.5},
    "init": {"name": "balanced", "base": "xavier"},
}
BY_CLASS = {
    "layer": partial(GAT, heads=2),
    "norm": [LayerNorm, partial(LipschitzNorm, form="released"), partial(PairNorm, scale=2.0)],
    "skip": Residual,
    "graph_dropout": DropEdge(0.5),
    "init": Balanced(Xavier()),
}


class Wrapped(Init):
    """An init around other inits.

    Args:
        base: The inner one.
        more: Others.
        name: An option that is called as the key of a part.
    """

    def __init__(self, base: Init, more: list[Init] = [], name: str = "") -> None:  # noqa: B006
        self.base = base
        self.more = more
        self.name = name

    def draw(self, stack: Any) -> None: ...


@pytest.fixture
def wrapped(monkeypatch):
    monkeypatch.setitem(registry._TABLE["init"], "wrapped", Wrapped)


def drawn(make, parts):
    torch.manual_seed(0)
    model = make(8, 4, num_layers=3, hidden_channels=6, **parts)
    return repr(model), model.state_dict()


@pytest.mark.parametrize("make", [DeepGNN, NodeClassifier])
def test_parts_by_name_are_the_parts_themselves(make):
    (text, weights), (expected_text, expected) = drawn(make, BY_NAME), drawn(make, BY_CLASS)
    assert text == expected_text
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "value",
    [
        "xavier",
        "Xavier",
        "gnn_depth.nn.inits.Xavier",
        {"name": "xavier"},
        {"class_path": "xavier"},
        {"class_path": "gnn_depth.nn.inits.matrices.Xavier", "init_args": {"gain": "1"}},
        Xavier,
        Xavier(),
    ],
)
def test_all_ways_to_write_a_part_build_it(value):
    found = build("init", value)
    assert isinstance(found, Xavier)
    assert (found.gain, found.looks_linear) == (1.0, False)


def test_a_part_that_takes_widths_becomes_a_factory_and_an_object_stays():
    assert build("layer", {"name": "gat", "heads": "2"})(4, 8).heads == 2
    assert build("layer", GCN) is GCN
    sgd = build("optimizer", {"name": "SGD", "lr": "1e-2"})
    assert sgd([torch.nn.Parameter(torch.ones(1))]).defaults["lr"] == 0.01
    drop = DropEdge(0.5)
    assert build("graph_dropout", drop) is drop
    data = build("data", {"class_path": "SyntheticCitation", "init_args": {"num_nodes": "3000"}})
    assert isinstance(data, SyntheticCitation)
    assert data.num_nodes == 3000


def test_options_of_other_libraries_have_their_types():
    written = {"class_path": "ModelCheckpoint", "init_args": {"train_time_interval": "00:01:00"}}
    (callback,) = build("callback", written)
    assert callback._train_time_interval.total_seconds() == 60
    betas = resolved("optimizer", {"name": "Adam", "betas": "[0.5, 0.9]"})["init_args"]["betas"]
    assert betas == [0.5, 0.9]
    with pytest.raises(PartError, match=r"optimizer\.betas cannot be 'wide': its type is tuple"):
        build("optimizer", {"name": "Adam", "betas": "wide"})


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_resolved_part_resolves_to_itself(kind):
    for name, cls in registry.registered(kind).items():
        given = dict(NEEDED.get(name, {}))
        if "source" in given:
            given["source"] = "SyntheticCitation"
        complete = resolved(kind, {"class_path": name, "init_args": given})
        assert resolved(kind, complete) == complete
        found = complete[0] if kind in LISTS else complete
        key = "class_path" if kind == "data" else "name"
        assert (found if isinstance(found, str) else found[key]) in (name, cls.__name__)


BALANCED = {"name": "balanced", "base": "xavie"}
OF_GCN = {"class_path": "gcn", "init_args": {"heads": 1}}


@pytest.mark.parametrize(
    ("kind", "value", "where", "message"),
    [
        ("layer", "gatt", (), "unknown layer 'gatt'. Did you mean 'gat'?"),
        (
            "layer",
            "GCNConv",
            (),
            "GCNConv is in pyg: --model.layer pyg --model.layer.conv GCNConv",
        ),
        ("norm", ["pair", {"name": "lipschitz", "froom": 1}], (1, "froom"), "Did you mean 'form'?"),
        ("layer", OF_GCN, ("init_args", "heads"), "layer 'gcn' has no option 'heads'."),
        ("norm", [["pair"]], (0,), "norm must be given by name, not as ['pair']."),
        (
            "skip",
            None,
            (),
            "skip must be given by name, not as null. Available: adaptive_initial, dense,",
        ),
        ("norm", {"name": "pair", "scale": "big"}, ("scale",), "norm.scale must be a number"),
        ("norm", {"name": "lipschitz", "form": "papr"}, ("form",), "Did you mean 'paper'?"),
        ("data", "Cora", (), "Cora is in Planetoid: --data Planetoid --data.name Cora"),
        ("init", BALANCED, ("base",), "unknown init 'xavie'. Did you mean 'xavier'?"),
    ],
)
def test_what_does_not_fit_is_answered_with_place_near_miss_and_choices(
    kind, value, where, message
):
    for door in (build, resolved):
        with pytest.raises(PartError) as caught:
            door(kind, value)
        assert message in str(caught.value)
        assert caught.value.where == (kind, *where)


def test_a_model_of_a_config_can_be_loaded_from_its_checkpoint():
    model = build_model({**BY_NAME, "num_layers": 3}, SyntheticCitation())
    again = NodeClassifier(**model.hparams)
    assert repr(again.stack) == repr(model.stack)
    assert again.hparams == model.hparams


@pytest.mark.usefixtures("wrapped")
def test_parts_inside_parts_are_built_too():
    written = {"class_path": "wrapped", "init_args": {"base": {"name": "xavier", "gain": 2}}}
    written["init_args"] |= {"more": ["xavier", "default"], "name": "x"}
    found = build("init", written)
    assert (found.base.gain, found.name) == (2.0, "x")
    assert [type(each).__name__ for each in found.more] == ["Xavier", "DefaultInit"]
    complete = resolved("init", written)
    assert complete["class_path"] == registry.import_path(Wrapped)  # it has an option called name
    with pytest.raises(PartError, match="Did you mean 'xavier'") as caught:
        build("init", {"class_path": "wrapped", "init_args": {"base": "xaver"}})
    assert caught.value.where == ("init", "init_args", "base")


def test_a_path_is_written_in_full_and_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inner = {"class_path": "UserGraph", "init_args": {"path": "x.npz", "standardize": True}}
    value = {"class_path": "MissingFeatures", "init_args": {"source": inner, "rate": 0.5}}
    source = resolved("data", value)["init_args"]["source"]["init_args"]
    assert source["path"] == str(tmp_path / "x.npz")
    left = without_paths("data", value)["init_args"]["source"]["init_args"]
    assert left == {"standardize": True}


def test_checking_imports_nothing_that_is_known(monkeypatch):
    monkeypatch.setattr("gnn_depth.builder.load_class", lambda path: pytest.fail("imported"))
    chosen = check("norm", ["pair", "PairNorm", "gnn_depth.nn.norms.pair.PairNorm"])
    assert [each.part.name for each in chosen] == ["pair"] * 3


def test_built_in_parts_are_found_in_a_process_that_has_imported_nothing_else():
    program = (
        "from gnn_depth import build; print(build('norm', 'pair'), build('data', 'ContextualSBM'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "PairNorm" in done.stdout, done.stderr
    assert "ContextualSBM" in done.stdout


# Classes as text: options from signatures.


def test_an_option_has_type_range_default_and_choices_of_its_signature():
    class Own(Init):
        def __init__(
            self,
            base: Init,
            share: "Probability" = 0.5,
            form: Literal["a", "b"] = "a",
            file: FilePath | None = None,
            free=3,
        ) -> None: ...

    options = describe("init", Own).options
    assert options["base"].kind == "init"
    assert options["base"].is_required
    assert (options["share"].type, options["share"].range) == ("float", Range(0, 1))
    assert [*options["form"].choices] == ["a", "b"]
    assert [name for name, option in options.items() if option.is_path] == ["file"]
    assert (options["free"].type, options["free"].default) == ("", 3)


def test_a_class_that_passes_arguments_on_has_the_options_of_the_next_one():
    class Wide(GAT):
        def __init__(self, *args: Any, wide: bool = True, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    own, base = describe("layer", Wide), describe("layer", GAT)
    assert {*own.options} == {"wide", *base.options}
    assert not own.takes_any
    # Lightning's schedule passes everything but the metric on to torch's.
    plateau = parts_of("scheduler")["ReduceLROnPlateau"].options
    assert plateau["monitor"].is_required
    assert "optimizer" not in plateau
    assert plateau["factor"].default == 0.1
