import copy

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch.optim import LBFGS, SGD, Adam
from torch.utils.checkpoint import checkpoint

from tests.diagnostics.conftest import chain, loader, rows, values


def by_hand(module, batch):
    """Norms of every layer's gradients, by differentiating with respect to the states themselves."""
    states = list(module.states(batch))
    loss = states[-1].square().mean() * module.factor
    hidden = torch.autograd.grad(loss, states[:-1], retain_graph=True)
    hidden_norms = [float(gradient.pow(2).sum() ** 0.5) for gradient in hidden]
    parameter_norms = []
    for layer in module.rounds:
        gradients = torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
        parameter_norms.append(float(sum(gradient.pow(2).sum() for gradient in gradients) ** 0.5))
    return hidden_norms, parameter_norms


def test_norms_at_every_step_are_those_of_gradients_taken_by_hand(measure):
    module, x = chain(), rows(60)
    by_foot = copy.deepcopy(module)
    steps, hidden, parameters = values(measure(module, x, batch_size=20))
    assert steps.tolist() == [0, 1, 2]
    optimizer = SGD(by_foot.parameters(), lr=0.1)
    for step, batch in enumerate(x.split(20)):
        expected = by_hand(by_foot, batch)
        assert hidden[step] == pytest.approx(expected[0], rel=1e-10)
        assert parameters[step] == pytest.approx(expected[1], rel=1e-10)
        optimizer.zero_grad()
        by_foot.loss([batch]).backward()
        optimizer.step()


def test_training_goes_as_it_goes_without_being_watched(measure, make_trainer):
    watched, alone = chain(), chain()
    measure(watched, max_epochs=3)
    make_trainer([], max_epochs=3).fit(alone, loader(rows(), 20))
    for ours, theirs in zip(watched.parameters(), alone.parameters()):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("factor", [1e-38, 1e-30, 1e30])
def test_gradients_of_any_size_that_float32_has_are_measured(measure, factor):
    x = rows(dtype=torch.float32)
    _, hidden, parameters = values(measure(chain(factor=factor).float(), x))
    expected_hidden, expected_parameters = by_hand(chain(), x.double())
    rel = 2e-2 if factor == 1e-38 else 1e-5  # the smallest numbers have few digits
    assert hidden[0] / factor == pytest.approx(expected_hidden, rel=rel)
    assert parameters[0] / factor == pytest.approx(expected_parameters, rel=rel)


@pytest.mark.parametrize(("batch_size", "accumulated"), [(5, 4), (10, 2)])
def test_batches_that_are_accumulated_are_measured_as_the_one_that_they_make(measure, batch_size, accumulated):
    whole = values(measure(max_epochs=2))
    parts = values(measure(batch_size=batch_size, accumulate_grad_batches=accumulated, max_epochs=2))
    assert parts[0].tolist() == whole[0].tolist() == [0, 1]
    assert parts[1] == pytest.approx(whole[1], rel=1e-10)
    assert parts[2] == pytest.approx(whole[2], rel=1e-10)


def test_clipping_comes_after_the_measurement(measure):
    free, clipped = values(measure()), values(measure(gradient_clip_val=1e-6))
    assert clipped[1] == pytest.approx(free[1], rel=1e-12)
    assert clipped[2] == pytest.approx(free[2], rel=1e-12)


def test_half_precision_is_measured(measure):
    full = values(measure(x=rows(dtype=torch.float32), module=chain().float()))
    half = values(measure(x=rows(dtype=torch.float32), module=chain().float(), precision="bf16-mixed"))
    assert half[1] == pytest.approx(full[1], rel=3e-2)
    assert half[2] == pytest.approx(full[2], rel=3e-2)


@pytest.mark.parametrize("optimizer", [lambda p: Adam(p, lr=0.1, fused=True), lambda p: Adam(p, lr=0.1)])
def test_the_scale_of_mixed_precision_is_taken_out(measure, optimizer):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    full = values(measure(x=rows(dtype=torch.float32), module=chain().float()))
    module = chain(optimizer=optimizer).float()
    half = values(measure(x=rows(dtype=torch.float32), module=module, plugins=plugin, max_epochs=2))
    assert half[1][0] == pytest.approx(full[1][0], rel=1e-2)
    assert half[2][0] == pytest.approx(full[2][0], rel=1e-2)
    assert (half[1][1] < 10 * full[1][0]).all()


def test_an_optimizer_that_tries_several_points_is_measured_at_the_first(measure):
    searching = values(measure(chain(optimizer=lambda p: LBFGS(p, max_iter=5))))
    plain = values(measure())
    assert searching[0].tolist() == [0]
    assert searching[1] == pytest.approx(plain[1], rel=1e-10)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_layer_that_is_computed_again_is_measured_once(measure, reentrant):
    again = chain(call=lambda layer, x: checkpoint(layer, x, use_reentrant=reentrant))
    again, plain = values(measure(again)), values(measure())
    assert again[1] == pytest.approx(plain[1], rel=1e-10)
    assert again[2] == pytest.approx(plain[2], rel=1e-10)


def test_a_layer_of_several_places_is_measured_at_each(measure):
    tied = chain()
    for place in range(1, 4):
        tied.rounds[place] = tied.rounds[0]
    _, hidden, parameters = values(measure(copy.deepcopy(tied)))
    expected, _ = by_hand(tied, rows())
    assert hidden[0] == pytest.approx(expected, rel=1e-10)
    assert (parameters[0] == parameters[0][0]).all()


def test_what_is_not_there_is_nan_and_what_is_not_needed_is_zero(measure):
    def call(layer, x):
        if layer is module.rounds[1]:
            return torch.zeros_like(x)  # not called
        if layer is module.rounds[2]:
            return layer(x.detach())
        out = layer(2 * x if layer is module.rounds[3] else x)
        return 0 * x if layer is module.rounds[3] else out

    module = chain(call=call)
    module.rounds[0].requires_grad_(False)
    callback = measure(module)
    hidden, parameters = callback.measure_log.measurements()
    assert torch.tensor(hidden.values[0]).isfinite().tolist() == [True, False, False, False]
    assert torch.tensor(hidden.values[0]).isnan().tolist() == [False, True, True, False]
    assert hidden.values[0, 3] == -torch.inf
    assert torch.tensor(parameters.values[0]).isnan().tolist() == [True, False, False, False]
    assert parameters.values[0, 1] == parameters.values[0, 3] == -torch.inf


def test_gradients_that_are_not_finite_are_said_to_be_so(measure):
    callback = measure(chain(factor=float("inf")))
    hidden, _ = callback.measure_log.measurements()
    assert not torch.tensor(hidden.values).isfinite().any()


def test_a_step_without_a_loss_is_no_measurement(measure):
    module = chain()
    step = module.training_step
    module.training_step = lambda batch, batch_idx: None if batch_idx == 0 else step(batch, batch_idx)
    with pytest.warns(UserWarning, match="returned `None`"):
        callback = measure(module, batch_size=10)
    assert values(callback)[0].tolist() == [1]
