"""Stop trainings at random steps, resume them, and compare with the uninterrupted ones to the last
bit."""

import csv
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from gnn_depth import measurements
from gnn_depth.runs import read_result
from gnn_depth.training.checkpoints import read_checkpoint
from tools.attack.table import SMALL

EPOCHS, BATCHES = 6, 4
PROCESSES = 3
PLUGIN = """
import signal
import lightning as L

class Stop(L.Callback):
    def __init__(self, batch: int = -1):
        self.batch = batch

    def on_train_batch_start(self, trainer, *_):
        is_last = trainer.global_rank == trainer.world_size - 1
        if is_last and trainer.fit_loop.total_batch_idx == self.batch:
            signal.raise_signal(signal.SIGTERM)
"""
PARTS = [
    *("--data=MiniBatches", "--data.source=SyntheticCitation"),
    *(word.replace("--data.", "--data.source.") for word in SMALL),
]
AVERAGED = {
    "stochastic averaging": [
        *("--trainer.callbacks+=StochasticWeightAveraging", "--trainer.callbacks.swa_lrs=0.01"),
        *("--trainer.callbacks.swa_epoch_start=2", "--trainer.callbacks.device=null"),
    ],
    "exponential averaging": [
        "--trainer.callbacks+=EMAWeightAveraging",
        "--trainer.callbacks.decay=0.7",
    ],
}
PLATEAU = [
    "--model.scheduler=ReduceLROnPlateau",
    "--model.scheduler.monitor=val/loss",
    "--model.scheduler.patience=0",
]
STEP = ["--model.scheduler=StepLR", "--model.scheduler.step_size=2"]
# Lightning refuses both at once.
OF_VALIDATION, SELDOM = "schedule of val/loss", "validation every 2 epochs"
CHOICES: tuple[dict[str, list[str]], ...] = (
    {
        "": [],
        "float64": ["--trainer.precision=64-true"],
        "bfloat16": ["--trainer.precision=bf16-mixed"],
    },
    {"": [], "schedule": STEP, OF_VALIDATION: [*PLATEAU, "--model.scheduler.threshold=0.1"]},
    {"": [], "batch norm": ["--model.norm=batch"], "spectral norm": ["--model.norm=spectral"]},
    {
        "": [],
        "momentum": [
            "--model.optimizer=SGD",
            "--model.optimizer.lr=0.1",
            "--model.optimizer.momentum=0.9",
        ],
    },
    {"": [], SELDOM: ["--trainer.check_val_every_n_epoch=2"]},
    {
        "": [],
        "measures": [
            "--trainer.callbacks+=GradientNorms",
            "--trainer.callbacks+=RepresentationSimilarity",
        ],
    },
    {"": [], "accumulation": ["--trainer.accumulate_grad_batches=3"]},
)


def stops(
    count: int, seed: int, call: Callable[[list[str]], Any]
) -> Iterator[tuple[str, str, str]]:
    """Make random stops, and yield for each its setting, what happened, and why it is not accepted.

    Args:
        count: How many.
        seed: The same seed makes the same ones.
        call: Runs a command line in this process and returns an object with the exit code as
            ``code``.
    """
    chance = random.Random(seed)
    Path("stop_at.py").write_text(PLUGIN)
    for number in range(count):
        processes = PROCESSES if number % 10 == 9 else 1
        words, said = _setting(chance, processes)
        batches = BATCHES if "mini-batches" in said else 1
        # A run that is stopped in its last step comes to its end.
        batch = chance.randrange(1, (EPOCHS - 1) * batches)
        stop = f"stopped in batch {batch} of {EPOCHS * batches}"
        name = f"{number}: {said}, {processes} processes, {stop}"
        yield name, *_try(f"stop{number}", words, batch, processes, batch // batches, call)


def _setting(chance: random.Random, processes: int) -> tuple[list[str], str]:
    """Options of a training, and their names."""
    parts = [*PARTS, f"--data.parts={BATCHES * processes}"]
    # Each process gets its own parts.
    kinds = {
        "one graph": SMALL,
        "mini-batches": [*parts, "--data.method=random"],
        "mini-batches of neighbours": [*parts, "--data.method=neighbor"],
    }
    said = [chance.choice(list(kinds))]
    words = [*kinds[said[0]], "--model.dropout=0.5", "--model.compile=off"]
    words += [f"--trainer.max_epochs={EPOCHS}"]
    words += ["--plugins=stop_at.py", f"--seed_everything={chance.randrange(1000)}"]
    for choices in CHOICES:
        fits = [name for name in choices if (name, said[2:3]) != (SELDOM, [OF_VALIDATION])]
        said.append(chance.choice(fits))
        words += choices[said[-1]]
    if processes == 1 and chance.random() < 0.3:
        said.append(chance.choice(list(AVERAGED)))
        words += AVERAGED[said[-1]]
    words.append("--trainer.callbacks+=stop_at.Stop")  # the last one, whose options come after it
    return words, ", ".join(filter(None, said))


def _try(
    root: str,
    words: list[str],
    batch: int,
    processes: int,
    epoch: int,
    call: Callable[[list[str]], Any],
) -> tuple[str, str]:
    def fit(name: str, *more: str) -> tuple[int, str, Path]:
        argv = ["fit", *words, f"--run.root={root}", f"--run.name={name}", *more]
        if processes > 1:  # not in this process, which the signal would end as well
            argv += [f"--trainer.devices={processes}", "--trainer.strategy=ddp"]
            here = os.environ | {"OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "gnn_depth", *argv]
            done = subprocess.run(command, capture_output=True, text=True, env=here, check=False)
            code, said = done.returncode, done.stderr
        else:
            outcome = call(argv)
            code, said = outcome.code, outcome.said
        return code, said, max(Path(root, name).glob("*/"), default=Path("none"))

    runs = [
        fit("whole", "--trainer.callbacks.batch=-1"),
        fit("part", f"--trainer.callbacks.batch={batch}"),
        fit("part", "--trainer.callbacks.batch=-1", "--ckpt_path=auto"),
    ]
    codes, texts, folders = zip(*runs, strict=True)
    result = ", ".join(map(str, codes))
    for code, right, said in zip(codes, (0, 143, 0), texts, strict=True):
        if code != right:
            return result, f"instead of 0, 143, 0: {said[-500:]}"
    may_differ = epoch if processes > 1 else None
    found = "; ".join(differences(*folders, may_differ))
    return result, found[:500]


def differences(whole: Path, first: Path, rest: Path, epoch: int | None) -> list[str]:
    """How a run that was stopped and resumed differs from an uninterrupted one.

    Args:
        whole: Folder of the uninterrupted run.
        first: Folder of the run that was stopped.
        rest: Folder of the run that resumed it.
        epoch: An epoch whose training metrics may differ; None if there is none.
    """
    found = []
    for name in ("last.ckpt", "best.ckpt"):
        one = read_checkpoint(whole / "checkpoints" / name)
        other = read_checkpoint(rest / "checkpoints" / name)
        found += [f"{name}: {place}" for place in _unequal(one, other)]
    one, other = read_result(whole), read_result(rest)
    for key in ("metrics", "epochs", "steps", "best_epoch"):
        if one[key] != other[key]:
            found.append(key)
    one, other = _rows(whole), _rows(first) | _rows(rest)
    for key in one.keys() | other.keys():
        may_differ = key[0] == epoch and key[1].startswith("train/")
        if one.get(key) != other.get(key) and not may_differ:
            found.append(
                f"metrics.csv: {key[1]} of epoch {key[0]}: {one.get(key)}, {other.get(key)}"
            )
    for name in measurements.measure_names(whole):
        one = measurements.load_values(whole, name)
        other = measurements.load_values(rest, name)
        # Steps before the stop are in the folder of the first run.
        kept = torch.isin(torch.as_tensor(one.steps), torch.as_tensor(other.steps)).numpy()
        if not torch.equal(_plain(one.values[kept]), _plain(other.values)):
            found.append(f"measures: {name}")
    return found


def _rows(run: Path) -> dict[tuple[int, str], tuple[str, str]]:
    """Step and value of every metric of every epoch."""
    if not (run / "metrics.csv").exists():  # it was stopped in its first epoch
        return {}
    found = {}
    with (run / "metrics.csv").open() as file:
        for row in csv.DictReader(file):
            epoch, step = int(row.pop("epoch")), row.pop("step")
            for name, value in row.items():
                if value:
                    found[epoch, name] = step, value
    return found


def _unequal(one: Any, other: Any, place: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from _unequal(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            yield f"{place}: {one}, {other}"
            return
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _unequal(mine, theirs, f"{place}.{number}")
    elif isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or not torch.equal(_plain(one), _plain(other)):
            yield place
    elif one != other:
        yield f"{place}: {one}, {other}"


def _plain(values: Any) -> torch.Tensor:
    return torch.as_tensor(values).nan_to_num()
