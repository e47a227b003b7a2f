"""The tests of the parts: the conformance suite, and one claim to put one's own in place of."""

from gnn_depth.cli.templates.parts import PARTS

_TEST = '''"""What MyPart promises."""

{imports}


def test_it_does_what_every_{kind}_is_expected_to_do():
    check_{kind}(MyPart)


# Say in a test's name what the formula promises, and check it: this one holds for the file as it was written.
{claim}'''

_GRAPH = "graph = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)"

_CLAIMS = {
    "feature norm": f"""def test_features_are_multiplied_by_the_scale():
    {_GRAPH}
    x = torch.randn(3, 8)
    torch.testing.assert_close(MyPart(8, scale=2.0)(x, graph), 2 * x)
""",
    "score norm": f"""def test_a_temperature_divides_the_scores():
    {_GRAPH}
    scores, x, att = torch.randn(3, 2), torch.randn(3, 2, 4), torch.randn(2, 4)
    normed = MyPart(2, temperature=2.0)(scores, LinearScore(x, att, att), graph)
    torch.testing.assert_close(normed, scores / 2)
""",
    "weight norm": """def test_weights_are_multiplied_by_the_scale():
    weight = torch.randn(4, 3)
    torch.testing.assert_close(MyPart(num_layers=2, scale=2.0).normed(weight), 2 * weight)
""",
    "layer": """def test_a_node_that_nobody_writes_to_hears_itself_alone():
    graph = Graph(torch.tensor([[0], [1]]), num_nodes=2)
    layer, x = MyPart(4, 3), torch.randn(2, 4)
    torch.testing.assert_close(layer(x, graph)[0], layer.lin(x[0]))
""",
    "init": """def test_the_standard_deviation_is_the_gain_over_the_root_of_the_inputs():
    weight = torch.empty(200, 400)
    MyPart(gain=2.0).draw(weight, Place(hidden=True, activated=True, reads_activated=True))
    torch.testing.assert_close(weight.std().item(), 2 / 400**0.5, rtol=0.05, atol=0)
""",
    "skip": """def test_the_latest_state_is_added():
    update, first, latest = torch.randn(3, 2), torch.randn(3, 5), torch.randn(3, 2)
    torch.testing.assert_close(MyPart([5, 2], 2, scale=0.5)(update, [first, latest]), update + latest / 2)
""",
}

_IMPORTS = {
    "feature norm": "from gnn_depth import Graph\n",
    "score norm": "from gnn_depth import Graph\nfrom gnn_depth.nn.scores import LinearScore\n",
    "weight norm": "",
    "layer": "from gnn_depth import Graph\n",
    "init": "from gnn_depth.nn.inits.matrices import Place\n",
    "skip": "",
}


def _test_of(what: str) -> str:
    kind = what.rpartition(" ")[2]
    imports = f"import torch\nfrom my_part import MyPart\n\n{_IMPORTS[what]}from gnn_depth.testing import check_{kind}"
    return _TEST.format(imports=imports, kind=kind, claim=_CLAIMS[what])


TESTS = {what: _test_of(what) for what in PARTS}
