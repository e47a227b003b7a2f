"""One run of a sweep, in a process that has its imports behind it."""

import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning as L
import torch

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.files import INLINE, Config
from gnn_depth.cli.freed_memory import give_back_freed_memory
from gnn_depth.cli.identity import identity, version
from gnn_depth.cli.quiet import quiet
from gnn_depth.cli.run import start
from gnn_depth.cli.words import CommandLine, load_plugins
from gnn_depth.runs import Origin
from gnn_depth.signals import take
from gnn_depth.sweeps.store import Record, Store
from gnn_depth.sweeps.task import ELSEWHERE, Outcome, Task

OUTPUT = "output.txt"
# What belongs to the process and changes numbers: how it is read, and how it is set.
SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (lambda: torch.backends.cudnn.benchmark, lambda value: setattr(torch.backends.cudnn, "benchmark", value)),
)
LOOK_SECONDS = 0.3
# Seeds and random states belong to a process: of a worker's threads one may train at a time.
TRAINING = threading.Lock()
_imported: dict[str, str] = {}  # plugins, and what they were when they were imported


class StopWhenAsked(L.Callback):
    """End the training as Ctrl-C does, once a file is there: every worker that sees the folder can be told so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._looked = 0.0

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            if self.path.exists():
                take(signal.SIGINT)


def work(task: Task) -> Outcome:
    """Run a task, unless it is done already or another process is at it."""
    store = Store(task.root, task.sweep)
    with alone(), store.claim(task.place.identity) as mine:
        return _claimed(task, store) if mine else Outcome(ELSEWHERE)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Train alone in this process, and leave the process as it was: a run is to get what a new process would give it.

    Lightning leaves ``deterministic`` and ``benchmark`` as the last run had them, and callbacks and plugins may leave
    anything.
    """
    with TRAINING:
        settings, variables = [read() for read, _ in SETTINGS], dict(os.environ)
        try:
            yield
        finally:
            for value, (read, change) in zip(settings, SETTINGS, strict=True):
                if read() != value:
                    change(value)
            for name in os.environ.keys() - variables.keys():
                del os.environ[name]
            os.environ.update(variables)
            _forget()


def _forget() -> None:
    """Free what a run leaves: model, data and trainer hold one another, and the compiler holds what it compiled."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    gc.collect()
    give_back_freed_memory()


def _claimed(task: Task, store: Store) -> Outcome:
    known, attempt = store.find(task.place), 1
    if known and known.is_result:
        return Outcome.of(known, new=False)
    if known:
        if known.status == "running" and known.attempt > task.retries:
            store.mark(known, "failed", f"its process died {known.attempt} times; {OUTPUT} may say why.")
            return Outcome.of(_read(known.folder))
        attempt = known.attempt + 1 if known.status in ("running", "failed") else 1
        if known.status == "running":
            store.mark(known, "failed", "its process died.")
        store.archive(known)
    if Path(task.stop).exists():
        return Outcome("interrupted")
    if (stray := store.place(task.place)).exists():  # with the result of another run, moved or edited by hand
        store.archive(Record(stray, {}))
    facts = {**task.facts, "attempt": attempt}
    folder = store.begin(task.place, facts)
    with _output_to(folder / OUTPUT):
        status, reason = _train(task, Origin(facts, folder))
    record = _read(folder)
    if record.status == "running":  # it ended before its recorder could say how
        store.mark(record, status, reason)
        record = _read(folder)
    return Outcome.of(record)


def _train(task: Task, origin: Origin) -> tuple[str, str]:
    """Train, and return how it ended."""
    try:
        with quiet():
            plugins = task.config.get("plugins") or []
            load_current(plugins)
            _check_planned(task)
            cli = CommandLineInterface("fit", CommandLine([Config(INLINE, task.config)], plugins, []))
            cli.trainer.callbacks.append(StopWhenAsked(Path(task.stop)))  # type: ignore[attr-defined]
            start(cli, origin)
    except (UsageError, RunError) as error:
        return "failed", str(error)
    except (KeyboardInterrupt, SystemExit):  # Lightning answers the one with the other
        return "interrupted", "interrupted"
    except Exception as error:
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}"
    return "failed", "it ended without a result"


def load_current(plugins: list[str]) -> None:
    """Import plugins, also those anew that were edited since: the workers of a cluster outlive a sweep.

    Raises:
        UsageError: One does not load; it is named.
    """
    for plugin in plugins:
        name = Path(plugin).stem if plugin.endswith(".py") else plugin
        edited = version(plugin)
        if name in sys.modules and _imported.get(plugin, edited) != edited:
            del sys.modules[name]
        _imported[plugin] = edited
    load_plugins(plugins)


def _check_planned(task: Task) -> None:
    """Refuse to record a run as what it is not.

    Raises:
        UsageError: What is here differs from what the sweep was planned with.
    """
    if identity(task.config, task.data_sha256) != task.place.identity:
        raise UsageError(
            "a plugin was edited after the sweep had been planned, or this worker has another version of gnn-depth "
            "or of a plugin than the sweep has; start the sweep again."
        )


def _read(folder: Path) -> Record:
    return Record(folder, json.loads((folder / "result.json").read_text(encoding="utf-8")))


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Write what a run says into its folder: on the screen many runs would talk at once."""
    with path.open("w", encoding="utf-8", buffering=1) as file:
        handler = logging.StreamHandler(file)
        loggers = [logging.getLogger(name) for name in ("lightning.fabric", "lightning.pytorch", "gnn_depth")]
        others = {logger: (logger.handlers, logger.propagate) for logger in loggers}
        for logger in loggers:
            logger.handlers, logger.propagate = [handler], False
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            for logger, (handlers, propagate) in others.items():
                logger.handlers, logger.propagate = handlers, propagate
