"""W&B and MLflow, read back by their own APIs; skipped where they are not installed (the extra
``loggers``)."""

import json
import struct
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import gnn_depth
from gnn_depth.diagnostics import FirstFailure, GradientNorms
from tests.diagnostics.conftest import chain, loader, rows

# Deprecations inside the two packages, and pydantic's.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TAG, STEPS = "gradient_norm/hidden_log10", 3


@pytest.fixture
def mlflow_logger(tmp_path):
    pytest.importorskip("mlflow", reason="needs the extra 'loggers'")
    from lightning.pytorch.loggers import MLFlowLogger

    return MLFlowLogger(
        "depth", tracking_uri=f"sqlite:///{tmp_path}/runs.db", artifact_location=f"{tmp_path}/files"
    )


@pytest.fixture
def wandb_logger(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra 'loggers'")
    from lightning.pytorch.loggers import WandbLogger

    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger(project="depth", save_dir=tmp_path, offline=True)
    yield logger
    logger.experiment.finish()


def train(make_trainer, logger):
    """Three steps of a chain; its gradients count as expanded."""
    norms = GradientNorms("rounds.*")
    callbacks = [norms, FirstFailure("rounds.*", expanded=1.0001)]
    make_trainer(callbacks, max_epochs=STEPS, logger=logger).fit(chain(), loader(rows(), 20))
    return norms.measure_log.measurements()[0].values[:, 0]


def watch_and_probe(logger):
    """A loop without Lightning, and a probe of layers whose signal dies."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    with gnn_depth.watch(model, "*", ["gradient_norm_hidden"]) as watched:
        for _ in range(STEPS):
            model(torch.ones(5, 4)).sum().backward()
            watched.step()
    watched.log(logger)
    for layer in model:
        layer.weight.data.mul_(1e-3)
        layer.bias.data.zero_()
    report = gnn_depth.probe(model, torch.randn(5, 4), loss=torch.sum, layers="*")
    report.log(logger)
    return watched.measurements()[0].values[:, -1], report


def test_mlflow_has_curves_pictures_and_findings(make_trainer, mlflow_logger):
    expected = train(make_trainer, mlflow_logger)
    client, run = mlflow_logger.experiment, mlflow_logger.run_id
    history = client.get_metric_history(run, f"{TAG}/layer_001")
    assert [one.step for one in history] == [0, 1, 2]
    assert [one.value for one in history] == pytest.approx(expected)
    names = [file.path for file in client.list_artifacts(run, "images")]
    assert any("hidden_log10" in name and name.endswith(".png") for name in names)
    assert (
        client.get_run(run)
        .data.tags["FirstFailure/expanded"]
        .startswith("gradients expanded at layer 3")
    )
    from mlflow.artifacts import load_dict

    assert (
        load_dict(f"{client.get_run(run).info.artifact_uri}/FirstFailure.json")["expanded"]["layer"]
        == 3
    )


def test_mlflow_has_a_watched_loop_and_a_probe(mlflow_logger):
    expected, report = watch_and_probe(mlflow_logger)
    client, run = mlflow_logger.experiment, mlflow_logger.run_id
    history = client.get_metric_history(run, f"{TAG}/layer_004")
    assert [one.value for one in history] == pytest.approx(expected)
    tags = client.get_run(run).data.tags
    assert tags[f"probe/1_{report.findings[0].mode}"] == report.findings[0].text


def records(data):
    """The records of an offline run's file, by W&B's own message type: a log of blocks of 32 KiB,
    as in LevelDB.

    W&B itself reads such files only to send them to a server.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    place, whole, found = 7, b"", []  # behind the file's own header
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:  # the padding of a block
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            found.append(Record.FromString(whole))
            whole = b""
    return found


def named(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def history_and_summary(logger):
    (path,) = Path(logger.experiment.settings.sync_dir).glob("*.wandb")
    logger.experiment.finish()
    deadline = time.monotonic() + 20
    while not (found := records(path.read_bytes())) or not any(
        one.HasField("exit") for one in found
    ):
        assert time.monotonic() < deadline, "the run was never finished"
        time.sleep(0.05)
    summary = {}
    for one in found:
        summary |= named(one.summary.update)
    return [named(one.history.item) for one in found if one.history.item], summary


def test_wandb_has_curves_pictures_and_findings(make_trainer, wandb_logger):
    expected = train(make_trainer, wandb_logger)
    files = Path(wandb_logger.experiment.settings.sync_dir) / "files"
    history, summary = history_and_summary(wandb_logger)
    curve = {
        one["trainer/global_step"]: one[f"{TAG}/layer_001"]
        for one in history
        if f"{TAG}/layer_001" in one
    }
    assert list(curve) == [0, 1, 2]
    assert list(curve.values()) == pytest.approx(expected)
    (names,) = [
        one[f"heat_map/{TAG}/filenames"] for one in history if f"heat_map/{TAG}/filenames" in one
    ]
    assert all(
        path.read_bytes().startswith(b"\x89PNG") for path in (files / name for name in names)
    )
    assert summary["FirstFailure/expanded"]["layer"] == 3


def test_wandb_has_a_watched_loop_and_a_probe(wandb_logger):
    expected, report = watch_and_probe(wandb_logger)
    history, summary = history_and_summary(wandb_logger)
    assert [one[f"{TAG}/last"] for one in history if f"{TAG}/last" in one] == pytest.approx(
        expected
    )
    assert any(f"heat_map/{TAG}/filenames" in one for one in history)
    assert summary[f"probe/1_{report.findings[0].mode}"]["text"] == report.findings[0].text
