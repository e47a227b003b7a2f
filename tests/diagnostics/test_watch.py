"""Models in loops of their own, and the values of every measure from autograd."""

import copy
import gc
import math
import weakref

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models

import gnn_depth
from gnn_depth import measurements
from gnn_depth.diagnostics import MEASURES
from gnn_depth.diagnostics.hooks import modules_named
from gnn_depth.diagnostics.measures import mean_average_distance
from tests.diagnostics.loops import CHANNELS, CONVOLUTIONS, DEPTH, NODES, Loop, features, graph
from tools.attack.numbers import layers as attack

# The limit of a layer's propagation is known to layers of this package alone.
ALL = tuple(name for name, measure in MEASURES.items() if measure.statistic.side is None)
DEGREES = torch.tensor([0, 2, 4, 3, 2, 1])
MODELS = {
    "GIN": (models.GIN, {"norm": "batch_norm"}),
    "PNA": (
        models.PNA,
        {"aggregators": ["mean", "max"], "scalers": ["identity", "amplification"], "deg": DEGREES},
    ),
    "EdgeCNN": (models.EdgeCNN, {"jk": "cat"}),
}


def by_hand(model, layers, loss):
    """What enters a model's layers, its gradient, and the gradients of their parameters; of a
    copy."""
    twin, states, handles = copy.deepcopy(model), [], []
    modules = list(modules_named(twin, layers).values())
    for module in modules:
        handles.append(module.register_forward_pre_hook(lambda _, args: states.append(args[0])))
    random = torch.get_rng_state()
    total = loss(twin)
    torch.set_rng_state(random)
    gradients = torch.autograd.grad(total, states, retain_graph=True)
    total.backward()
    columns = []
    for module, state, gradient in zip(modules, states, gradients, strict=True):
        column = attack.Column(module)
        column.states, column.gradients = [state.detach().numpy()], [gradient.numpy()]
        slopes = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
        column.of_parameters = torch.cat(slopes).numpy()
        columns.append(column)
    return columns


def watch_and_compare(model, layers, losses, edges):
    """Train a watched model for a step a loss, and compare every value with the one computed by
    hand."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    with gnn_depth.watch(model, layers, ALL) as watched:
        for loss, edge_index in zip(losses, edges):
            columns = by_hand(model, layers, loss)
            loss(model).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            optimizer.zero_grad()
            values = attack.expected_values(columns, edge_index.numpy())
            del values["update_ratio"]  # that of steps which are not clipped
            expected.append(values)
            watched.step()
    assert watched.notes == []
    frame = watched.frame()
    for step, values in enumerate(expected):
        assert list(attack.different(frame[frame.step == step], values)) == []


def square(x, edge_index):
    return lambda model: model(x, edge_index).square().mean()


@pytest.mark.parametrize("name", MODELS)
def test_every_measure_of_a_stock_model_is_that_of_autograd(name):
    kind, options = MODELS[name]
    model = kind(CHANNELS, CHANNELS, DEPTH, 5, **options).double()
    edges = [graph(), graph(9, 20)]
    watch_and_compare(
        model, "convs.*", [square(features(), edges[0]), square(features(9, 2), edges[1])], edges
    )


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_measure_of_a_convolution_in_a_loop_is_that_of_autograd(name):
    model = Loop(CONVOLUTIONS[name]).double()
    watch_and_compare(model, "layers.*", [square(features(), graph())], [graph()])


def loop(depth=DEPTH, make=lambda: pyg.GCNConv(CHANNELS, CHANNELS)):
    torch.manual_seed(0)
    return Loop(make, depth).double()


def train(model, steps=3, watched=None, losses=None, optimizer=None):
    """Steps of a loop without gradient accumulation."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = losses[step] if losses else square(features(), graph())
        loss(model).backward()
        optimizer.step()
        optimizer.zero_grad()
        if watched is not None:
            watched.step()


def watched_frame(model, *args, steps=3, **options):
    """The values of some steps: a row for each step and measure, a column for each layer."""
    with gnn_depth.watch(model, *args, **options) as watched:
        train(model, steps, watched)
    return wide(watched)


def wide(watched):
    return watched.frame().pivot_table(
        index=["measure", "step"], columns="layer", values="value", dropna=False
    )


def test_a_watched_training_goes_as_one_that_is_not():
    alone, watched = loop(make=lambda: pyg.GATConv(CHANNELS, CHANNELS, dropout=0.5)), None
    watched = copy.deepcopy(alone)
    torch.manual_seed(5)
    train(alone)
    torch.manual_seed(5)
    watched_frame(watched, measures=ALL)
    assert all(torch.equal(p, q) for p, q in zip(alone.parameters(), watched.parameters()))


def test_an_optimizer_ends_the_steps_itself():
    expected, model = watched_frame(loop(), measures=ALL), loop()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gnn_depth.watch(model, measures=ALL, optimizer=optimizer) as watched:
        train(model, 3, optimizer=optimizer)
        with pytest.raises(ValueError, match="no optimizer"):
            watched.step()
    assert wide(watched).equals(expected)
    train(model, 1, optimizer=optimizer)
    assert len(set(watched.frame().step)) == 3


def hooks_of(model):
    of_modules = [one._forward_pre_hooks | one._forward_hooks for one in model.modules()]
    of_parameters = [one._post_accumulate_grad_hooks or () for one in model.parameters()]
    return sum(map(len, of_modules + of_parameters))


def test_hooks_are_there_in_measured_steps_alone_and_nothing_is_left_after_the_block():
    model, x, hooked = loop(), features(), []
    with gnn_depth.watch(model, measures=ALL, every=3) as watched:
        for _ in range(7):
            hooked.append(hooks_of(model) > 0)
            train(model, 1, watched, [square(x, graph())])
    assert hooked == [True, False, False, True, False, False, True]
    assert hooks_of(model) == 0
    assert not x._backward_hooks
    assert sorted(set(watched.frame().step)) == [0, 3, 6]
    forgotten = [weakref.ref(model), weakref.ref(x), *map(weakref.ref, model.parameters())]
    del model, x
    gc.collect()
    assert [one() for one in forgotten] == [None] * len(forgotten)


def by_layers(layers, x, edge_index):
    for layer in layers:
        x = torch.tanh(layer(x, edge_index))
    return x


def test_layers_of_a_loop_without_a_model_are_watched_and_batches_are_not_taken_for_further_layers():
    layers = loop().layers
    with gnn_depth.watch(layers, "*", ["representation_norm", "gradient_norm_hidden"]) as watched:
        for _ in range(2):
            by_layers(layers, features(), graph()).sum().backward()
        watched.step()
    norms = wide(watched).loc["representation_norm"].to_numpy()[0]
    assert len(norms) == 3
    assert norms[0] == pytest.approx(2**0.5 * float(features().detach().norm()))


def test_the_scale_of_a_scaler_is_taken_out():
    found = []
    for scale in (2.0**9, 1.0):
        model, scaler = loop().float(), torch.amp.GradScaler("cpu", init_scale=scale)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with gnn_depth.watch(model, measures=ALL, scaler=scaler) as watched:
            for _ in range(2):
                scaler.scale(square(features().float(), graph())(model)).backward()
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update(scale / 4)
                optimizer.zero_grad()
                watched.step()
        found.append(wide(watched).to_numpy())
    assert found[0] == pytest.approx(found[1], rel=1e-4, nan_ok=True)


def test_a_compiled_model_is_measured_as_it_is_and_compiled_in_the_other_steps():
    expected, ran = watched_frame(loop(), "layers.*", ALL, every=2, steps=4), []

    def backend(graph, inputs):
        return lambda *arguments: ran.append(1) or graph.forward(*arguments)

    model = torch.compile(loop(), backend=backend)
    with gnn_depth.watch(model, "layers.*", ALL, every=2) as watched:
        for step in range(4):
            before = len(ran)
            train(model, 1, watched)
            assert (len(ran) > before) == (step % 2 == 1)
    assert wide(watched).to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-9, nan_ok=True)
    train(model, 1)


EDGES = graph().unique(dim=1)
ADJACENCY = torch.sparse_coo_tensor(
    EDGES.flip(0), torch.ones(EDGES.shape[1]), (NODES, NODES), check_invariants=True
)


@pytest.mark.parametrize(
    ("called", "given"),
    [(ADJACENCY, None), (None, EDGES), (None, gnn_depth.Graph(EDGES, NODES))],
    ids=["sparse", "edge_index", "Graph"],
)
def test_edges_are_those_of_the_call_or_those_given(called, given):
    class Called(nn.Linear):
        def forward(self, x, adjacency):
            return super().forward(x)

    layers = nn.ModuleList([Called(CHANNELS, CHANNELS).double()])
    with gnn_depth.watch(layers, "*", ["mean_average_distance"], edge_index=given) as watched:
        layers[0](features(), called).sum().backward()
        watched.step()
    expected = mean_average_distance(features(), EDGES).item()
    assert watched.frame().value.item() == pytest.approx(expected, rel=1e-12)


def no_pass(model, watched):
    watched.step()


def some_layers(model, watched):
    model.layers[0](features(), graph()).sum().backward()
    watched.step()


def half(model, watched):
    x = torch.ones(3, CHANNELS, dtype=torch.float16, requires_grad=True)
    model.half()(x, graph(3)).sum().backward()
    watched.step()


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (no_pass, "training mode"),
        (some_layers, "layers.1"),
        (half, "scaler"),
    ],
)
def test_what_cannot_be_measured_has_a_note(run, words):
    model = loop()
    with pytest.warns(UserWarning, match=words), gnn_depth.watch(model, "layers.*") as watched:
        run(model, watched)
    assert any(words in note for note in watched.notes)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (None, {"layers": "layer.*"}, r"Did you mean 'layers.\*'"),
        (None, {"measures": ["gradient_similarty"]}, "'gradient_similarity'"),
        (None, {"every": 0}, "at least 1"),
        (nn.DataParallel(nn.Linear(2, 2)), {}, "DistributedDataParallel"),
    ],
)
def test_wrong_arguments_are_refused_with_the_fix(model, options, message):
    with pytest.raises(ValueError, match=message):
        gnn_depth.watch(model or loop(), **options)


def test_a_watch_is_used_inside_its_block():
    model = loop()
    with gnn_depth.watch(model, measures=["representation_norm"]) as watched:
        with pytest.raises(ValueError, match="gradient"):
            watched.findings()
        train(model, 1, watched)
    with pytest.raises(ValueError, match="block"):
        watched.step()


def test_values_become_a_frame_a_figure_and_files(tmp_path):
    model = loop()
    with gnn_depth.watch(model) as watched:
        train(model, 60, watched)
    frame = watched.frame()
    assert list(frame.columns) == ["step", "layer", "measure", "value"]
    assert set(frame.step) == set(range(60))
    assert watched.layers == {1: "layers.0", 2: "layers.1", 3: "layers.2"}
    assert watched.plot("gradient_similarity").axes[0].get_xlabel() == "step"
    watched.save(tmp_path / "run")
    assert set(measurements.measure_names(tmp_path / "run")) == set(frame.measure)
    saved = measurements.load_values(tmp_path / "run", "gradient_similarity")
    measured = frame[frame.measure == "gradient_similarity"].value
    assert 10 ** saved.values.ravel() == pytest.approx(measured.to_numpy())


def test_the_first_failure_is_found():
    model = loop(6)
    losses = [
        square(features(), graph()),
        lambda model: model(features(), graph()).sum() * math.inf,
    ]
    with gnn_depth.watch(model) as watched:
        train(model, 2, watched, losses)
    found = watched.findings()["non_finite"]
    assert (found["step"], found["layer"]) == (1, 6)
