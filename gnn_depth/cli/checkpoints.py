"""Checkpoints named on the command line: find them, read them, and compare them with the other
arguments."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.builder import without_paths
from gnn_depth.cli.errors import UsageError, on_screen
from gnn_depth.data.schema import Schema
from gnn_depth.registry import hint
from gnn_depth.runs import choose_one, is_alive, read_result, remove_parts, runs_below
from gnn_depth.short_names import GIVEN_BY_DATA
from gnn_depth.training.checkpoints import check_progress, read_checkpoint
from gnn_depth.training.identity import plugin_version
from gnn_depth.training.resume import asks_for_more
from gnn_depth.yaml_limits import safe_load

MAX_SEED = 2**32 - 1  # NumPy's
LAST, AUTO = "last", "auto"
# Of a run's folder: what a training goes on from, and what is looked at, in this order; then the
# newest.
FIRST = {
    True: ("last.ckpt", "last-1.ckpt"),
    False: ("best.ckpt", "best-1.ckpt", "last.ckpt", "last-1.ckpt"),
}
SAME = ("model", "data", "seed_everything")
#: Options of the trainer with which a training gives other numbers from the first step on.
NUMERIC = (
    *(
        "precision",
        "accelerator",
        "strategy",
        "devices",
        "num_nodes",
        "deterministic",
        "sync_batchnorm",
    ),
    *("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm"),
    *("limit_train_batches", "overfit_batches", "reload_dataloaders_every_n_epochs"),
)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, and what it knows about its run."""

    path: Path
    hparams: dict[str, Any]  # of the model
    data: dict[str, Any] | None  # the data set that it was trained on, as in a config
    data_sha256: str | None
    seed: int | None
    epochs: int  # completed
    steps: int
    resumable: bool  # it has the state of the optimizer
    not_finite: str | None = None  # the first weight with NaN or infinity
    ended: dict[str, Any] | None = None  # the options with which a callback ended the training
    plugins: list[str] | None = None  # with which it was trained, with their checksums
    schema: Schema | None = None  # what the model expects of data

    def is_complete(self, trainer: L.Trainer, options: dict[str, Any]) -> bool:
        """True if nothing is left to train with these options of the trainer."""
        if not self.resumable:
            return False
        if self.ended is not None and not asks_for_more(self.ended, options):
            return True
        ends = ((self.epochs, trainer.max_epochs), (self.steps, trainer.max_steps))
        return any(end not in (None, -1) and done >= end for done, end in ends)

    @property
    def said_complete(self) -> str:
        """Say that nothing is left to train, and how to train more."""
        if self.ended is None:
            return (
                f"{self.path} is already complete: {self.epochs} epochs. "
                "For more, raise trainer.max_epochs."
            )
        return (
            f"{self.path} is already complete: a callback ended it after {self.epochs} epochs. "
            "For more, raise its patience or trainer.max_epochs."
        )

    def check_trained(self) -> None:
        """Refuse a model that has diverged: it gives every node the same class."""
        said = f"{self.path} is of a model that diverged"
        if self.not_finite:
            raise UsageError(
                f"{said}: its weight {self.not_finite} has NaN or infinity. --force uses it all "
                "the same."
            )
        result = _result(self.path.parent.parent)
        if result.get("status") == "diverged":
            raise UsageError(f"{said} later: {result.get('reason')} --force uses it all the same.")

    def check_data(self, hparams: Any, data: dict[str, Any], data_sha256: str | None) -> None:
        """Refuse data of another shape than the model was trained on and, with a checksum, other
        data at another path.

        At the same path, changed data is a warning.
        """
        for name in GIVEN_BY_DATA:
            here, there = hparams.get(name), self.hparams.get(name)
            if there is not None and here != there:
                raise UsageError(
                    f"{self.path} was trained on data with {name} {there}, and this data has "
                    f"{here}."
                )
        if None in (self.data_sha256, data_sha256) or self.data_sha256 == data_sha256:
            return
        said = (
            f"{self.path} was trained on data whose SHA-256 is {self.data_sha256}, and that of "
            "this data is"
        )
        if data != self.data:
            raise UsageError(
                f"{said} {data_sha256}: a training goes on with data that was moved, not with "
                "other data."
            )
        warn(f"{said} {data_sha256}: its files were changed, or this machine rounds otherwise.")

    def config(self, with_seed: bool) -> dict[str, Any]:
        """The checkpoint's model and data, and on request its seed, as a config."""
        kept = {name: value for name, value in self.hparams.items() if name not in GIVEN_BY_DATA}
        seed = {"seed_everything": self.seed} if with_seed and self.seed is not None else {}
        return {"model": kept, **({"data": self.data} if self.data else {}), **seed}

    def check_config(self, before: dict[str, Any], after: dict[str, Any], goes_on: bool) -> None:
        """Refuse another model than the checkpoint's, and where a training goes on also other data
        or another seed."""
        changed = _differences(before["model"], after["model"], "model")
        if goes_on and self.seed is not None:
            changed += _differences(self.seed, after["seed_everything"], "seed_everything")
        if goes_on and self.data:
            # Files are compared later.
            there, here = (without_paths("data", each["data"]) for each in (before, after))
            changed += _differences(there, here, "data")
        if changed:
            lines = "\n".join(
                f"  {key}: {old} in the checkpoint, {new} requested" for key, old, new in changed
            )
            raise UsageError(
                f"{self.path} is of another run than the one asked for:\n{lines}\n"
                "An option that is left out is the checkpoint's."
            )

    @property
    def age(self) -> str:
        """How long the model was trained, as text."""
        return f"after {self.epochs} epochs" if self.resumable else "the weights of its best epoch"


def read(path: Path) -> Checkpoint:
    """Read a checkpoint's facts about its run."""
    if not path.is_file():
        raise UsageError(f"checkpoint {str(path)!r} does not exist (looked in {Path.cwd()}).")
    try:
        content = read_checkpoint(path)
        check_progress(content)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(
            f"{str(path)!r} is damaged, or not a checkpoint of a run: {why}."
        ) from error
    try:
        if not isinstance(content, dict):
            raise TypeError
        hparams = {
            key: value
            for key, value in content["hyper_parameters"].items()
            if not key.startswith("_")
        }
        data = content.get("datamodule_hyper_parameters", {})
        progress = content.get("loops", {}).get("fit_loop", {}).get("epoch_progress", {})
        epochs = progress.get("current", {}).get("completed", 0)
        seed = content.get("callbacks", {}).get("SeededSteps", {}).get("seed")
        seed = seed if seed is not None and seed <= MAX_SEED else None  # torch's own is larger
        resumable = "optimizer_states" in content
        weights = content["state_dict"].items()
        broken = next((name for name, weight in weights if not weight.isfinite().all()), None)
        step, sha256 = content["global_step"], data.get("sha256")
        ended = content.get("callbacks", {}).get("RunRecorder", {}).get("ended")
        schema = content.get("schema")
        return Checkpoint(
            path,
            hparams,
            data.get("data"),
            sha256,
            seed,
            epochs,
            step,
            resumable,
            broken,
            ended,
            data.get("plugins"),
            schema=None if schema is None else Schema.from_dict(schema),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is not a checkpoint of a gnn-depth run.") from error


@rank_zero_only
def warn(text: str, start: str = "warning: ") -> None:
    """Print a warning, or with another start a note, from the first process only."""
    print(on_screen(f"{start}{text}"), file=sys.stderr)


def _differences(old: Any, new: Any, key: str) -> list[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in ("name", "class_path"):
            if old.get(name) != new.get(name):  # options of different parts are not worth comparing
                return [(key, old.get(name, old), new.get(name, new))]
        keys = list(dict.fromkeys([*old, *new]))
        return [row for k in keys for row in _differences(old.get(k), new.get(k), f"{key}.{k}")]
    return [] if old == new else [(key, old, new)]


def find(
    word: str, trains: bool, asked: Callable[[], tuple[Path, dict[str, Any]]]
) -> Checkpoint | None:
    """The checkpoint that a command line means; None where ``auto`` finds nothing.

    Args:
        word: A file; a folder, for its newest checkpoint that can be read (``fit``) or its best one
            (other commands); ``last`` for the newest run of this name; ``auto`` for the newest one
            with the same model, data, seed and code as well, if there is one.
        trains: Whether a training is to go on from it.
        asked: Returns the folder of the runs of its name, and the resolved config, for ``last`` and
            ``auto``.
    """
    if word == AUTO and not trains:
        raise UsageError(f"--ckpt_path {AUTO} is for fit; name a file, a run's folder or {LAST!r}.")
    if word in (LAST, AUTO):
        return _of_name(word, trains, *asked())
    path = Path(word)
    if path.is_dir():
        if found := next(_readable(path, trains), None):
            return found
        runs = runs_below(path)
        usable = (next(_readable(run, trains, aloud=False), None) for run in runs)
        first_two = list(islice((each for each in usable if each is not None), 2))
        if len(first_two) == 1:
            found = first_two[0]
            warn(f"--ckpt_path {word} is {found.path}, {found.age}", "")
            return found
        if first_two:
            raise UsageError(f"--ckpt_path {word}: {choose_one(runs)}")
        raise UsageError(f"--ckpt_path {word}: {_nothing(trains)} in this folder.")
    try:
        found = read(path)
    except UsageError as error:
        if not path.exists() and (near := hint(str(path), (LAST, AUTO) if trains else (LAST,))):
            raise UsageError(f"{error}{near}") from error
        others = (
            _readable(path.parent, trains, without=path, aloud=False)
            if path.parent.is_dir()
            else iter(())
        )
        if other := next(others, None):
            raise UsageError(f"{error}\nWhole: --ckpt_path {other.path} ({other.age}).") from error
        raise
    if trains and not found.resumable:
        raise UsageError(
            f"{path} holds weights alone, for validate, test and predict; resume from the run's "
            "last.ckpt."
        )
    return found


def _of_name(word: str, trains: bool, folder: Path, config: dict[str, Any]) -> Checkpoint | None:
    runs = sorted((run for run in folder.glob("*") if run.is_dir()), reverse=True)
    if word == AUTO:
        living = [run for run in runs if is_alive(run)]
        runs = [run for run in runs if run not in living and _is_same(run, config)]
        first = (
            getattr(rank_zero_only, "rank", 0) == 0
        )  # the others see the folder that the first has just made
        if first and (same := next((run for run in living if _is_same(run, config)), None)):
            raise UsageError(
                f"--ckpt_path {AUTO}: a process is training {same} now, with this model, data and "
                "seed. Wait until it "
                "has ended, or stop it; without --ckpt_path this starts another run."
            )
    found = next((checkpoint for run in runs for checkpoint in _readable(run, trains)), None)
    if found:
        if not is_alive(found.path.parent.parent):
            remove_parts(found.path.parent.parent)
        warn(f"--ckpt_path {word} is {found.path}, {found.age}", "")
    elif word == LAST:
        restart = f" --ckpt_path {AUTO} starts from the beginning then." if trains else ""
        others = sorted({run.parents[2].name for run in folder.parent.glob("*/*/checkpoints/..")})
        named = f" Runs beside it: {', '.join(others)}." if others else ""
        raise UsageError(
            f"--ckpt_path {LAST}: {_nothing(trains)} under {str(folder)!r}.{named}{restart}"
        )
    else:
        warn(
            f"--ckpt_path {word}: no run with this model, data and seed under {folder}; starting "
            "one",
            "",
        )
    return found


def _is_same(run: Path, config: dict[str, Any]) -> bool:
    """True if a run agrees in everything that cannot be changed afterwards; a difference in its
    code is a warning."""
    there = _config(run)
    if any(there.get(key) != config.get(key) for key in SAME):
        return False
    changed = changes(run, config)
    if changed:
        warn(
            f"--ckpt_path {AUTO} passes over {run}, of the same model, data and seed: "
            f"{'; '.join(changed)}."
        )
    return not changed


def changes(
    run: Path,
    config: dict[str, Any],
    trains: bool = True,
    before: list[str] | None = None,
) -> list[str]:
    """The changes since a run that would change its numbers.

    These are edited plugins and, where a training goes on, options of the trainer. ``before`` are
    the plugins of a checkpoint, by default those of the run's result.
    """
    there, here = _config(run).get("trainer") or {}, config["trainer"]
    found = []
    for name in NUMERIC if trains else ():
        if name in there and there[name] != here.get(name):
            was, now = (
                "not set" if value is None else value for value in (there[name], here.get(name))
            )
            found.append(f"trainer.{name} was {was} and is {now}")
    if before is None:
        before = _result(run).get("plugins")
    plugins = [plugin_version(plugin) for plugin in config.get("plugins") or []]
    if before is not None and sorted(before) != sorted(plugins):
        names = {plugin.partition(" ")[0] for plugin in {*before} ^ {*plugins}}
        found.append(f"the plugin {', '.join(sorted(names))} was edited, added or left out")
    return found


def _config(run: Path) -> dict[str, Any]:
    """The config of a run; a warning, and empty, if it is damaged."""
    path = run / "config.yaml"
    if not path.exists():
        return {}
    try:
        if not path.is_file():  # a pipe would be waited for
            raise OSError
        found = safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        found = None
    if not isinstance(found, dict):
        warn(f"{path} is damaged.")
        return {}
    return found


def _result(run: Path) -> dict[str, Any]:
    """The result of a run; empty if it has none that can be read."""
    try:
        return read_result(run)
    except ValueError:
        return {}


def _readable(
    folder: Path, trains: bool, without: Path | None = None, aloud: bool = True
) -> Iterator[Checkpoint]:
    """The readable checkpoints of a run's folder, the preferred ones first."""
    place = folder / "checkpoints"
    files = [
        path for path in (place if place.is_dir() else folder).glob("*.ckpt") if path != without
    ]
    files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    files.sort(key=lambda path: (*FIRST[trains], path.name).index(path.name))
    for path in files:
        try:
            checkpoint = read(path)
        except UsageError as error:
            if aloud:
                warn(f"{error} Using another one.")
            continue
        if checkpoint.resumable or not trains:
            yield checkpoint


def _nothing(trains: bool) -> str:
    return f"there is no checkpoint {'to go on from' if trains else 'that can be read'}"
