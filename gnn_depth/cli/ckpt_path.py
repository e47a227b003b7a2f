"""What ``--ckpt_path`` names: a file, the folder of a run, or a run of this name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch.utilities import rank_zero_info

from gnn_depth.cli.checkpoints import Checkpoint, read, warn
from gnn_depth.cli.errors import UsageError
from gnn_depth.registry import nearest

LAST, AUTO = "last", "auto"
# Of a run's folder: what a training goes on from, and what is looked at, in this order; then the newest.
FIRST = {True: ("last.ckpt", "last-1.ckpt"), False: ("best.ckpt", "best-1.ckpt", "last.ckpt", "last-1.ckpt")}
SAME = ("model", "data", "seed_everything")


@dataclass(frozen=True)
class Asked:
    """What a command line asks for without its checkpoint.

    Attributes:
        folder: Where the runs of its name lie.
        config: The resolved config.
    """

    folder: Path
    config: dict[str, Any]


def find(word: str, trains: bool, asked: Callable[[], Asked]) -> Checkpoint | None:
    """The checkpoint that a command line means; None where ``auto`` finds nothing.

    Args:
        word: A file; a folder, for its newest checkpoint that can be read (``fit``) or its best one (other commands);
            ``last`` for the newest run of this name; ``auto`` for the newest one of this name with the same model, data
            and seed, if there is one.
        trains: Whether a training is to go on from it.
        asked: The rest of the command line; called for ``last`` and ``auto`` only.

    Raises:
        UsageError: There is none, or it is damaged; what could be taken instead is named.
    """
    if word == AUTO and not trains:
        raise UsageError(f"--ckpt_path {AUTO} is for fit; name a file, a run's folder or {LAST!r}.")
    if word in (LAST, AUTO):
        return _of_name(word, trains, asked())
    path = Path(word)
    if path.is_dir():
        if found := next(_readable(path, trains), None):
            return found
        raise UsageError(f"--ckpt_path {word}: {_nothing(trains)} in this folder.{_below(path, trains)}")
    return _file(path, trains)


def _below(folder: Path, trains: bool) -> str:
    """Of a folder of runs, the newest one."""
    runs = (run for run in sorted(folder.glob("*"), reverse=True) if (run / "checkpoints").is_dir())
    run = next((run for run in runs if next(_readable(run, trains, aloud=False), None)), None)
    return f" It has runs; take one: --ckpt_path {run}." if run else ""


def _file(path: Path, trains: bool) -> Checkpoint:
    try:
        found = read(path)
    except UsageError as error:
        if not path.exists() and (near := nearest(str(path), (LAST, AUTO) if trains else (LAST,))):
            raise UsageError(f"{error} Did you mean {near!r}?") from error
        others = _readable(path.parent, trains, without=path, aloud=False) if path.parent.is_dir() else iter(())
        if other := next(others, None):
            raise UsageError(f"{error}\nWhole: --ckpt_path {other.path} ({other.age}).") from error
        raise
    if trains:
        found.check_resumable()
    return found


def _of_name(word: str, trains: bool, asked: Asked) -> Checkpoint | None:
    runs = sorted((run for run in asked.folder.glob("*") if run.is_dir()), reverse=True)
    if word == AUTO:
        runs = [run for run in runs if _is_same(run, asked.config)]
    found = next((checkpoint for run in runs for checkpoint in _readable(run, trains)), None)
    if found:
        rank_zero_info(f"--ckpt_path {word} is {found.path}, {found.age}")
    elif word == LAST:
        hint = f" --ckpt_path {AUTO} starts from the beginning then." if trains else ""
        raise UsageError(f"--ckpt_path {LAST}: {_nothing(trains)} under {str(asked.folder)!r}.{hint}")
    else:
        rank_zero_info(f"--ckpt_path {word}: no run with this model, data and seed under {asked.folder}; starting one")
    return found


def _is_same(run: Path, config: dict[str, Any]) -> bool:
    """Whether a run had the same config, in what cannot be changed afterwards."""
    try:
        there = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        return all(there.get(key) == config.get(key) for key in SAME)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError):
        return False


def _readable(folder: Path, trains: bool, without: Path | None = None, aloud: bool = True) -> Iterator[Checkpoint]:
    """The checkpoints of a run's folder that can be read, those first that are wanted first."""
    place = folder / "checkpoints"
    files = [path for path in (place if place.is_dir() else folder).glob("*.ckpt") if path != without]
    files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    files.sort(key=lambda path: (*FIRST[trains], path.name).index(path.name))
    for path in files:
        try:
            checkpoint = read(path)
        except UsageError as error:
            if aloud:
                warn(f"{error} Taking another one.")
            continue
        if checkpoint.resumable or not trains:
            yield checkpoint


def _nothing(trains: bool) -> str:
    return f"there is no checkpoint {'to go on from' if trains else 'that can be read'}"
