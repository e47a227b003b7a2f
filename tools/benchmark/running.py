"""Train what the benchmark still lacks, one training after another in this process."""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import EarlyStopping

import gnn_depth
from tools.benchmark import records
from tools.benchmark.definition import (
    EPOCHS,
    METHODS,
    PATIENCE,
    SETS,
    SPLITS,
    VALIDATE_EVERY,
    WIDTH,
    settings,
)

SETTINGS = settings()
#: Rounds of the tuning on split 0: settings that go on, and epochs of each. The first is longer
#: than the plateau that deep stacks sit on.
ROUNDS = ((16, 200), (4, 500))


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
        known = records.read(path)
        self.known = {}
        for row in known.to_dict("records"):
            self.known[tuple(row[name] for name in records.KEY)] = row

    def run_cell(self, name: str, method: str, depth: int, splits: int = SPLITS) -> bool:
        """Tune a method with some layers on a set, and train it on the splits; False if the time
        is up."""
        numbers = list(range(len(SETTINGS)))
        for count, epochs in ROUNDS:
            numbers = numbers[:count]
            scores = {}
            for number in numbers:
                record = self.train("tune", name, method, depth, number, 0, epochs)
                if record is None:
                    return False
                is_known = record["val"] == record["val"]
                scores[number] = record["val"] if is_known else float("-inf")
            numbers.sort(key=lambda number: -scores[number])
        for split in range(splits):
            if self.train("final", name, method, depth, numbers[0], split, EPOCHS) is None:
                return False
        return True

    def train(self, *key: Any) -> dict[str, Any] | None:
        """The record of a training, which is made if it is missing; None if the time is up."""
        if key not in self.known:
            if time.monotonic() >= self.until:
                return None
            training = dict(zip(records.KEY, key, strict=True))
            record = perform(training, self.methods[training["method"]])
            records.append(self.path, record)
            print(json.dumps(record), flush=True)
            self.known[key] = record
        return self.known[key]


def perform(training: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
    """Train once in a temporary folder, and return the record."""
    data_set = SETS[training["set"]]
    metric = data_set.metric
    setting = SETTINGS[training["setting"]]
    model = {
        "num_layers": training["depth"],
        "hidden_channels": WIDTH,
        "dropout": setting["dropout"],
        "optimizer": {"name": "Adam", "lr": setting["lr"], "weight_decay": setting["weight_decay"]},
        **method.get("model", {}),
    }
    callbacks = list(method.get("trainer", {}).get("callbacks", []))
    if training["stage"] == "final":
        checks = PATIENCE // VALIDATE_EVERY
        callbacks.append(EarlyStopping(f"val/{metric}", mode="max", patience=checks))
    data = gnn_depth.build("data", data_set.with_split(training["split"], method))
    record: dict[str, Any] = {**training, "status": "failed", "reason": ""}
    with tempfile.TemporaryDirectory(prefix="benchmark_") as root:
        try:
            gnn_depth.fit(
                model,
                data,
                epochs=training["epochs"],
                seed=training["split"],
                root=root,
                name="run",
                callbacks=callbacks,
                progress=False,
                logger=False,
                accelerator="cpu",
                check_val_every_n_epoch=VALIDATE_EVERY,
            )
        except (ValueError, RuntimeError) as error:  # a model that cannot be trained is a result
            record["reason"] = str(error).splitlines()[0][:200]
        for result in Path(root).rglob("result.json"):
            record |= facts(json.loads(result.read_text()), metric)
    batch = data.batch
    record["chance"] = chance(batch, metric)
    record["train_rows"] = int(batch.train_mask.sum())
    record["test_rows"] = int(batch.test_mask.sum())
    best = record.get("best_epoch")
    has_waited = best is not None and record["ran"] - 1 - best >= PATIENCE
    record["settled"] = training["stage"] == "final" and has_waited
    return record


def facts(result: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """What a record keeps of a run's ``result.json``."""
    metrics = result["metrics"]
    return {
        "status": result["status"],
        "test": metrics.get(f"test_{metric}_at_best_val", float("nan")),
        "val": metrics.get(f"val_{metric}_at_best_val", float("nan")),
        "train": metrics.get(f"train/{metric}", float("nan")),
        "best_epoch": result["best_epoch"],
        "ran": result["epochs"],
    }


def chance(batch: Any, metric: str) -> float:
    """The test metric of a constant prediction."""
    if metric == "auroc":
        return 0.5
    y = batch.y[batch.test_mask]
    return float(y.bincount().max() / len(y))


def cells(sets: list[str], methods: list[str], depths: list[int]) -> Iterator[tuple[str, str, int]]:
    """Sets first: a set with all its cells beats several halves."""
    for name in sets:
        for depth in depths:
            for method in methods:
                yield name, method, depth
