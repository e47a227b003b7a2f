"""A run's identity, equal for runs that must give equal numbers, and its options as one row."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gnn_depth import registry
from gnn_depth.builder import LIVE, Chosen, PartError, choose, without_paths
from gnn_depth.part_specs import (
    GIVEN_BY_DATA,
    SCALAR,
    SECTIONS,
    items_of,
    load_class,
)
from gnn_depth.runs import digest
from gnn_depth.training.models import trainer_options
from gnn_depth.training.source_code import (
    checksum_of_code,
    checksum_of_file,
    is_written_by_user,
)

# Options of the trainer that only say where things are written and what is shown.
SHOWN = (
    "logger",
    "enable_progress_bar",
    "enable_model_summary",
    "default_root_dir",
    "profiler",
    "barebones",
)
# Options of the trainer that are told of every run; others where they differ from their default.
ALWAYS_TOLD = ("max_epochs", "precision", "gradient_clip_val", "accumulate_grad_batches")
# Of these, 1 is one batch and 1.0 is all of them.
OF_BATCHES = (
    "limit_train_batches",
    "limit_val_batches",
    "limit_test_batches",
    "limit_predict_batches",
    "overfit_batches",
    "val_check_interval",
)
# Lightning's callbacks that change nothing in a training, and so need not be told.
WATCHING = (
    "ModelCheckpoint",
    "OnExceptionCheckpoint",
    "LearningRateMonitor",
    "DeviceStatsMonitor",
    "ThroughputMonitor",
    "ModelSummary",
    "RichModelSummary",
    "TQDMProgressBar",
    "RichProgressBar",
)


def identity(config: dict[str, Any], data_sha256: str) -> str:
    """SHA-256, in hex, of a resolved config with its seed, and of the data.

    It is equal for runs with equal numbers. Names of runs, folders and what is shown on the screen
    do not count. The content of a plugin counts, its place does not; so does the code of a class
    that the user's program defines.
    """
    trainer = config.get("trainer", {})
    model = config.get("model", {})
    # Plugins count by their content, below.
    kept = {key: value for key, value in config.items() if key not in ("run", "config", "plugins")}
    kept["trainer"] = {key: value for key, value in trainer.items() if key not in SHOWN}
    kept["model"] = {key: value for key, value in model.items() if key not in GIVEN_BY_DATA}
    data = config.get("data")
    if data is not None and "given_in_python" not in data:
        kept["data"] = without_paths("data", data)
    kept["plugins"] = plugin_versions(config)
    code = code_of_program(config)
    # Left out where there is none, as for most runs.
    if code:
        kept["code"] = code
    kept["data_sha256"] = data_sha256
    # Sorted: the order in which options were written makes no difference.
    text = json.dumps(kept, sort_keys=True, default=str)
    return digest(text)


def plugin_versions(config: Mapping[str, Any]) -> list[str]:
    """Name and checksum of each plugin of a config, in order of name."""
    return sorted(plugin_version(plugin) for plugin in config.get("plugins") or [])


def plugin_version(plugin: str) -> str:
    """A plugin's name and the checksum of its file and of the user's files that it imports.

    So an edited plugin makes new runs.
    """
    name = module = plugin
    path = Path(registry.origin(plugin) or "")
    if plugin.endswith(".py"):
        path = Path(plugin)
        name, module = path.name, path.stem
    content = "missing"
    if path.is_file():
        content = checksum_of_file(path, module)
    return f"{name} {content}"


def code_of_program(config: Mapping[str, Any]) -> list[str]:
    """Name and checksum of each class in a config that comes from a user's program or notebook.

    Classes of plugins are not in it, see :func:`plugin_version`.
    """
    plugins = set()
    for plugin in config.get("plugins") or []:
        # The name of a module: of a file its stem, of a.b.c the package a.
        plugins.add(Path(plugin).name.partition(".")[0])
    found = set()
    for section, kind in SECTIONS.items():
        value: Any = config
        for key in section.split("."):
            if not isinstance(value, Mapping):
                value = {}
            value = value.get(key)
        if value is None or (isinstance(value, Mapping) and "given_in_python" in value):
            continue
        for cls in _classes(kind, value):
            is_of_plugin = cls.__module__.partition(".")[0] in plugins
            if is_written_by_user(cls) and not is_of_plugin:
                found.add(f"{cls.__qualname__} {checksum_of_code(cls)}")
    return sorted(found)


def _classes(kind: str, value: Any) -> Iterator[type]:
    """The classes of the parts that a value names, and of those in their options."""
    try:
        waiting = items_of(choose(kind, value))
    except PartError:  # a class inside a function, of which the config has the code
        return
    while waiting:
        chosen = waiting.pop()
        if isinstance(chosen, Chosen):
            cls = chosen.part.cls or load_class(chosen.part.path)
            if isinstance(cls, type):
                yield cls
            for option in chosen.options.values():
                waiting += items_of(option)


def hparams(config: dict[str, Any]) -> dict[str, Any]:
    """The options of a resolved config as one row of dotted keys: ``model.layer.heads: 8``.

    Of the trainer's options, those that may change what is learned are in it. Each part of the
    model also has one value as a whole, as in a grid: ``model.norm: lipschitz form=released``.
    """
    model = config.get("model") or {}
    chosen = {key: config.get(key) for key in ("data", "model", "seed_everything")}
    chosen["trainer"] = _told_of_trainer(config.get("trainer") or {})
    row: dict[str, Any] = _flat(chosen, ())
    for kind, part in model.items():
        if kind in registry.KINDS:
            row[f"model.{kind}"] = _called(kind, part)
    return row


def _told_of_trainer(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the trainer that may change what is learned and differ from their default."""
    known = trainer_options()
    told = {}
    for key, value in trainer.items():
        if key == "callbacks":
            value = [one for one in items_of(value or []) if not _only_watches(one)] or None
        is_default = key in known and value == known[key].default
        if key in OF_BATCHES and isinstance(value, float):
            value = f"{100 * value:g}%"  # as a number of a table it would be that of the batches
        if key in ALWAYS_TOLD or not (key in SHOWN or is_default):
            told[key] = value
    return told


def _only_watches(callback: Any) -> bool:
    """True if a callback, as a config writes it, changes nothing in a training."""
    path = callback.get("class_path") if isinstance(callback, Mapping) else callback
    try:
        part = LIVE.find("callback", path)
    except PartError:  # a class inside a function
        return False
    return part.class_name in WATCHING or getattr(part.cls, "only_measures", False)


def _called(kind: str, part: Any) -> str:
    """One or more parts as text: the name, and the options that differ from their defaults."""
    if isinstance(part, list):
        return "+".join(_called(kind, item) for item in part) or "none"
    if not isinstance(part, dict):
        return str(part)
    if "name" not in part:
        return str(part.get("class_path", part))
    known = LIVE.find(kind, part["name"])
    words = [part["name"]]
    for name, value in part.items():
        # A label of a table or a curve: it says what was chosen.
        if name == "name" or value == known.defaults.get(name):
            continue
        text = registry.as_written(value)
        inner = known.options[name].kind
        if inner is not None:
            text = _called(inner, value)
        words.append(f"{name}={text}")
    return " ".join(words)


def _flat(value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Nested options as dotted keys; a class and its arguments stand at the key of the part."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(position): item for position, item in enumerate(value)}
    if isinstance(value, dict):
        row: dict[str, Any] = {}
        for key, item in value.items():
            if key in ("class_path", "init_args"):
                row |= _flat(item, keys)
            else:
                row |= _flat(item, (*keys, str(key)))
        return row
    if value is None:
        return {}
    if not isinstance(value, SCALAR):
        value = str(value)
    return {".".join(keys): value}
