"""A probe called from Python, on our models and on others."""

import copy
import gc

import pytest
import torch

import gnn_depth
from gnn_depth.diagnostics import GradientNorms, LipschitzConstants
from gnn_depth.diagnostics.measures import dirichlet_energy, effective_rank
from gnn_depth.diagnostics.probe import probe
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import chain, loader, rows, values
from tests.diagnostics.loops import CONVOLUTIONS, Loop, features, graph
from tests.training.conftest import Tiny


def state(model):
    """Everything that a probe might change."""
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return (
        [module.training for module in model.modules()],
        gradients,
        copy.deepcopy(model.state_dict()),
        torch.get_rng_state(),
    )


def test_a_model_and_a_batch_give_a_report_and_the_model_stays_as_it_was():
    model, batch = (
        NodeClassifier(4, 2, layer="gat", norm="batch", num_layers=4, dropout=0.5),
        Tiny().load(),
    )
    torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
    model.stack.decoder.eval()
    before = state(model)
    report = probe(model, batch, scales=[10.0])
    for old, new in zip(before, state(model), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0)
    assert list(report.frame().index) == [1, 2, 3, 4]
    assert str(report).startswith("4 layers of GAT, loss ")
    assert "at 10 X" in str(report)


def test_nothing_of_a_probe_stays_in_memory():
    def tensors():
        gc.collect()
        return sum(type(found) in (torch.Tensor, torch.nn.Parameter) for found in gc.get_objects())

    model, batch = NodeClassifier(4, 2, layer="gat", num_layers=3), Tiny().load()
    probe(model, batch)
    before = tensors()
    probe(model, batch)
    assert tensors() == before


def test_a_foreign_model_is_probed_with_its_own_loss():
    module = chain(depth=5)
    module.forward = lambda x: list(module.states(x))[-1]
    report = probe(module, rows(), layers="rounds.*", loss=lambda out: out.square().mean())
    assert report.loss == pytest.approx(module.loss([rows()]).item())
    assert report.frame()[["||G||", "constant"]].gt(0).all(axis=None)
    assert len(report.frame()) == 5
    module.forward = lambda batch: module.loss(batch)
    assert probe(module, [rows()], layers=["rounds.*"]).loss == report.loss
    with pytest.raises(ValueError, match="loss="):
        probe(torch.nn.Sequential(torch.nn.Linear(3, 3)).double(), rows(), layers="*")


def test_a_layer_that_is_called_several_times_has_a_row_for_each_call():
    class Tied(Loop):
        def forward(self, x, edge_index):
            for _ in range(4):
                x = torch.tanh(self.layers[0](x, edge_index))
            return x

    model = Tied(CONVOLUTIONS["GCNConv"], depth=1).double()
    x = features()
    report = gnn_depth.probe(model, x, graph(), loss=torch.sum)
    states = [x]
    for _ in range(4):
        states.append(torch.tanh(model.layers[0](states[-1], graph())))
    gradients = torch.autograd.grad(states[-1].sum(), states[:-1])
    assert list(report.frame()["||G||"]) == pytest.approx(
        [float(gradient.norm()) for gradient in gradients]
    )
    assert (report.frame()["constant"] > 0).all()


@pytest.mark.parametrize("options", [{}, {"reversible": 2}, {"checkpoint_every": 1}])
def test_all_values_of_a_state_are_those_of_the_whole_state(options):
    model = NodeClassifier(4, 2, num_layers=3, hidden_channels=8, skip="residual", **options)
    batch, entered = Tiny().load(), []
    for block in model.stack.blocks:
        block.register_forward_pre_hook(lambda _, args: entered.append(args[0]))
    with torch.no_grad():
        copy.deepcopy(model).eval()(batch)
    for block in model.stack.blocks:
        block._forward_pre_hooks.clear()
    frame, edges = probe(model, batch).frame(), batch.graph.edge_index
    assert list(frame["||X||"]) == pytest.approx([x.norm().item() for x in entered])
    assert list(frame["rank(X)"]) == pytest.approx([effective_rank(x).item() for x in entered])
    energies = [dirichlet_energy(x, edges).item() for x in entered]
    assert list(frame["E(X)"]) == pytest.approx(energies)


def test_the_calls_that_measure_a_constant_are_not_seen_by_other_callbacks(make_trainer):
    measured = []
    for others in ([], [LipschitzConstants("rounds.*", every_n_epochs=1)]):
        callback = GradientNorms("rounds.*")
        make_trainer([callback, *others], max_epochs=2).fit(chain(), loader(rows(), 20))
        measured.append(values(callback))
    for alone, beside in zip(*measured, strict=True):
        assert (alone == beside).all()
