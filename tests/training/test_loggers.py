from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gnn_depth.training.loggers import EventLogger


def points(logger):
    logger.finalize("success")
    events = EventAccumulator(logger.log_dir).Reload()
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_one_record_a_step_reads_as_one_for_each_value(tmp_path):
    read = []
    for cls in (EventLogger, TensorBoardLogger):
        logger = cls(tmp_path / cls.__name__, name="", version="", default_hp_metric=False)
        for step in range(3):
            logger.log_metrics({"train/loss": step / 3, "epoch": step, "val/acc": float("nan")}, step)
        logger.log_hyperparams({"a": 1}, {"final/x": 0.5})
        read.append(points(logger))
    assert str(read[0]) == str(read[1])  # as text NaN is equal to itself
    assert [step for step, _ in read[0]["val/acc"]] == [0, 1, 2]
