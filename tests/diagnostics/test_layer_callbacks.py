"""What is common to the callbacks of every layer's gradients and states: their values are those of autograd."""

import copy
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision
from torch.optim import LBFGS, SGD, Adam
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv

from gnn_depth.data.base import FullBatch
from gnn_depth.diagnostics import GradientExpansion, GradientNorms, GradientSimilarity, RepresentationSimilarity
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import NoSkip, Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import Chain, chain, rows, values
from tests.diagnostics.test_own_stacks import TinyDouble
from tests.training.conftest import Tiny, scalars

ALL = [GradientSimilarity, RepresentationSimilarity, GradientExpansion, GradientNorms]


def mu(matrix):
    """Of a matrix, by a loop over its columns."""
    columns = matrix.double().t().tolist()
    return sum(sum((x - sum(column) / len(column)) ** 2 for x in column) for column in columns) ** 0.5


def of(matrices):
    """mu and its share of the norm."""
    return [mu(matrix) for matrix in matrices], [mu(matrix) / float(matrix.double().norm()) for matrix in matrices]


def measured_by_hand(kind, states, gradients, loss, module):
    """What a callback measures of states and of their gradients."""
    if kind is RepresentationSimilarity:
        return of([state.detach() for state in states])
    if kind is GradientNorms:
        of_layers = [torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True) for layer in module.rounds]
        hidden = [float(gradient.square().sum().sqrt()) for gradient in gradients]
        return hidden, [float(sum(one.square().sum() for one in of_layer).sqrt()) for of_layer in of_layers]
    mus, shares = of(gradients)
    if kind is GradientSimilarity:
        return mus, shares
    return [low / high for low, high in pairwise(mus)], [low / mus[-1] for low in mus[:-1]]


def by_hand(module, batch, kind):
    """What a callback measures, by differentiating with respect to the states themselves."""
    *states, out = module.states(batch)
    loss = out.square().mean() * module.factor
    return measured_by_hand(kind, states, torch.autograd.grad(loss, states, retain_graph=True), loss, module)


def assert_close(callback, expected, rel=1e-10):
    steps, *found = values(callback)
    assert steps.tolist() == list(range(len(expected)))
    for quantity in (0, 1):
        assert found[quantity] == pytest.approx(np.array([step[quantity] for step in expected]), rel=rel)


@pytest.mark.parametrize("kind", ALL)
def test_values_at_every_step_are_those_of_a_loop_over_rows_and_of_gradients_taken_by_hand(measure, kind):
    module, x = chain(), rows(40)
    by_foot = copy.deepcopy(module)
    callback = measure(module, x, kind=kind)
    expected = []
    optimizer = SGD(by_foot.parameters(), lr=0.1)
    for batch in x.split(20):
        expected.append(by_hand(by_foot, batch, kind))
        optimizer.zero_grad()
        by_foot.loss([batch]).backward()
        optimizer.step()
    assert_close(callback, expected)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("batch_size", "accumulated"), [(5, 4), (12, 2)])
def test_batches_that_are_accumulated_are_parts_of_one_matrix(measure, kind, batch_size, accumulated):
    module, parts = chain(), rows(20).split(batch_size)
    states = [list(module.states(part)) for part in parts]
    # Each batch is a part of the step's loss: also the last one, which has fewer rows.
    loss = sum(list_of[-1].square().mean() for list_of in states) / accumulated
    of_places = [[list_of[place] for list_of in states] for place in range(4)]
    gradients = [torch.cat(torch.autograd.grad(loss, of_place, retain_graph=True)) for of_place in of_places]
    expected = measured_by_hand(kind, list(map(torch.cat, of_places)), gradients, loss, module)
    callback = measure(module, kind=kind, batch_size=batch_size, accumulate_grad_batches=accumulated)
    assert_close(callback, [expected])


@pytest.mark.parametrize("kind", ALL)
def test_clipping_checkpoints_and_a_searching_optimizer_change_nothing(measure, kind):
    expected = [by_hand(chain(), rows(), kind)]
    for reentrant in (True, False):
        again = chain(call=partial(checkpoint, use_reentrant=reentrant))
        assert_close(measure(again, kind=kind, gradient_clip_val=1e-6), expected)
    assert_close(measure(chain(optimizer=lambda p: LBFGS(p, max_iter=5)), kind=kind), expected)


@pytest.mark.parametrize("optimizer", [lambda p: Adam(p, lr=0.1, fused=True), lambda p: Adam(p, lr=0.1)])
def test_the_scale_of_mixed_precision_is_taken_out(measure, optimizer):
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**9))
    x, module = rows(dtype=torch.float32), chain(optimizer=optimizer).float()
    _, *half = values(measure(module, x, plugins=plugin, max_epochs=2))
    for found, expected in zip(half, by_hand(chain(), x.double(), GradientNorms)):
        assert found[0] == pytest.approx(expected, rel=1e-2)
        assert (found[1] < 10 * max(expected)).all()


def test_half_precision_is_measured(measure):
    x = rows(dtype=torch.float32)
    expected = by_hand(chain(), x.double(), GradientNorms)
    assert_close(measure(chain().float(), x, precision="bf16-mixed"), [expected], rel=3e-2)


@pytest.mark.parametrize("factor", [1e-38, 1e-30, 1e30])
def test_gradients_of_any_size_that_float32_has_are_measured(measure, factor):
    x = rows(dtype=torch.float32)
    rel = 2e-2 if factor == 1e-38 else 1e-5  # the smallest numbers have few digits
    mus, shares = by_hand(chain(), x.double(), GradientSimilarity)
    callback = measure(chain(factor=factor).float(), x, kind=GradientSimilarity)
    assert_close(callback, [([factor * mu for mu in mus], shares)], rel=rel)
    norms = [[factor * norm for norm in of_layers] for of_layers in by_hand(chain(), x.double(), GradientNorms)]
    assert_close(measure(chain(factor=factor).float(), x), [norms], rel=rel)


@pytest.mark.parametrize("kind", ALL)
def test_a_layer_of_several_places_is_measured_at_each(measure, kind):
    tied = chain()
    for place in range(1, 4):
        tied.rounds[place] = tied.rounds[0]
    assert_close(measure(copy.deepcopy(tied), kind=kind), [by_hand(tied, rows(), kind)])


def partly():
    """Its second layer is not called, the third sees no gradients, and nothing comes of the fourth."""

    def call(layer, x):
        place = list(module.rounds).index(layer)
        if place == 1:
            return torch.zeros_like(x)
        out = layer(x.detach() if place == 2 else 2 * x if place == 3 else x)
        return 0 * x if place == 3 else out

    module = chain(call=call)
    module.rounds[0].requires_grad_(False)
    return module


def test_what_is_not_there_is_nan_and_what_is_not_needed_is_zero(measure):
    def of_first_step(kind):
        return [one.values[0] for one in measure(partly(), kind=kind).measure_log.measurements()]

    mus, shares = of_first_step(GradientSimilarity)
    assert np.isnan(mus).tolist() == [False, True, True, False]
    assert mus[3] == -np.inf
    assert np.isnan(shares).tolist() == [False, True, True, True]
    states, _ = of_first_step(RepresentationSimilarity)
    assert np.isnan(states).tolist() == [False, True, False, False]
    growth, total = of_first_step(GradientExpansion)
    assert np.isnan(growth).tolist() == [True, True, True]
    assert total[0] == np.inf
    hidden, parameters = of_first_step(GradientNorms)
    assert np.isnan(hidden).tolist() == [False, True, True, False]
    assert np.isnan(parameters).tolist() == [True, False, False, False]
    assert hidden[3] == parameters[1] == parameters[3] == -np.inf


@pytest.mark.parametrize("kind", ALL)
def test_what_is_not_finite_is_said_to_be_so(measure, kind):
    x = rows()
    x[3, 1] = torch.nan
    first, second = measure(x=x, kind=kind).measure_log.measurements()
    assert np.isnan(first.values).all()
    assert np.isnan(second.values).all()


def test_a_step_without_a_loss_is_no_measurement(measure):
    module = chain()
    step = module.training_step
    module.training_step = lambda batch, batch_idx: None if batch_idx == 0 else step(batch, batch_idx)
    with pytest.warns(UserWarning, match="returned `None`"):
        callback = measure(module, batch_size=10)
    assert values(callback)[0].tolist() == [1]


def test_one_row_has_no_differences(measure):
    mus, _ = measure(x=rows(1), kind=GradientSimilarity).measure_log.measurements()
    assert np.isneginf(mus.values).all()


def test_the_product_of_growth_is_a_curve(measure, tmp_path):
    board = TensorBoardLogger(tmp_path, name="run", version="")
    _, growth, total = values(measure(kind=GradientExpansion, logger=board, max_epochs=2))
    curve = scalars(tmp_path / "run", "gradient_expansion/")["gradient_expansion/growth_log10/product"]
    assert [value for _, value in curve] == pytest.approx(np.log10(growth).sum(1), rel=1e-5)
    assert growth.prod(1) == pytest.approx(total[:, 0], rel=1e-10)


def test_growth_of_one_layer_is_refused(make_trainer):
    with pytest.raises(MisconfigurationException, match=r"'enter'.*GradientSimilarity"):
        make_trainer([GradientExpansion("enter")]).fit(chain(), [[rows()]])


class Foreign(Chain):
    """PyTorch Geometric's layers, called with features and edges."""

    def __init__(self, edges):
        super().__init__()
        self.rounds = torch.nn.ModuleList(GCNConv(3, 3) for _ in range(4))
        self.call = lambda layer, x: layer(x, edges)


@pytest.mark.parametrize("kind", ALL)
def test_layers_of_another_library_are_watched_too(measure, kind):
    torch.manual_seed(3)
    module = Foreign(torch.randint(20, (2, 60))).double()
    expected = by_hand(copy.deepcopy(module), rows(), kind)
    assert_close(measure(module, kind=kind), [expected])


@pytest.mark.parametrize(
    "options",
    [
        {"layer": GCN},
        {"layer": GAT, "share_layers": True},
        {"layer": GCN, "encoder": "none", "hidden_channels": 4},
        {"layer": GAT, "norm": [LayerNorm], "norm_after_skip": True, "activation": "tanh"},
        {"layer": GAT, "skip": NoSkip},
    ],
)
def test_our_own_states_are_those_before_dropout(make_trainer, options):
    parts = {"skip": Residual, "num_layers": 3, "hidden_channels": 5, "dropout": 0.5} | options
    torch.manual_seed(0)
    model, data = NodeClassifier(4, 2, **parts).double(), TinyDouble()
    states = []
    handles = [m.register_forward_hook(lambda module, args, out: states.append(out)) for m in model.stack.states]
    torch.manual_seed(5)
    loss = torch.nn.functional.cross_entropy(
        model(data.batch)[data.batch.train_mask], data.batch.y[data.batch.train_mask]
    )
    for handle in handles:
        handle.remove()
    dense = [state.dense() if hasattr(state, "dense") else state for state in states]
    reached = [state for state in dense if state.requires_grad]
    gradients = torch.autograd.grad(loss, reached)
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callbacks = [kind() for kind in ALL]
    make_trainer(callbacks, max_epochs=1, num_sanity_val_steps=0).fit(model, datamodule=data)
    of_gradients, of_states, expansion, norms = callbacks
    assert_close(of_states, [of([state.detach() for state in dense])])
    skipped = 3 - len(reached)
    for found, expected in zip(values(of_gradients)[1:], of(gradients)):
        assert np.isnan(found[0][:skipped]).all()
        assert found[0][skipped:] == pytest.approx(expected, rel=1e-10)
    mus = of(gradients)[0]
    assert values(expansion)[2][0][skipped:] == pytest.approx([value / mus[-1] for value in mus[:-1]], rel=1e-10)
    assert values(norms)[1][0][skipped:] == pytest.approx([float(one.norm()) for one in gradients], rel=1e-10)


def test_measured_steps_of_a_compiled_model_run_as_they_are(make_trainer):
    found = []
    for compiling in ("on", "off"):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, num_layers=3, hidden_channels=5, compile=compiling)
        callbacks = [kind() for kind in ALL]
        make_trainer(callbacks, max_epochs=3, limit_val_batches=0).fit(model, datamodule=Tiny())
        found.append([q.values for callback in callbacks for q in callback.measure_log.measurements()])
        assert (model.stack._compiled is not None) == (compiling == "on")
    for compiled, plain in zip(*found, strict=True):
        assert np.array_equal(compiled, plain)


def test_a_watched_training_goes_as_one_that_is_not(make_trainer):
    ends = []
    for kinds in (ALL, []):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, layer=GAT, num_layers=3, dropout=0.5, hidden_channels=4)
        trainer = make_trainer([kind() for kind in kinds], max_epochs=5, num_sanity_val_steps=0)
        trainer.fit(model, datamodule=Tiny())
        ends.append({name: float(value) for name, value in trainer.callback_metrics.items()})
    assert ends[0] == ends[1]


def test_processes_with_the_whole_graph_each_are_known_to_share_it():
    assert FullBatch(Tiny().load()).shared
