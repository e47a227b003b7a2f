"""Properties that every registered layer has, beside those of tests/testing/built_in.py."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.parts import AttentionLayer, HasWeightChain
from gnn_depth.registry import registered
from tests.nn.layers.variants import ATTENTION, IN, OUT, VARIANTS, features, make

LAYERS = {name: cls for name, cls in registered("layer").items() if cls.__module__.startswith("gnn_depth.")}
WITH_SCORES = [name for name, cls in LAYERS.items() if issubclass(cls, AttentionLayer)]
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def test_every_registered_layer_is_tested():
    assert {name for name, _ in VARIANTS.values()} == set(LAYERS)


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("variant", ATTENTION)
def test_normed_scores_of_isolated_nodes_zero_rows_and_no_edges_give_finite_outputs_and_gradients(variant, form, graph):
    layer = make(variant, torch.float32)
    layer.add_score_norm(LipschitzNorm(layer.heads, form=form))
    for structure in (graph, Graph(torch.zeros(2, 0, dtype=torch.long), 9), Graph(torch.zeros(2, 0).long(), 1)):
        for zeros in (structure.num_nodes // 2, structure.num_nodes):
            x = torch.randn(structure.num_nodes, IN)
            x[:zeros] = 0
            x.requires_grad_()
            layer.zero_grad()
            out = layer(x, structure)
            out.square().sum().backward()
            assert out.isfinite().all()
            assert x.grad.isfinite().all()
            assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


@every_variant
def test_reset_draws_every_parameter_anew(variant):
    layer = make(variant)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7)
    layer.reset_parameters()
    assert not any((parameter == 7).any() for parameter in layer.parameters())


@pytest.mark.parametrize("name", LAYERS)
def test_a_width_below_one_is_refused(name):
    with pytest.raises(ValueError, match="out_channels.*0"):
        LAYERS[name](5, 0)


@pytest.mark.parametrize("name", WITH_SCORES)
def test_heads_that_share_a_width_each_have_a_part_of_it(name):
    layer = LAYERS[name](5, 32, heads=8, split_heads=True)
    assert (layer.out_channels, layer.width) == (4, 32)
    assert LAYERS[name](5, 32, heads=8).width == 256


@pytest.mark.parametrize("name", WITH_SCORES)
@pytest.mark.parametrize(("width", "near"), [(30, "24 or 32"), (7, "8")])
def test_heads_that_do_not_divide_the_width_they_share_are_refused_with_the_nearest_widths(name, width, near):
    with pytest.raises(ValueError, match=rf"8 heads.* {width}.* {near}, "):
        LAYERS[name](5, width, heads=8, split_heads=True)


@pytest.mark.parametrize("name", WITH_SCORES)
def test_attention_dropout_drops_in_training_only(name, graph):
    layer = LAYERS[name](IN, OUT, heads=2, dropout=0.5)
    x = torch.randn(9, IN)
    assert not torch.equal(layer(x, graph), layer(x, graph))
    layer.eval()
    assert torch.equal(layer(x, graph), layer(x, graph))


def test_a_gate_without_anything_to_mix_in_is_refused():
    with pytest.raises(ValueError, match="beta true.*root_weight false"):
        LAYERS["transformer"](5, 3, beta=True, root_weight=False)


def test_a_node_without_neighbours_receives_zero_from_a_transformer(graph):
    layer = make("transformer", root_weight=False)
    assert graph.in_degree[8] == 0
    assert (layer(features(graph), graph)[8] == 0).all()


def test_a_gated_state_narrower_than_the_features_is_refused():
    with pytest.raises(ValueError, match="5.* 6.*6 or more"):
        LAYERS["ggnn"](6, 5)


def test_batch_norm_inside_a_gin_follows_running_averages_in_evaluation(graph):
    layer, x = make("gin_with_batch_norm"), features(graph)
    trained = layer(x, graph)
    layer.eval()
    assert not torch.allclose(layer(x, graph), trained)
    torch.testing.assert_close(layer(x, graph)[:4], layer(x[: graph.prefix(4).num_sources], graph.prefix(4)))


# tests/nn/test_conservation.py has the law of all others.
def test_a_gated_unit_and_outputs_of_one_length_have_no_weight_chain():
    assert not isinstance(make("ggnn"), HasWeightChain)
    with pytest.raises(ValueError, match="layer 'sage' with normalize true has no weight chain"):
        make("sage_of_one_length").weight_chain()


def test_every_layer_runs_on_blocks_unless_it_looks_at_all_nodes_or_is_not_ours():
    assert {name for name in VARIANTS if not make(name).takes_blocks} == {"gin_with_batch_norm", "pyg"}


def test_only_the_released_form_of_the_lipschitz_norm_looks_beyond_the_neighbours(graph):
    assert LipschitzNorm(2).nodewise
    layer, x, block = make("transformer"), features(graph), graph.prefix(2)
    layer.add_score_norm(LipschitzNorm(2, form="released"))
    assert not layer.score_norms[0].nodewise
    assert not torch.allclose(layer(x[: block.num_sources], block), layer(x, graph)[:2])
