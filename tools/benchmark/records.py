"""Records of trainings: one line of a CSV file for each, written when the training has ended."""

import csv
import os
from pathlib import Path
from typing import Any

import pandas as pd

from tools.benchmark.measuring import MOMENTS, NAMES

#: What tells one training from another.
KEY = ("stage", "set", "method", "depth", "setting", "split", "epochs")
MEASURED = [f"{name}_{moment}" for name in NAMES for moment in (*MOMENTS, "end")]
COLUMNS = (
    *KEY,
    "status",  # finished, diverged or failed
    "test",  # the metric at the best validation epoch; empty while settings are chosen
    "val",
    "chance",  # the test metric of a constant prediction
    "loss",  # the lowest training loss in evaluation mode
    "constant_loss",  # the training loss of the best constant prediction
    "best_epoch",
    "ran",  # epochs
    "settled",  # True if training ended because the validation metric had stopped rising
    "seconds",  # of processor time
    "train_rows",
    "test_rows",
    "reason",
    *MEASURED,
)
TEXT = ("stage", "set", "method", "status", "settled", "reason")


def read(path: Path) -> pd.DataFrame:
    """The records of a file; no rows without a file.

    An incomplete last line, which a killed process left, is passed over.
    """
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    lines = path.read_text().splitlines(keepends=True)
    rows = csv.DictReader(line for line in lines if line.endswith("\n"))
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
    numbers = frame.columns.difference(TEXT)
    frame[numbers] = frame[numbers].replace({"": None, "nan": None}).apply(pd.to_numeric)
    frame["settled"] = frame["settled"] == "True"
    return frame


def append(path: Path, record: dict[str, Any]) -> None:
    """Write a record, safe from a crash once this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        writer.writerow(record)
        file.flush()
        os.fsync(file.fileno())
