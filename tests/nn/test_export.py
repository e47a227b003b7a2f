"""Exported stacks equal the stacks, for graphs of any size, and need nothing but PyTorch."""

import pytest
import torch

from gnn_depth import DeepGNN, FeatureNorm
from gnn_depth.graph import Graph
from gnn_depth.nn.variants.export import export
from gnn_depth.registry import registered
from tests.nn.layers.variants import VARIANTS


def stack(**options):
    torch.manual_seed(0)
    return DeepGNN(5, 3, num_layers=2, hidden_channels=8, **options).eval()


def graph_of(nodes, edges):
    draws = torch.Generator().manual_seed(edges)
    x = torch.randn(nodes, 5, generator=draws)
    return x, torch.randint(nodes, (2, edges), generator=draws)


@pytest.mark.parametrize("layer", ["gat", "transformer"])
def test_an_exported_stack_equals_the_stack_on_graphs_of_other_sizes(layer):
    model = stack(layer=layer, norm=["layer", "lipschitz"], skip="residual")
    program = export(model, 5)
    for nodes, edges in ((3, 2), (60, 400)):
        x, edge_index = graph_of(nodes, edges)
        found = program.module()(x=x, edge_index=edge_index)
        torch.testing.assert_close(found, model(x, edge_index), atol=1e-5, rtol=1e-5)
    for node in program.graph.nodes:
        assert "gnn_depth" not in str(node.target)


#: Exported in every run; the others by the slow tests.
PROMPT = ("reaction_with_source", "contra", "graphcon")


def every_part():
    for variant, (name, chosen) in VARIANTS.items():
        yield variant, {"layer": {"name": name, **chosen}}
    for name in registered("norm"):
        yield name, {"layer": "gat", "norm": name}
    for name in registered("skip"):
        yield name, {"skip": name}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[pytest.mark.slow] * (name not in PROMPT))
        for name, options in every_part()
    ],
)
def test_every_part_is_exported_whatever_its_parameters(options):
    model = DeepGNN(5, 3, num_layers=2, hidden_channels=24, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    export(model, 5)  # which compares the outputs on three graphs


class Pooled(DeepGNN):
    def forward(self, x, graph):
        return super().forward(x, graph, None, "mean")


def test_several_graphs_are_an_input():
    pooled = Pooled(5, 3, layer="gat", norm="graph").eval()
    (x, edges), owner = graph_of(20, 60), torch.arange(20) // 7
    edges = edges[:, owner[edges[0]] == owner[edges[1]]]
    program = export(pooled, 5, per_graph=True)
    found = program.module()(x=x, edge_index=edges, batch=owner)
    torch.testing.assert_close(found, pooled(x, Graph(edges, 20, owner)), atol=1e-5, rtol=1e-5)


def test_an_export_that_differs_from_the_model_is_refused():
    class Sized(FeatureNorm):
        """Keeps what it saw of the first graph as a constant."""

        def forward(self, x, graph):
            if not torch.compiler.is_exporting():
                self.size = float(x.shape[0])
            return x * self.size

    with pytest.raises(ValueError, match="differs from the model"):
        export(stack(layer="gcn", norm=[Sized]), 5)


def test_the_model_is_not_changed_by_its_export():
    model = stack(layer="gcn", norm=["spectral"])
    x, edge_index = graph_of(30, 90)
    before = model(x, edge_index)
    model.train()
    export(model, 5)
    assert model.training
    assert torch.equal(model.eval()(x, edge_index), before)
