"""What the initialisations that draw matrices give."""

from functools import partial

import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import IdentityInit, Kaiming, Orthogonal, Xavier
from gnn_depth.nn.layers import GAT, GCN, GIN, GATv2

INITS = {
    "xavier": Xavier(),
    "xavier with zero attention": Xavier(attention="zero"),
    "kaiming": Kaiming(),
    "orthogonal": Orthogonal(),
    "looks-linear orthogonal": Orthogonal(looks_linear=True),
    "looks-linear xavier": Xavier(looks_linear=True),
    "identity": IdentityInit(),
    "looks-linear identity": IdentityInit(looks_linear=True),
}
MIRRORED = ["looks-linear orthogonal", "looks-linear xavier"]
BARE = {"encoder": "none", "decoder": "none"}
gat_of_two_heads = partial(GAT, heads=2)


def drawn(init, layer=gat_of_two_heads, num_layers=4, hidden_channels=6, **options):
    """A stack whose every parameter was 3 before it was drawn; biases are drawn here."""
    stack = DeepGNN(10, 4, layer, num_layers, hidden_channels, **options)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.fill_(3)
    INITS[init](stack)
    return stack


def assert_orthonormal(rows, gain=1.0):
    eye = torch.eye(len(rows))
    torch.testing.assert_close(rows @ rows.t(), gain**2 * eye, atol=1e-5, rtol=0)


@pytest.mark.parametrize("heads", [1, 8])
def test_attention_that_is_drawn_together_has_the_variance_of_a_tensor_of_all_heads(heads):
    init = Xavier(attention="together")
    stack = DeepGNN(4, 3, partial(GATv2, heads=heads), 30, 64, init=init)
    drawn = torch.cat([block.weight_chain().attention[0].flatten() for block in stack.layers])
    # 30 layers have at least 1920 numbers, so their mean square is known to 10%.
    assert float(drawn.detach().square().mean()) == pytest.approx(2 / ((heads + 1) * 64), rel=0.15)


@pytest.mark.parametrize("init", [Kaiming, Xavier, partial(Xavier, attention="zero")])
def test_matrices_and_attention_are_drawn_with_the_variance_of_the_formula(init):
    stack = DeepGNN(200, 7, GAT, 2, 150)
    init()(stack)
    weights = [stack.encoder.weight, stack.layers[0].lin.weight, stack.decoder.weight]
    if init in (Kaiming, Xavier):
        weights.append(stack.layers[1].att_src)
    for weight in weights:
        ends = weight.shape[1] if init is Kaiming else sum(weight.shape)
        deviation = (2 / ends) ** 0.5
        tolerance = 0.2 if weight.numel() < 2000 else 0.03
        assert weight.std().item() == pytest.approx(deviation, rel=tolerance)


def test_the_gain_of_xavier_is_a_factor_on_every_matrix():
    stacks = []
    for gain in (1.0, 3.0):
        torch.manual_seed(0)
        stacks.append(DeepGNN(10, 4, GCN, init=Xavier(gain)))
    for once, more in zip(stacks[0].linear_maps(), stacks[1].linear_maps()):
        torch.testing.assert_close(more.weight, 3 * once.weight)


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_orthogonal_matrices_have_orthonormal_rows_or_columns(gain):
    stack = DeepGNN(10, 4, gat_of_two_heads, 3, 6)
    Orthogonal(gain)(stack)
    hidden = [layer.lin.weight for layer in stack.layers]
    for weight in (stack.encoder.weight, *hidden, stack.decoder.weight):
        wide = weight if weight.shape[0] <= weight.shape[1] else weight.t()
        assert_orthonormal(wide, gain)


def test_the_mirrored_matrices_of_the_paper_are_made_of_orthogonal_halves():
    stack = drawn("looks-linear orthogonal", GCN, **BARE)
    first, second, third, last = (layer.lin.weight for layer in stack.layers)
    assert torch.equal(first[:3], -first[3:])
    assert torch.equal(last[:, :3], -last[:, 3:])
    for hidden in (second, third):
        half = hidden[:3, :3]
        rows = torch.cat([half, -half], 1)
        assert torch.equal(hidden, torch.cat([rows, -rows]))
        assert_orthonormal(half)
    assert_orthonormal(first[:3])
    assert_orthonormal(last[:, :3].t())


ENDS = [{"encoder": e, "decoder": d} for e in ("linear", "none") for d in ("linear", "none")]
ACTIVATIONS = [{"last_activation": True}, {"first_activation": True}, {"activation": "identity"}]


@pytest.mark.parametrize("init", MIRRORED)
@pytest.mark.parametrize("options", [*ENDS, *ACTIVATIONS])
@pytest.mark.parametrize("layer", [gat_of_two_heads, GATv2])
def test_a_stack_of_mirrored_matrices_is_linear_through_its_relus(init, options, layer, graph):
    stack = drawn(init, layer, **options).double()
    x, y = torch.randn(2, 9, 10, dtype=torch.float64)
    both = stack(x - 2 * y, graph)
    assert both.abs().max() > 1e-3
    torch.testing.assert_close(both, stack(x, graph) - 2 * stack(y, graph), rtol=1e-6, atol=1e-8)


def test_hidden_matrices_are_identities_mirrored_or_not_and_those_at_the_ends_are_drawn():
    stack = drawn("identity", GCN, **BARE)
    first, second, third, last = (layer.lin.weight for layer in stack.layers)
    assert torch.equal(second, torch.eye(6))
    assert torch.equal(third, torch.eye(6))
    assert (first != 0).all()
    assert (last != 0).all()
    mirrored = drawn("looks-linear identity", GCN, **BARE).layers[1].lin.weight
    rows = torch.cat([torch.eye(3), -torch.eye(3)], 1)
    assert torch.equal(mirrored, torch.cat([rows, -rows]))


def test_the_inside_of_a_layer_is_not_mirrored():
    layer = drawn("looks-linear orthogonal", GIN).layers[1]
    inner, outer = layer.lin.weight, layer.lin_out.weight
    assert torch.equal(inner[:, :3], -inner[:, 3:])
    assert torch.equal(outer[:3], -outer[3:])
    assert not torch.equal(inner[:3], -inner[3:])
    assert not torch.equal(outer[:, :3], -outer[:, 3:])
