"""Train what the benchmark still lacks, one training after another in this process."""

import gc
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.callbacks import EarlyStopping
from torch_geometric.data import Data

import gnn_depth
from tools.benchmark import records
from tools.benchmark.definition import (
    EPOCHS,
    METHODS,
    PATIENCE,
    ROUNDS,
    SETS,
    SETTINGS,
    SPLITS,
    TUNING,
    VALIDATE_EVERY,
    WIDTH,
    load,
    settings,
)
from tools.benchmark.measuring import Measuring

#: A training has learned if its loss is below this share of a constant prediction's. With 500 rows
#: and 10 classes, labels drawn at random bring a constant prediction 0.5% on average.
LEARNED = 0.99


class Benchmark:
    """The trainings that a file of records lacks.

    Args:
        path: The file of records.
        methods: The methods, by name.
        until: No training begins after this time of ``time.monotonic``.
    """

    def __init__(
        self,
        path: Path,
        methods: Mapping[str, Mapping[str, Any]] = METHODS,
        until: float = float("inf"),
    ) -> None:
        self.path, self.methods, self.until = path, methods, until
        self.known = {}
        for row in records.read(path).to_dict("records"):
            self.known[tuple(row[name] for name in records.KEY)] = row

    def run_cell(self, name: str, method: str, depth: int) -> bool:
        """Tune a method with some layers on a set, and train it on the splits; False if the time
        is up."""
        numbers = list(range(SETTINGS))
        for count, epochs in ROUNDS:
            numbers = numbers[:count]
            found = self._tuned(name, method, depth, numbers, epochs)
            if found is None:
                return False
            numbers = ranked(found)
        if not any(has_learned(record) for record in found.values()):
            # Nothing has learned yet: the other settings get the whole budget too.
            found = self._tuned(name, method, depth, list(range(SETTINGS)), ROUNDS[-1][1])
            if found is None:
                return False
            numbers = ranked(found)
        for split in range(SPLITS):
            if self.train("final", name, method, depth, numbers[0], split, EPOCHS) is None:
                return False
        return True

    def _tuned(
        self, name: str, method: str, depth: int, numbers: list[int], epochs: int
    ) -> dict[int, dict[str, Any]] | None:
        found = {}
        for number in numbers:
            record = self.train("tune", name, method, depth, number, TUNING, epochs)
            if record is None:
                return None
            found[number] = record
        return found

    def train(self, *key: Any) -> dict[str, Any] | None:
        """The record of a training, which is made if it is missing; None if the time is up."""
        if key not in self.known:
            if time.monotonic() >= self.until:
                return None
            training = dict(zip(records.KEY, key, strict=True))
            record = perform(training, self.methods[training["method"]])
            gc.collect()  # a trainer and its data refer to each other
            records.append(self.path, record)
            print(" ".join(map(str, key)), record["val"], f"{record['seconds']} s", flush=True)
            self.known[key] = record
        return self.known[key]


def ranked(found: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """The numbers of settings by validation metric, the best first; ties in random order."""
    numbers = sorted(found)
    np.random.default_rng([47, len(numbers)]).shuffle(numbers)
    numbers.sort(key=lambda number: -np.nan_to_num(found[number]["val"], nan=-np.inf))
    return numbers


def has_learned(record: Mapping[str, Any]) -> bool:
    """True if the training loss fell below that of a constant prediction by more than noise."""
    return bool(record["loss"] < LEARNED * record["constant_loss"])


def perform(training: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
    """Train once in a temporary folder, and return the record."""
    metric = SETS[training["set"]].metric
    is_final = training["stage"] == "final"
    model = {
        "num_layers": training["depth"],
        "hidden_channels": WIDTH,
        **settings(training["method"], method)[training["setting"]],
    }
    if metric == "auroc":
        model["task"] = "binary"
    checks = PATIENCE // VALIDATE_EVERY
    stopping = EarlyStopping(f"val/{metric}", mode="max", patience=checks, check_finite=False)
    measuring = Measuring(with_measures=is_final)
    data = load(training["set"], training["split"])
    record: dict[str, Any] = {**training, "status": "failed", "reason": "", "val": float("nan")}
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="benchmark_") as root:
        try:
            gnn_depth.fit(
                model,
                data,
                epochs=training["epochs"],
                seed=training["split"] - TUNING,
                root=root,
                name="run",
                callbacks=[stopping, measuring],
                progress=False,
                logger=False,
                accelerator="cpu",
                check_val_every_n_epoch=VALIDATE_EVERY,
            )
        except (ValueError, RuntimeError) as error:  # a model that cannot be trained is a result
            record["reason"] = str(error).splitlines()[0][:200]
        for result in Path(root).rglob("result.json"):
            record |= facts(json.loads(result.read_text()), metric)
    record["seconds"] = round(time.process_time() - began, 1)
    record["loss"] = measuring.lowest
    record |= measuring.values
    if is_final:
        y = of_rows(data, "test")
        record["test_rows"] = len(y)
        record["chance"] = 0.5 if metric == "auroc" else float(max(shares(y)))
    else:
        del record["test"]
    y = of_rows(data, "train")
    record["train_rows"] = len(y)
    record["constant_loss"] = float(-(shares(y) * np.log(shares(y))).sum())
    best = record.get("best_epoch")
    record["settled"] = best is not None and record["ran"] - 1 - best >= PATIENCE
    return record


def facts(result: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """What a record keeps of a run's ``result.json``."""
    metrics = result["metrics"]
    return {
        "status": result["status"],
        "test": metrics.get(f"test_{metric}_at_best_val", float("nan")),
        "val": metrics.get(f"val_{metric}_at_best_val", float("nan")),
        "best_epoch": result["best_epoch"],
        "ran": result["epochs"],
    }


def of_rows(data: Any, part: str) -> np.ndarray:
    """The classes of the training, validation or test nodes."""
    source = data if isinstance(data, Data) else data.batch
    y: np.ndarray = source.y[getattr(source, f"{part}_mask")].numpy()
    return y


def shares(y: np.ndarray) -> np.ndarray:
    """The share of each class that occurs."""
    counts = np.bincount(y)
    return counts[counts > 0] / len(y)


def cells(sets: list[str], methods: list[str], depths: list[int]) -> Iterator[tuple[str, str, int]]:
    """Sets first: a set with all its cells beats several halves."""
    for name in sets:
        for depth in depths:
            for method in methods:
                yield name, method, depth
