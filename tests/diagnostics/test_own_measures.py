"""A measure of the user's, by :func:`add_measure`, and a hook of the user's."""

from pathlib import Path

import numpy as np
import pytest

from gnn_depth import measurements, watch
from gnn_depth.diagnostics import MEASURES, LayerMeasures, add_measure
from gnn_depth.diagnostics.measures import total_squared_difference
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import chain, loader, rows
from tests.training.conftest import Tiny, scalars


@pytest.fixture
def own(monkeypatch):
    """``add_measure`` whose measures are gone after the test."""
    monkeypatch.setattr("gnn_depth.diagnostics.layer_statistics.MEASURES", known := dict(MEASURES))
    return add_measure, known


def of(callback):
    return [one.values for one in callback.measure_log.measurements()]


def test_it_is_measured_over_batches_shown_and_saved_as_a_built_in_one(own, make_trainer, board):
    add, _ = own
    add("positive", "share above zero")(lambda x: ((x > 0).sum(), x.numel()))
    add("square", "mean square", log10=True)(lambda x: (x.square().sum(), len(x)))
    callback = LayerMeasures(["positive", "square", "representation_norm"], "rounds.*")
    trainer = make_trainer([callback], logger=board, accumulate_grad_batches=2)
    trainer.fit(chain(), loader(rows(), 10))
    positive, square, norm = of(callback)
    *states, _ = chain().states(rows())
    assert positive[0] == pytest.approx([(x > 0).double().mean().item() for x in states])
    assert 10 ** square[0] * len(rows()) == pytest.approx(100 ** norm[0])
    assert "square/log10/layer_002" in scalars(board.log_dir)
    saved = measurements.load_values(Path(board.log_dir), "positive")
    assert np.array_equal(saved.values, positive)


def test_with_edges_it_gets_those_of_the_layer(own):
    add, _ = own

    @add("energy", "E", edges=True)
    def energy(x, edge_index):
        return total_squared_difference(x, edge_index), len(x)

    (data := Tiny()).setup("fit")
    batch, model = next(iter(data.train_dataloader())), NodeClassifier(4, 2, num_layers=3)
    with watch(model, measures=["energy", "dirichlet_energy"]) as watched:
        model(batch).sum().backward()
        watched.step()
    found = watched.frame().pivot(index="layer", columns="measure", values="value")
    assert found["energy"].to_numpy() == pytest.approx(found["dirichlet_energy"].to_numpy())


@pytest.mark.parametrize(
    ("name", "options"), [("projection", {}), ("a/b", {}), ("mine", {"reads": "gradients"})]
)
def test_what_would_hide_another_measure_or_be_wrong_is_refused(own, name, options):
    with pytest.raises(ValueError, match=f"measure '{name}'.*edges go with states"):
        own[0](name, "u", edges=True, **options)
    assert name == "projection" or name not in own[1]
