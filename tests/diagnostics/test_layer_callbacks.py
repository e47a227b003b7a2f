"""What is common to the callbacks of every layer's gradients and states. Their values are compared
in test_watch.py."""

from functools import partial

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision
from torch.nn.utils import parameters_to_vector
from torch.optim import LBFGS, Adam

from gnn_depth.diagnostics import (
    GradientExpansion,
    GradientNorms,
    GradientSimilarity,
    LayerMeasures,
    RepresentationSimilarity,
)
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import NoSkip, Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import chain, loader, rows, values
from tests.diagnostics.test_own_stacks import TinyDouble
from tests.training.conftest import Tiny, scalars


def test_clipping_changes_nothing(measure):
    free, clipped = (
        measure(kind=GradientNorms, gradient_clip_val=bound, max_epochs=1) for bound in (None, 1e-6)
    )
    for found, expected in zip(values(clipped), values(free), strict=True):
        assert np.array_equal(found, expected)


def test_the_last_evaluation_of_a_searching_optimizer_counts(measure):
    module, evaluations = chain(optimizer=lambda p: LBFGS(p, max_iter=5)), []

    def loss(batch):
        states = list(module.states(batch[0]))
        for state in states:
            state.retain_grad()
        evaluations.append(states)
        return states[-1].square().mean()

    module.loss = loss
    before = parameters_to_vector(module.rounds[0].parameters()).detach()
    updates = LayerMeasures(["update_ratio"], "rounds.*")
    _, norms, _ = values(measure(module, callbacks=[updates]))
    assert len(evaluations) == 5
    expected = [[float(state.grad.norm()) for state in of_one[:-1]] for of_one in evaluations]
    assert norms[0] == pytest.approx(expected[-1], rel=1e-10)
    assert norms[0] != pytest.approx(expected[0], rel=1e-3)
    change = parameters_to_vector(module.rounds[0].parameters()).detach() - before
    (update,) = updates.measure_log.measurements()
    assert 10 ** update.values[0, 0] == pytest.approx(float(change.norm() / before.norm()))


@pytest.mark.parametrize(
    "optimizer", [lambda p: Adam(p, lr=0.1, fused=True), lambda p: Adam(p, lr=0.1)]
)
def test_the_scale_of_mixed_precision_is_taken_out(measure, optimizer):
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**9))
    x, module = rows(dtype=torch.float32), chain(optimizer=optimizer).float()
    _, *half = values(measure(module, x, plugins=plugin, max_epochs=2))
    for found, expected in zip(half, values(measure(x=x.double()))[1:]):
        assert found[0] == pytest.approx(expected[0], rel=1e-2)
        assert (found[1] < 10 * expected.max()).all()


def partly():
    """Its second layer is not called, the third sees no gradients, and nothing comes of the
    fourth."""

    def call(layer, x):
        place = list(module.rounds).index(layer)
        if place == 1:
            return torch.zeros_like(x)
        out = layer(x.detach() if place == 2 else 2 * x if place == 3 else x)
        return 0 * x if place == 3 else out

    module = chain(call=call)
    module.rounds[0].requires_grad_(False)
    return module


@pytest.mark.filterwarnings("ignore:(Gradient|Representation)")  # the notes
def test_what_is_not_there_is_nan_and_what_is_not_needed_is_zero(measure):
    def of_first_step(kind):
        return [one.values[0] for one in measure(partly(), kind=kind).measure_log.measurements()]

    mus, shares = of_first_step(GradientSimilarity)
    assert np.isnan(mus).tolist() == [False, True, True, False]
    assert mus[3] == -np.inf
    assert np.isnan(shares).tolist() == [False, True, True, True]
    growth, total = of_first_step(GradientExpansion)
    assert np.isnan(growth).tolist() == [True, True, True]
    assert total[0] == np.inf
    _, parameters = of_first_step(GradientNorms)
    assert np.isnan(parameters).tolist() == [True, True, False, True]


def test_a_step_without_a_loss_is_no_measurement(measure):
    module = chain()
    step = module.training_step
    module.training_step = lambda batch, batch_idx: (
        None if batch_idx == 0 else step(batch, batch_idx)
    )
    with pytest.warns(UserWarning, match="returned `None`"):
        callback = measure(module, batch_size=10)
    assert values(callback)[0].tolist() == [1]


def test_the_product_of_growth_is_a_curve(measure, tmp_path):
    board = TensorBoardLogger(tmp_path, name="run", version="")
    _, growth, total = values(measure(kind=GradientExpansion, logger=board, max_epochs=2))
    curve = scalars(tmp_path / "run", "gradient_expansion/")[
        "gradient_expansion/growth_log10/product"
    ]
    assert [value for _, value in curve] == pytest.approx(np.log10(growth).sum(1), rel=1e-5)
    assert growth.prod(1) == pytest.approx(total[:, 0], rel=1e-10)


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
@pytest.mark.filterwarnings("ignore:Gradient.*takes no part")  # the first layer without an encoder
def test_our_own_states_are_those_before_dropout(make_trainer, options):
    parts = {"skip": Residual, "num_layers": 3, "hidden_channels": 5, "dropout": 0.5} | options
    torch.manual_seed(0)
    model, data = NodeClassifier(4, 2, **parts).double(), TinyDouble()
    states, handles = [], []
    for block in model.stack.blocks:
        hook = block.register_forward_pre_hook(lambda module, args: states.append(args[0]))
        handles.append(hook)
    torch.manual_seed(5)
    mask = data.batch.train_mask
    loss = torch.nn.functional.cross_entropy(model(data.batch)[mask], data.batch.y[mask])
    for handle in handles:
        handle.remove()
    states = [state.dense() if hasattr(state, "dense") else state for state in states]
    reached = [state for state in states if state.requires_grad]
    gradients = torch.autograd.grad(loss, reached)
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callbacks = [RepresentationSimilarity(), GradientSimilarity(), GradientNorms()]
    make_trainer(callbacks, max_epochs=1, num_sanity_val_steps=0).fit(model, datamodule=data)
    of_states, of_gradients, norms = (values(callback)[1][0] for callback in callbacks)
    assert of_states == pytest.approx([mu(state.detach()) for state in states], rel=1e-10)
    skipped = 3 - len(reached)
    assert np.isnan(of_gradients[:skipped]).all()
    assert of_gradients[skipped:] == pytest.approx(list(map(mu, gradients)), rel=1e-10)
    assert norms[skipped:] == pytest.approx([float(one.norm()) for one in gradients], rel=1e-10)


def mu(x):
    return float((x - x.mean(0)).norm())


@pytest.mark.parametrize("kind", [GradientExpansion, partial(LayerMeasures, ["gradient_growth"])])
def test_growth_of_one_layer_is_refused(make_trainer, kind):
    with pytest.raises(MisconfigurationException, match=r"'enter'.*several"):
        make_trainer([kind("enter")]).fit(chain(), [[rows()]])


def test_one_layer_has_no_growth_and_its_other_measures_are_logged(make_trainer, board, tmp_path):
    names = ["gradient_growth", "gradient_expansion", "gradient_norm_hidden"]
    trainer = make_trainer([LayerMeasures(names, "rounds.0")], logger=board)
    trainer.fit(chain(), loader(rows(), 20))
    tags = set(scalars(tmp_path / "run", "gradient"))
    assert "gradient_norm/hidden_log10/layer_001" in tags
    assert not any("expansion" in tag for tag in tags)


def test_measured_steps_of_a_compiled_model_run_as_they_are(make_trainer):
    found = []
    for compiling in ("on", "off"):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, num_layers=3, hidden_channels=5, compile=compiling)
        callback = GradientNorms()
        make_trainer([callback], max_epochs=3, limit_val_batches=0).fit(model, datamodule=Tiny())
        found.append(values(callback))
    for compiled, plain in zip(*found, strict=True):
        assert np.array_equal(compiled, plain)
