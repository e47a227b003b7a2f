"""Properties that every registered layer has, beside those of tests/testing/test_built_in.py."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.nn.parts import AttentionLayer
from gnn_depth.registry import registered
from tests.nn.layers.variants import IN, VARIANTS, make

LAYERS = {
    name: cls
    for name, cls in registered("layer").items()
    if cls.__module__.startswith("gnn_depth.")
}
WITH_SCORES = [name for name, cls in LAYERS.items() if issubclass(cls, AttentionLayer)]


def test_every_registered_layer_is_tested():
    assert {name for name, _ in VARIANTS.values()} == set(LAYERS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_reset_draws_every_parameter_anew(variant):
    layer = make(variant)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7)
    layer.reset_parameters()
    assert not any((parameter == 7).any() for parameter in layer.parameters())


@pytest.mark.parametrize("name", WITH_SCORES)
def test_heads_may_share_a_width_and_attention_is_dropped_in_training_only(name, graph):
    layer = LAYERS[name](IN, 32, heads=8, split_heads=True, dropout=0.5)
    assert (layer.out_channels, layer.width) == (4, 32)
    assert LAYERS[name](5, 32, heads=8).width == 256
    x = torch.randn(9, IN)
    assert not torch.equal(layer(x, graph), layer(x, graph))
    layer.eval()
    assert torch.equal(layer(x, graph), layer(x, graph))


@pytest.mark.parametrize(
    ("name", "widths", "options", "message"),
    [
        ("gcn", (5, 0), {}, "out_channels.*0"),
        ("gat", (5, 30), {"heads": 8, "split_heads": True}, r"8 heads.* 30.* multiple of 8, "),
        ("transformer", (5, 3), {"beta": True, "root_weight": False}, "beta true.*root_weight"),
    ],
)
def test_widths_and_options_that_do_not_fit_are_refused_with_the_nearest_ones(
    name, widths, options, message
):
    with pytest.raises(ValueError, match=message):
        LAYERS[name](*widths, **options)
