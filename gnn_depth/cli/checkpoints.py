"""Checkpoints named on the command line: find them, read them, and compare them with the other
arguments."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.builder import without_paths
from gnn_depth.cli.errors import UsageError, on_screen
from gnn_depth.config_file import read_config
from gnn_depth.data.schema import Schema
from gnn_depth.part_specs import GIVEN_BY_DATA
from gnn_depth.registry import hint
from gnn_depth.runs import is_alive, read_result, single_run
from gnn_depth.sweeps.grid import LARGEST_SEED, dotted_options
from gnn_depth.training.checkpoints import options_in, read_checkpoint
from gnn_depth.training.identity import plugin_versions
from gnn_depth.training.resume import ENDS
from gnn_depth.yaml_limits import safe_load

LAST, AUTO = "last", "auto"
# The checkpoints of a run that are tried first, for a training to resume and for other commands.
FIRST = {
    True: ("last.ckpt", "last-1.ckpt"),
    False: ("best.ckpt", "best-1.ckpt", "last.ckpt", "last-1.ckpt"),
}
#: Options of the trainer that change the numbers of a training from its first step on.
NUMERIC = (
    "precision",
    "accelerator",
    "strategy",
    "devices",
    "num_nodes",
    "deterministic",
    "sync_batchnorm",
    "accumulate_grad_batches",
    "gradient_clip_val",
    "gradient_clip_algorithm",
    "limit_train_batches",
    "overfit_batches",
    "reload_dataloaders_every_n_epochs",
)


class Checkpoint:
    """A checkpoint, and what it holds about its run.

    Args:
        path: Its file.
        content: The content of the file.

    Attributes:
        hparams: Options of the model.
        data: The data set that it was trained on, as in a config; None if Python gave it.
        data_sha256: Its checksum.
        plugins: Those of the training, with their checksums.
        schema: What the model expects of data.
        seed: The seed that was asked for, or torch's own.
        epochs: The number of completed epochs.
        epoch: That of its weights, counted from 1, which the best ones have reached earlier.
        steps: The number of steps.
        resumable: True if it has the state of the optimizer.
        ended: The options of the trainer with which a callback ended the training.
        not_finite: The first weight with NaN or infinity.

    Raises:
        DamagedError: It is not a checkpoint of a model.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path = path
        self.hparams = options_in(content)
        of_data = content.get("datamodule_hyper_parameters", {})
        self.data = of_data.get("data")
        self.data_sha256 = of_data.get("sha256")
        self.plugins = of_data.get("plugins")
        self.schema: Schema | None = None
        if content.get("schema") is not None:
            self.schema = Schema.from_dict(content["schema"])
        callbacks = content.get("callbacks", {})
        self.ended = callbacks.get("RunRecorder", {}).get("ended")
        self.seed = callbacks.get("SeededSteps", {}).get("seed")
        progress = content.get("loops", {}).get("fit_loop", {}).get("epoch_progress", {})
        self.epochs = progress.get("current", {}).get("completed", 0)
        self.epoch = min(content["epoch"] + 1, self.epochs)
        self.steps = content["global_step"]
        self.resumable = "optimizer_states" in content
        weights = content["state_dict"].items()
        self.not_finite = next((name for name, each in weights if not each.isfinite().all()), None)

    def is_complete(self, trainer: L.Trainer, options: dict[str, Any]) -> bool:
        """True if nothing is left to train with these options of the trainer."""
        if self.ended == {name: options.get(name) for name in ENDS}:
            return True  # a callback ended it, and nothing else is asked for
        # No limit is None or -1.
        by_epochs = trainer.max_epochs in range(self.epochs + 1)
        return by_epochs or trainer.max_steps in range(self.steps + 1)

    def check_data(
        self, hparams: Mapping[str, Any], data: dict[str, Any], data_sha256: str | None
    ) -> None:
        """Refuse data of another shape than the model was trained on and, with a checksum, other
        data.

        Generated data, which reads no file, may differ by rounding between machines, or by its
        code: a warning.
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
        different = (
            f"{self.path} was trained on data whose SHA-256 is {self.data_sha256}, and that of "
            f"this data is {data_sha256}"
        )
        if data == self.data and without_paths("data", data) == data:
            warn(
                f"{different}: this machine rounds otherwise, or the code that generates it was "
                "changed."
            )
            return
        raise UsageError(
            f"{different}: a training goes on with data that was moved, not with other data or "
            "files that were changed. Leave --ckpt_path out to train on the new data."
        )

    def config(self, with_seed: bool) -> dict[str, Any]:
        """The checkpoint's model and data, and on request its seed, as a config."""
        kept = {name: value for name, value in self.hparams.items() if name not in GIVEN_BY_DATA}
        config: dict[str, Any] = {"model": kept}
        if self.data:
            config["data"] = self.data
        # A larger one is torch's own, where none was asked for.
        if with_seed and self.seed is not None and self.seed <= LARGEST_SEED:
            config["seed_everything"] = self.seed
        return config

    def check(
        self, before: dict[str, Any], after: dict[str, Any], sections: Collection[str]
    ) -> None:
        """Compare the checkpoint's resolved config with the one that was asked for.

        Raises:
            UsageError: One of these sections differs; or the model has diverged, so that it gives
                every node the same class, and ``force`` is false.
        """
        # Files are compared later, by their checksum.
        there = dotted_options({name: without_paths(name, before[name]) for name in sections})
        here = dotted_options({name: without_paths(name, after[name]) for name in sections})
        lines = [f"{self.path} is of another run than the one asked for:"]
        for name in there | here:
            old, new = there.get(name), here.get(name)
            if old != new:
                shown = name.removesuffix(".name")
                lines.append(f"  {shown}: {old} in the checkpoint, {new} requested")
        if len(lines) > 1:
            lines.append("An option that is left out is the checkpoint's.")
            raise UsageError("\n".join(lines))

        changed = {*(self.plugins or [])} ^ {*plugin_versions(after)}
        if self.plugins is not None and changed:
            names = sorted({plugin.partition(" ")[0] for plugin in changed})
            warn(
                f"{self.path} is used with other code than before: the plugin {', '.join(names)} "
                "was edited, added or left out."
            )

        why = self.not_finite and f"its weight {self.not_finite} has NaN or infinity."
        with suppress(ValueError):  # the file lies elsewhere
            result = read_result(self.path.parent.parent)
            if result.get("status") == "diverged":
                why = why or f"later {result.get('reason')}"
        if why and after.get("force") is False:
            raise UsageError(
                f"{self.path} is of a model that diverged: {why} --force uses it all the same."
            )


def read(path: Path) -> Checkpoint:
    """Read a checkpoint's facts about its run."""
    if not path.is_file():
        near = hint(str(path), [LAST, AUTO])
        raise UsageError(f"checkpoint {str(path)!r} does not exist (looked in {Path.cwd()}).{near}")
    try:
        return Checkpoint(path, read_checkpoint(path))
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{str(path)!r} cannot be used: {why}. If it is damaged, give the run's folder to use "
            "its newest complete one."
        ) from error


@rank_zero_only
def warn(text: str, start: str = "warning: ") -> None:
    """Print a warning, or with another start a note, from the first process only."""
    print(on_screen(f"{start}{text}"), file=sys.stderr)


def of_own_module(word: str, trains: bool) -> Path:
    """The checkpoint that a command line means for a LightningModule of the user's: a file, or of
    the run in a folder the last one to train on, and else the best one, if it has one."""
    path = Path(word)
    if path.is_dir():
        folder = single_run(path) / "checkpoints"
        path = folder / "best.ckpt"
        if trains or not path.is_file():
            path = folder / "last.ckpt"
    if not path.is_file():
        raise UsageError(
            f"--ckpt_path {word}: there is no file {str(path)!r}. A module of your own goes on "
            "from a checkpoint, or from the folder of its run."
        )
    return path


def options_of_run(checkpoint: Path) -> dict[str, Any]:
    """The model and data, as a config, of the run whose folder holds a checkpoint."""
    folder = checkpoint.resolve().parent.parent
    if not (folder / "result.json").is_file():  # the checkpoint lies elsewhere
        return {}
    config = read_config(str(folder / "config.yaml")).data
    return {name: config[name] for name in ("model", "data") if name in config}


def find(
    word: str, trains: bool, asked: Callable[[], tuple[Path, dict[str, Any]]]
) -> Checkpoint | None:
    """The checkpoint that a command line means; None where ``auto`` finds nothing.

    Args:
        word: A file; the folder of a run, or one above a single run, for its newest checkpoint that
            can be read (``fit``) or its best one (other commands); ``last`` for the newest run of
            this name; ``auto`` for the run that was trained furthest with the same model, data,
            seed and code as well, if there is one.
        trains: Whether a training is to go on from it.
        asked: Returns the folder of the runs of its name, and the resolved config, for ``last`` and
            ``auto``.
    """
    folder = Path(word)
    if word == AUTO and not trains:
        raise UsageError(f"--ckpt_path {AUTO} is for fit; name a file, a run's folder or {LAST!r}.")
    if word in (LAST, AUTO):
        folder, config = asked()
        runs = sorted(folder.glob("*"), reverse=True)  # a run's folder is named by its date
        if word == AUTO:
            runs = [run for run in runs if _is_same(run, config)]
    elif folder.is_dir():
        runs = [single_run(folder)]
    else:
        found = read(folder)
        if trains and not found.resumable:
            raise UsageError(
                f"{folder} holds weights alone, for validate, test and predict; resume from the "
                "run's last.ckpt."
            )
        return found
    usable = _usable(runs, trains)
    if word == AUTO:
        # The newest run need not be the furthest: a clock may have been set back.
        usable = iter(sorted(usable, key=lambda checkpoint: checkpoint.steps, reverse=True))
    for chosen in usable:
        warn(f"--ckpt_path {word} is {chosen.path}, of epoch {chosen.epoch}", "")
        return chosen
    if word == AUTO:
        warn(f"--ckpt_path auto: no run with this model, data and seed in {folder}; one starts", "")
        return None
    raise UsageError(f"--ckpt_path {word}: no checkpoint in {str(folder)!r} can be used here.")


def _usable(runs: Iterable[Path], trains: bool) -> Iterator[Checkpoint]:
    """The first checkpoint of each run's folder that can be read and used: the preferred ones come
    first, then the newest."""

    def place(path: Path) -> tuple[int, float]:
        return (*FIRST[trains], path.name).index(path.name), -path.stat().st_mtime

    for run in runs:
        for path in sorted([*run.glob("checkpoints/*.ckpt"), *run.glob("*.ckpt")], key=place):
            try:
                checkpoint = read(path)
            except UsageError as error:
                warn(f"{error}")
                continue
            if checkpoint.resumable or not trains:
                yield checkpoint
                break


def _is_same(run: Path, config: dict[str, Any]) -> bool:
    """True if a run agrees in everything that decides its numbers, but the end of its training.

    Raises:
        UsageError: Another process is training it.
    """
    try:
        before = safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        before["plugins"] = read_result(run).get("plugins")
    except (OSError, TypeError, ValueError, yaml.YAMLError):  # damaged
        return False
    now = {**config, "plugins": plugin_versions(config)}
    sections = ("model", "data", "seed_everything", "plugins", "init_from")
    if any(before.get(key) != now.get(key) for key in sections):
        return False
    if any(before["trainer"].get(name) != now["trainer"].get(name) for name in NUMERIC):
        return False
    # Only the first process asks: it has just locked a folder that the others see too.
    if is_alive(run) and getattr(rank_zero_only, "rank", 0) == 0:
        raise UsageError(
            f"--ckpt_path {AUTO}: a process is training {run} now, with this model, data and seed. "
            "Wait until it has ended, or stop it; without --ckpt_path this starts another run."
        )
    return True
