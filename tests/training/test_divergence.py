"""Trying the parts of a stack once before a run: the stack stays as it is, and no good part is
refused."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import registered
from gnn_depth.training.divergence import PartFault, check_parts

STACKS = [{kind: name} for kind in ("layer", "skip", "graph_dropout") for name in registered(kind)]
STACKS += [{"layer": "gat", "norm": name} for name in registered("norm")]
STACKS += [{"checkpoint_every": 2}, {"reversible": 2, "skip": "residual"}]


@pytest.mark.parametrize("options", STACKS, ids=lambda options: str(options))
def test_a_stack_of_good_parts_passes_and_neither_it_nor_random_numbers_change(options):
    torch.manual_seed(3)
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=8, dropout=0.5, **options)
    before, numbers = (
        {name: value.clone() for name, value in stack.state_dict().items()},
        torch.get_rng_state(),
    )
    check_parts(stack, 6)
    assert torch.equal(numbers, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in stack.state_dict().items())
    assert stack.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in stack.modules())


def test_numbers_that_overflow_in_a_deep_stack_are_no_fault_of_a_part():
    stack = DeepGNN(6, 3, num_layers=6, hidden_channels=8)
    with torch.no_grad():
        for layer in stack.layers:
            layer.lin.weight.fill_(1e9)
    check_parts(stack, 6)


class Five(FeatureNorm):
    def forward(self, x, graph):
        return x.new_ones(5, x.shape[1])


def test_a_part_that_always_returns_five_rows_is_refused():
    stack = DeepGNN(6, 3, hidden_channels=8, norm=[Five])
    with pytest.raises(PartFault, match="it must be"):
        check_parts(stack, 6)
