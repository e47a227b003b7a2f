import itertools
import re

import pytest
import yaml

from gnn_depth.registry import as_written
from gnn_depth.sweeps.grid import GridError, read_grid

FULL = """
base: ../gcn_2.yaml
axes:
  model.norm: [none, lipschitz]
  depth:
    model.num_layers: [2, 10, 30]
    model.optimizer.lr: [0.01, 0.005, 0.001]
  method:
    GAT: {model.layer: gat, model.skip: none}
    residual GCN: gcn_residual.yaml
rules:
  - when: {depth: [10, 30], method: GAT}
    set: {model.dropout: 0.1}
  - when: {model.norm: lipschitz, method: residual GCN}
    skip: true
seeds: 3
"""


def grid(text):
    return read_grid(yaml.safe_load(text), "file")


def test_the_combinations_are_the_product_of_the_axes_without_those_that_a_rule_skips():
    found = [tuple(c.labels.values()) for c in grid(FULL).combinations()]
    product = itertools.product(["none", "lipschitz"], [2, 10, 30], ["GAT", "residual GCN"])
    assert found == [(n, d, m) for n, d, m in product if (n, m) != ("lipschitz", "residual GCN")]


def test_a_combination_has_the_options_of_its_labels_and_then_of_its_rules():
    for combination in grid(FULL).combinations():
        labels, settings = combination.labels, combination.settings
        depth = labels["depth"]
        assert settings[1] == {
            "model.num_layers": depth,
            "model.optimizer.lr": {2: 0.01, 10: 0.005, 30: 0.001}[depth],
        }
        if labels["method"] == "GAT":
            assert settings[2] == {"model.layer": "gat", "model.skip": "none"}
        else:
            assert settings[2] == {"config": "gcn_residual.yaml"}
        ruled = depth != 2 and labels["method"] == "GAT"
        assert (settings[-1] == {"model.dropout": 0.1}) is ruled


PER_SEED = "{seeds: [3, 5], per_seed: {data.split: [0, 1], model.dropout: [0.1, 0.2]}}"


def test_a_seed_has_its_own_options_which_come_last_and_change_no_label():
    found = grid(PER_SEED)
    (plain,) = found.combinations()
    for seed, options in (
        (3, {"data.split": 0, "model.dropout": 0.1}),
        (5, {"data.split": 1, "model.dropout": 0.2}),
    ):
        of_seed = found.with_seed(plain, seed)
        assert of_seed.settings[-1] == options
        assert of_seed.labels == plain.labels
    assert found.subset({}, None).seeds == (3, 5)
    assert found.subset({}, 1).seeds == (3,)
    with pytest.raises(GridError, match="per_seed has values for 2 seeds, and 4 are asked for"):
        found.subset({}, 4)


def test_a_group_has_the_last_word_of_each_axis_and_a_parts_options():
    assert next(grid(FULL).combinations()).group == "norm=none,depth=2,method=GAT"
    assert next(grid("{seeds: 1}").combinations()).group == "all"
    part = "{name: lipschitz, scale: 4, a: null, b: true}"
    text = f"axes: {{model.norm: [none, {part}, [pair, layer], null]}}"
    labels = [as_written(c.labels["model.norm"]) for c in grid(text).combinations()]
    assert labels == ["none", "lipschitz scale=4 a=null b=true", "pair+layer", "null"]


def test_a_rule_names_an_axis_and_its_values_as_the_axis_does():
    part = "{name: lipschitz, scale: 4}"
    rules = ""
    for value in (part, "[[pair, layer]]", "null"):
        rules += f"{{when: {{norm: {value}}}, skip: true}},"
    axis = f"[none, {part}, [pair, layer], null]"
    found = grid(f"{{axes: {{model.norm: {axis}}}, rules: [{rules}]}}").combinations()
    assert [combination.labels["model.norm"] for combination in found] == ["none"]


def test_a_subset_keeps_the_order_and_leaves_the_other_axes_alone():
    part = grid(FULL).subset({"depth": ["30", "2"], "norm": ["none"]}, seeds=2)
    found = [tuple(c.labels.values()) for c in part.combinations()]
    assert found == [("none", d, m) for d in (2, 30) for m in ("GAT", "residual GCN")]
    assert part.seeds == (0, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axis: {}", "Did you mean 'axes'"),
        ("base: {model: {}}", "name of a config file"),
        ("axes: {depth: []}", "the grid is empty: axis 'depth' has no values"),
        ("axes: {d: {a.b: [1, 2], a.c: [1]}}", "'a.b': 2, 'a.c': 1"),
        ("axes: {seed: [1]}", "cannot be called 'seed'"),
        ("axes: {data: [{class_path: X}]}", "needs a label"),
        ("axes: {d: [1, '1']}", "has a value twice"),
        ("axes: {d: [0, false, 0.5]}", "1, 1.0 and true are"),
        ("axes: {d: {a: {seed_everything: 1}}}", "its key `seeds`"),
        ("seeds: [1, 1]", "different ones"),
        ("seeds: 20261121", "a number up to 100000"),
        ("{seeds: 100000, axes: {a.b: [1, 2]}}", "not 200,000"),
        ("name: ../x", "nor '../x'"),
        ("rules: [{skip: true}]", "skip every combination"),
        ("rules: [{when: {x: 1}, skip: true}]", "unknown axis 'x'"),
        ("{axes: {d: [1, 2]}, rules: [{when: {d: 1}}]}", "either `set`"),
        ("{seeds: 3, per_seed: {data.split: [0, 1]}}", "a value for each of the 3 seeds"),
    ],
)
def test_a_grid_that_says_nothing_sensible_is_refused(text, said):
    with pytest.raises(GridError, match=re.escape(said)):
        grid(text)
