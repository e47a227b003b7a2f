import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn

from gnn_depth.data import SyntheticCitation
from gnn_depth.diagnostics import LipschitzConstants
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import Chain, chain, loader, rows
from tests.training.conftest import scalars


@pytest.fixture
def data():
    sizes = {"nodes": 30, "edges": 60, "features": 8, "classes": 3, "val": 10, "test": 10}
    sizes = {f"num_{name}": size for name, size in sizes.items()}
    return SyntheticCitation(num_train_per_class=2, **sizes)


def classifier(*norms, **options):
    torch.manual_seed(0)
    options = {"layer": "gat", "num_layers": 3, "hidden_channels": 4} | options
    return NodeClassifier(8, 3, norm=["lipschitz", *norms], **options)


def exact(layer, x, graph):
    jacobian = torch.autograd.functional.jacobian(lambda v: layer(v, graph), x)
    return torch.linalg.matrix_norm(jacobian.reshape(-1, x.numel()), 2).item()


def test_constants_are_measured_every_so_often_and_in_the_last_step_at_its_inputs(
    make_trainer, data, tmp_path
):
    model = classifier()
    callback = LipschitzConstants(every_n_epochs=2, tolerance=1e-6)
    first = copy.deepcopy(model).eval()
    logger = TensorBoardLogger(tmp_path)
    make_trainer([callback], max_epochs=4, logger=logger).fit(model, data)
    measured, bounds = callback.measure_log.measurements()
    assert measured.steps.tolist() == [0, 2, 3]
    assert (measured.values <= bounds.values).all()
    graph = data.batch.graph
    expected = [layer.lipschitz_bound(graph) for layer in first.stack.layers]
    assert 10 ** bounds.values[0] == pytest.approx(expected)
    with torch.no_grad():
        x = first.stack.encoder(data.batch.x)
    constant = exact(first.stack.layers[0], x, graph)
    assert 10 ** measured.values[0, 0] == pytest.approx(constant, rel=1e-4)
    product = dict(scalars(logger.log_dir, "lipschitz/")["lipschitz/bound_log10/product"])
    assert product[0] == pytest.approx(bounds.values[0].sum(), rel=1e-5)


def test_a_layer_that_cannot_be_linearised_or_is_not_finite_is_nan_and_stops_nothing(make_trainer):
    class Rough(nn.Linear):
        def forward(self, x):
            return Once.apply(super().forward(x))

    model, callback = chain(depth=3), LipschitzConstants("rounds.*", tolerance=1e-8)
    model.rounds[1] = Rough(3, 3).double()
    model.rounds[2].weight.data[0, 0] = math.inf
    expected = torch.linalg.matrix_norm(model.rounds[0].weight, 2).item()
    with pytest.warns(UserWarning, match="Rough cannot be linearised"):
        make_trainer([callback]).fit(model, loader(rows(), 20))
    constants = 10 ** callback.measure_log.measurements()[0].values[0]
    assert constants[0] == pytest.approx(expected, rel=1e-8)
    assert np.isnan(constants[1:]).all()


class Once(torch.autograd.Function):
    """Known to autograd only, as the functions of reversible layers are."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_a_training_that_is_watched_is_the_same_to_the_last_bit(make_trainer, data):
    states = []
    for callbacks in ([], [LipschitzConstants(every_n_epochs=1)]):
        model = classifier("batch", dropout=0.5)
        make_trainer(callbacks, max_epochs=4).fit(model, data)
        states.append((model.state_dict(), torch.get_rng_state()))
    assert all(torch.equal(value, states[1][0][name]) for name, value in states[0][0].items())
    assert torch.equal(states[0][1], states[1][1])


def test_a_layer_that_is_shared_is_measured_at_each_of_its_places(make_trainer, data):
    model, callback = classifier(share_layers=True), LipschitzConstants(tolerance=1e-6)
    make_trainer([callback]).fit(model, data)
    first = 10 ** callback.measure_log.measurements()[0].values[0]
    assert len(set(first.tolist())) == 3
    graph, state = data.batch.graph, classifier(share_layers=True).eval()
    with torch.no_grad():
        x = state.stack.encoder(data.batch.x)
        for value in first:
            assert value == pytest.approx(exact(state.stack.layers[0], x, graph), rel=1e-4)
            x = state.stack.activation(state.stack.layers[0](x, graph))


def test_bounds_are_asked_for_with_all_other_arguments(make_trainer):
    class Known(nn.Linear):
        def forward(self, x, factor, *, shift):
            return factor * super().forward(x) + shift

        def lipschitz_bound(self, factor, *, shift):
            return factor * 7.0

    model = Chain(call=partial(lambda layer, x: layer(x, 2.0, shift=1.0))).double()
    model.rounds = nn.ModuleList([Known(3, 3).double()])
    callback = LipschitzConstants("rounds.*", tolerance=1e-8)
    expected = 2 * torch.linalg.matrix_norm(model.rounds[0].weight, 2).item()
    make_trainer([callback]).fit(model, loader(rows(), 20))
    measured, bounds = callback.measure_log.measurements()
    assert 10 ** measured.values[0, 0] == pytest.approx(expected, rel=1e-8)
    assert 10 ** bounds.values[0, 0] == pytest.approx(14)
