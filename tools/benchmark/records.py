"""Records of trainings: one line of a CSV file for each, written when the training has ended."""

import csv
import os
from pathlib import Path
from typing import Any

import pandas as pd

#: What tells one training from another.
KEY = ("stage", "set", "method", "depth", "setting", "split", "epochs")
COLUMNS = (
    *KEY,
    "status",  # finished, diverged or failed
    "test",  # the metric at the best validation epoch
    "val",
    "train",  # the metric of the last training epoch
    "chance",  # the test metric of a constant prediction
    "best_epoch",
    "ran",  # epochs
    "settled",  # True if training ended because the validation metric had stopped rising
    "train_rows",
    "test_rows",
    "reason",
)


def read(path: Path) -> pd.DataFrame:
    """The records of a file; no rows without a file.

    An incomplete last line, which a killed process left, is passed over.
    """
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    lines = path.read_text().splitlines(keepends=True)
    rows = csv.DictReader(line for line in lines if line.endswith("\n"))
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
    numbers = frame.columns.difference(["stage", "set", "method", "status", "settled", "reason"])
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
