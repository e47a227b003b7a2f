"""W&B and MLflow: what their loggers are given."""

from types import SimpleNamespace

import pytest
from lightning.pytorch.loggers import Logger, MLFlowLogger

import gnn_depth
from gnn_depth.diagnostics import FirstFailure, GradientNorms
from tests.diagnostics.conftest import chain, loader, rows

TAG, STEPS = "gradient_norm/hidden_log10", 3


class Recorded:
    """Keeps the metrics that a logger is given, instead of sending them."""

    experiment = name = version = run_id = save_dir = None

    def __init__(self):
        self.curve, self.pictures, self.found = {}, {}, {}

    def log_metrics(self, metrics, step=None):
        for name in {f"{TAG}/layer_001", f"student/{TAG}/layer_001"} & set(metrics):
            self.curve[step] = metrics[name]

    def log_hyperparams(self, *args):
        """There are none."""

    def save(self):
        """Everything is in memory."""

    def finalize(self, status):
        """Nothing is sent."""


class InMemoryWandb(Recorded, Logger):
    def __init__(self):
        super().__init__()
        self.experiment = SimpleNamespace(summary=self.found)

    def log_image(self, key, images, step):
        self.pictures[key] = images[0].shape


class InMemoryMLflow(Recorded, MLFlowLogger):
    experiment = property(lambda self: self)

    def log_image(self, run_id, picture, key, step):
        self.pictures[key] = picture.shape

    def log_dict(self, run_id, findings, file):
        self.found |= {f"{file.removesuffix('.json')}/{kind}": findings[kind] for kind in findings}


@pytest.mark.parametrize("kind", [InMemoryWandb, InMemoryMLflow])
def test_other_loggers_get_curves_pictures_and_findings_of_callbacks_watch_and_probe(
    kind, make_trainer
):
    logger, norms = kind(), GradientNorms("rounds.*")
    callbacks = [norms, FirstFailure("rounds.*", expanded=1.0001)]
    make_trainer(callbacks, max_epochs=STEPS, logger=logger).fit(chain(), loader(rows(), 20))
    expected = norms.measure_log.measurements()[0].values[:, 0]
    assert logger.curve == dict(enumerate(expected))
    assert logger.pictures[f"heat_map/{TAG}"] == (440, 540, 3)
    assert "expanded at layer 3" in logger.found["FirstFailure/expanded"]["text"]
    watcher, model = kind(), chain()
    with gnn_depth.watch(model, "rounds.*", ["gradient_norm_hidden"]) as watched:
        model.loss([rows()]).backward()
        watched.step()
    watched.log(watcher, name="student")
    assert watcher.curve == {0: pytest.approx(expected[0])}
    assert f"heat_map/student/{TAG}" in watcher.pictures
    with gnn_depth.watch(model, "rounds.*") as watched:
        (float("inf") * model.loss([rows()])).backward()
        watched.step()
    watched.log(watcher, name="student")
    assert "student/FirstFailure/non_finite" in " ".join(watcher.found)
    model.forward = lambda x: 1e-300 * model.loss([x * 1e-300])
    model.rounds[3].weight.data.fill_(float("nan"))
    report = gnn_depth.probe(model, rows(), layers="rounds.*")
    report.log(watcher)
    assert watcher.found["probe/1_non_finite"]["text"] == report.findings[0].text
