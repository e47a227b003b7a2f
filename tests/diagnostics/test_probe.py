"""A probe called from Python, on our models and on others."""

import copy

import pytest
import torch

from gnn_depth.diagnostics import GradientNorms, LipschitzConstants, RepresentationSimilarity
from gnn_depth.diagnostics.probe import probe
from gnn_depth.diagnostics.probe.readings import why_no_bound
from gnn_depth.nn.layers import GAT, SAGE, GATv2
from gnn_depth.nn.norms import BatchNorm, LipschitzNorm
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import Chain, chain, loader, rows, values
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


def test_a_model_and_a_batch_give_a_report_and_the_model_stays_as_it_was(tmp_path):
    torch.manual_seed(0)
    model, batch = NodeClassifier(4, 2, layer=GAT, norm=[BatchNorm], num_layers=4, dropout=0.5), Tiny().load()
    torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
    model.stack.decoder.eval()
    before = state(model)
    report = probe(model, batch, scales=[10.0])
    for old, new in zip(before, state(model), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0)
    assert [reading.number for reading in report.readings] == [1, 2, 3, 4]
    assert str(report).startswith("4 layers of GAT, loss ")
    assert "at 10 X" in str(report)
    assert report.remedies is None
    assert "Remedies" not in str(report)
    report.html(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_a_foreign_model_is_probed_with_its_own_loss():
    report = probe(chain(depth=5), [rows()], layers="rounds.*", loss=Chain.loss)
    assert [reading.layer for reading in report.readings] == ["Linear"] * 5
    assert all(reading.gradient > 0 and reading.stretch > 0 for reading in report.readings)
    with pytest.raises(ValueError, match=r"'layers.*'"):
        probe(chain(), [rows()], layers="layers.*", loss=Chain.loss)
    with pytest.raises(ValueError, match="not -1"):
        probe(chain(), [rows()], layers="rounds.*", loss=Chain.loss, scales=[-1])


@pytest.mark.parametrize(
    ("layer", "norms", "reason"),
    [
        (lambda: GAT(3, 2), [], "no norm"),
        (lambda: GAT(3, 2), [LipschitzNorm(1), LipschitzNorm(1)], "several"),
        (lambda: GATv2(3, 2), [LipschitzNorm(1, form="released")], "released"),
        (lambda: SAGE(3, 2), [], "SAGE"),
    ],
)
def test_a_layer_without_a_bound_has_a_reason(layer, norms, reason):
    layer = layer()
    for norm in norms:
        layer.add_score_norm(norm)
    assert reason in why_no_bound(layer)


@pytest.mark.parametrize("kind", [GradientNorms, RepresentationSimilarity])
def test_a_measurement_with_a_pass_of_its_own_is_not_seen_by_other_callbacks(make_trainer, kind):
    measured = []
    for others in ([], [LipschitzConstants("rounds.*", every_n_epochs=1)]):
        callback, module = kind("rounds.*"), chain()
        module.forward = lambda batch, module=module: module.loss(batch)
        make_trainer([callback, *others], max_epochs=2).fit(module, loader(rows(), 20))
        measured.append(values(callback))
    for alone, beside in zip(*measured, strict=True):
        assert (alone == beside).all()
