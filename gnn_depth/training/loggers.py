"""The loggers of a run's folder."""

from collections.abc import Mapping
from pathlib import Path

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only


class EventLogger(TensorBoardLogger):
    """TensorBoard's logger, with the values of a step in one record: one for each costs eight times as much."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self.experiment.file_writer.add_summary(Summary(value=values), step)


def folder_loggers(folder: Path) -> list[Logger]:
    """TensorBoard's events and ``metrics.csv`` in a folder that is still empty."""
    csv = CSVLogger(folder, name="", version="")
    _ = csv.experiment  # opened while the folder is empty: it warns of any file that it finds there
    # A short queue makes the training wait for the thread that writes.
    return [EventLogger(folder, name="", version="", default_hp_metric=False, max_queue=1000), csv]
