"""The suites name the property that a part lacks, and no other."""

import random
import re

import pytest
import torch
from torch import nn

from gnn_depth import FeatureNorm, GraphDropout, Init, Layer, ScoreNorm, Skip, WeightNorm
from gnn_depth.nn.parts import WeightChain
from gnn_depth.testing import (
    NotConforming,
    check_graph_dropout,
    check_init,
    check_layer,
    check_norm,
    check_skip,
)


def fails(check, part, **options):
    """The properties that the error names."""
    with pytest.raises(NotConforming) as caught:
        check(part, **options)
    return re.findall(r"^  (\w+): ", str(caught.value), re.MULTILINE)


def norm(forward, **members):
    """A norm of features with this forward."""
    return type("Mine", (FeatureNorm,), {"forward": forward, "__module__": __name__, **members})


def with_attributes(**make):
    """A constructor that gives a norm these, made from the width."""

    def construct(self, channels):
        FeatureNorm.__init__(self, channels)
        for name, of_width in make.items():
            setattr(self, name, of_width(channels))

    return construct


def looks_at_values(self, x, graph):
    return x if float(x.detach().abs().max()) > 0 else 2 * x


def empties_its_input(self, x, graph):
    out = 2 * x
    x.data.zero_()
    return out


def uses_up_chance(self, x, graph):
    torch.rand(1)
    return 2 * x


def graph_of_node(graph):
    if graph.node_to_graph is None:
        return torch.zeros(graph.num_nodes, dtype=torch.long)
    return graph.node_to_graph


def doubles_the_first_node_of_each_graph(self, x, graph):
    of_node = graph_of_node(graph)
    number = torch.arange(len(x))
    first = torch.full((graph.num_graphs,), len(x)).scatter_reduce(0, of_node, number, "amin")
    return x * (1 + (number == first[of_node]).to(x.dtype))[:, None]


def centres(self, x, graph):
    # Not graph_mean: torch cannot compile through its shape checks.
    of_node = graph_of_node(graph)
    total = x.new_zeros(graph.num_graphs, x.shape[1]).index_add(0, of_node, x)
    size = torch.bincount(of_node, minlength=graph.num_graphs).to(x.dtype)
    return x - (total / size[:, None])[of_node]


BROKEN_NORMS = {
    "shape": norm(lambda self, x, graph: torch.cat([x, x], 1)),
    "finite": norm(lambda self, x, graph: x / x.norm(dim=-1, keepdim=True)),
    "gradient": norm(lambda self, x, graph: x * x.detach()),
    "state": norm(
        lambda self, x, graph: x + self.drawn.to(x.dtype),
        __init__=with_attributes(drawn=torch.randn),
    ),
    "ddp": norm(
        lambda self, x, graph: 2 * x,
        __init__=with_attributes(unused=lambda width: nn.Parameter(torch.ones(width))),
    ),
    "inputs": norm(empties_its_input),
    "repeat": norm(uses_up_chance),
    "permutation": norm(doubles_the_first_node_of_each_graph),
    "batch": norm(lambda self, x, graph: x - x.mean(0)),
    "blocks": norm(centres, nodewise=True),
}


def test_a_norm_that_cannot_be_compiled_lacks_that_property_alone():
    assert fails(check_norm, norm(looks_at_values)) == ["compile"]


class Lonely(Layer):
    """A layer that passes no messages."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)

    def reset_parameters(self):
        self.lin.reset_parameters()

    def forward(self, x, graph):
        return self.lin(x)


class Squaring(Lonely):
    def weight_chain(self):
        return WeightChain((self.lin.weight,), (self.lin.weight,))

    def forward(self, x, graph):
        return self.lin(x).square()


class Boasting(Lonely):
    takes_sparse = True


class Forgetting(Lonely):
    def weight_chain(self):
        return WeightChain((self.lin.weight.detach(),), (self.lin.weight,))


class Summing(Lonely):
    takes_blocks = True

    def forward(self, x, graph):
        # Of a block these are not all that a source sends.
        sent = x.new_zeros(len(x)).index_add(0, graph.source, x.new_ones(graph.num_edges))
        return (self.lin(x) * sent[:, None])[: graph.num_nodes]


class OfOneWidth(Skip):
    def __init__(self, widths, out_channels):
        if widths[-1] != out_channels:
            raise ValueError("one width")
        super().__init__(widths, out_channels)


class Doubling(OfOneWidth):
    """Its input has a factor, so that it is not inverted by a difference."""

    invertible = True

    def forward(self, update, states, graph):
        return update + 2 * states[-1]


class Rotating(OfOneWidth):
    """Its neurons are not those of its input."""

    adds = "input"

    def forward(self, update, states, graph):
        return update + states[-1].roll(1, -1)


class Remembering(OfOneWidth):
    """Its second state depends on the mean over nodes, and the joined state on the second."""

    carries = True

    def forward(self, update, states, graph, second):
        joined = update if second is None else update + second
        return joined, update.mean(0).expand_as(update)


class Transposing(WeightNorm):
    def forward(self, weight):
        return weight.t()


class Dividing(WeightNorm):
    def forward(self, weight):
        return weight / weight.norm()


class Loud(ScoreNorm):
    def forward(self, scores, score, graph):
        return scores / scores.abs().max()


def init(draw):
    """An initialisation that draws every parameter with a function."""

    def call(self, stack):
        for parameter in list(stack.parameters()):
            draw(parameter)

    return type("Mine", (Init,), {"draw": call})


class Replacing(Init):
    def draw(self, stack):
        for layer in stack.layers:
            layer.reset_parameters()
        for linear in stack.linear_maps():
            linear.reset_parameters()
            linear.weight = nn.Parameter(linear.weight.detach().clone())


class Halving(Init):
    def draw(self, stack):
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.mul_(0.5)


def graph_dropout(call):
    return type("Mine", (GraphDropout,), {"__init__": lambda self: None, "__call__": call})


def redirects_edges(self, graph):
    graph.source.fill_(0)
    return graph.keeping(graph.source == 0)


def adds_loops(self, graph):
    return graph.with_self_loops()


def draws_with_python(self, graph):
    kept = [random.random() < 0.5 for _ in graph.source]
    return graph.keeping(torch.tensor(kept).bool())


PARTS = [
    *[(check_norm, part, name) for name, part in BROKEN_NORMS.items()],
    (check_layer, Squaring, "chain"),
    (check_layer, Forgetting, "chain"),
    (check_layer, Boasting, "sparse"),
    (check_layer, Summing, "blocks"),
    (check_skip, Doubling, "invertible"),
    (check_skip, Rotating, "adds"),
    (check_skip, Remembering, "rows"),
    (check_norm, Dividing, "finite"),
    (check_norm, Transposing, "shape"),
    (check_norm, Loud, "finite batch"),
    (check_init, init(lambda one: nn.init.constant_(one, random.random())), "drawn"),
    (check_init, Halving, "drawn"),
    (check_init, init(lambda one: nn.init.constant_(one, 1e30)), "finite"),
    (check_init, Replacing, "in_place"),
    (check_graph_dropout, graph_dropout(adds_loops), "fewer"),
    (check_graph_dropout, graph_dropout(draws_with_python), "seed"),
    (check_graph_dropout, graph_dropout(redirects_edges), "inputs"),
]


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize(("check", "part", "lacking"), PARTS)
def test_the_properties_that_a_part_lacks_are_named_and_no_other(check, part, lacking):
    assert fails(check, part) == lacking.split()


def test_the_report_names_every_failure_its_input_the_deviation_and_the_remedy():
    with pytest.raises(NotConforming) as caught:
        check_norm(norm(lambda self, x, graph: (x - x.mean(0)) / x.norm(dim=-1, keepdim=True)))
    report = str(caught.value)
    assert re.match(r"Mine \(.*\) .* 2 of 11 properties:\n", report)
    assert re.search(
        r"\n  finite: .*\n    features, zeros on a graph .* in training: 36 of 36 entries of the "
        r"output",
        report,
    )
    assert re.search(
        r"\n  batch: .*\n    features in evaluation, graph 0 .* off by \d\.\d+\.\n",
        report,
    )
    assert "graph_mean(x, graph)" in report
    assert report.endswith("check_norm(..., except_for=('finite', 'batch')).")


def raises(*args):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("check", "part", "said"),
    [
        (check_norm, norm(raises), "KeyError: 'lost'\n    test_suites.py:{line}: raise KeyError"),
        (
            check_norm,
            norm(centres, __init__=raises),
            "KeyError: 'lost'\n    test_suites.py:{line}: raise KeyError",
        ),
        (check_norm, norm(lambda self, x, graph: (x, x)), "tuple"),
        (check_norm, norm(lambda self, x, graph: x.float()), "torch.float32"),
        (
            check_norm,
            norm(lambda self, x, graph: x * torch.ones(1, dtype=torch.float64)),
            "torch.float64",
        ),
        (check_init, init(lambda parameter: 1 / 0), "ZeroDivisionError"),
        (check_graph_dropout, graph_dropout(lambda self, graph: None), "NoneType"),
    ],
)
def test_a_part_that_cannot_be_used_at_all_fails_in_one_property_with_its_line(check, part, said):
    with pytest.raises(NotConforming) as caught:
        check(part)
    report = str(caught.value)
    assert said.replace("{line}", re.search(r"test_suites.py:(\d+): |$", report)[1] or "") in report
    assert len(re.findall(r"^  \w+: ", report, re.MULTILINE)) == 1
    assert len(report.splitlines()) < 8


@pytest.mark.usefixtures("not_compiled")
def test_a_property_can_be_excepted_where_it_does_not_hold():
    check_norm(BROKEN_NORMS["batch"], except_for=["batch"])
    with pytest.raises(NotConforming, match=r"batch: .* holds"):
        check_norm(norm(centres), except_for=["batch"])


@pytest.mark.parametrize(
    ("part", "options", "message"),
    [
        (norm(centres), {"except_for": ["bacth"]}, "'bacth'. Did you mean 'batch'"),
        (Lonely, {}, "Lonely.* is not a norm: .*FeatureNorm"),
        ("piar", {}, "'piar'. Did you mean 'pair'"),
    ],
)
def test_a_wrong_part_or_property_is_refused(part, options, message):
    with pytest.raises(ValueError, match=message):
        check_norm(part, **options)


def test_a_norm_with_all_properties_conforms_and_the_authors_random_numbers_are_left_alone():
    before = torch.get_rng_state()
    check_norm(norm(centres))
    check_init("default")
    assert torch.equal(before, torch.get_rng_state())
