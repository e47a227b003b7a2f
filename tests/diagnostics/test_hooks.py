import pytest
from torch import nn
from torch_geometric.nn import GCN

from gnn_depth.diagnostics.hooks import OURS, layer_numbers, layers_of, modules_named


@pytest.fixture
def stack():
    def layer():
        return nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    root = nn.Module()
    root.stack = nn.Module()
    root.stack.layers = nn.ModuleList(layer() for _ in range(12))
    return root


def test_a_star_stands_for_one_part_of_a_name(stack):
    assert list(modules_named(stack, "stack.layers.*")) == [
        f"stack.layers.{place}" for place in range(12)
    ]
    assert list(modules_named(stack, "*.layers.1[01].0")) == [
        "stack.layers.10.0",
        "stack.layers.11.0",
    ]
    assert list(modules_named(stack, "stack")) == ["stack"]
    with pytest.raises(ValueError, match="is not known"):
        modules_named(stack, "**")


def test_the_layers_of_a_module_without_our_stack_are_its_outermost_convolutions():
    root = nn.ModuleDict({"enter": nn.Linear(2, 2), "net": GCN(2, 2, num_layers=3)})
    assert list(layers_of(root, OURS)) == [f"net.convs.{place}" for place in range(3)]
    with pytest.raises(ValueError, match="as layers: NAME"):
        layers_of(root, "net.conv.*")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.0", "a.1", "a.2"], [1, 2, 3]),
        (["a.4", "a.7"], [5, 8]),
        (["a", "b"], [1, 2]),
        (["a.0.x", "a.1.x"], [1, 2]),
        (["a.0", "a.1", "b.0"], [1, 2, 3]),
    ],
)
def test_layers_have_the_numbers_of_their_places(names, expected):
    assert layer_numbers(names) == expected
