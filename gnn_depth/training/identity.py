"""A run's identity, equal for runs that must give equal numbers, and its options as one row."""

import hashlib
import json
import re
import sys
import sysconfig
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from gnn_depth import registry
from gnn_depth.builder import LIVE, PartError, without_paths
from gnn_depth.part_specs import GIVEN_BY_DATA, SCALAR, items_of
from gnn_depth.runs import digest
from gnn_depth.training.finished import load
from gnn_depth.training.models import trainer_options

# This package, the standard library and installed packages.
INSTALLED = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")),
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
# Options of the trainer in every row; others only where they differ from their default.
ALWAYS = ("max_epochs", "precision", "gradient_clip_val", "accumulate_grad_batches")
# Lightning's callbacks that change nothing in a training, and are in no row.
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


def identity(config: dict[str, Any], data_sha256: str | None) -> str:
    """SHA-256, in hex, of a resolved config with its seed, and of the data.

    It is equal for runs with equal numbers. Names of runs, folders and what is shown on the screen
    do not count. The content of a plugin counts, its place does not. A run with an object that was
    given in Python, or with a class that was typed into a notebook, is unique.
    """
    kept = _without(config, ("run", "config", "plugins"))
    if "init_from" in config:  # the weights count, and not where they are
        kept["init_from"] = _checksum(load(config["init_from"]).checkpoint)
    kept["trainer"] = _without(config.get("trainer", {}), SHOWN)
    kept["model"] = _without(config.get("model", {}), (*GIVEN_BY_DATA, "record"))
    data = config.get("data")
    if data is not None and "given_in_python" not in data:
        kept["data"] = without_paths("data", data)
    kept["plugins"] = plugin_versions(config)
    code = code_of_parts(config)
    # Left out where there is none, as for most runs.
    if code:
        kept["code"] = code
    objects = "given_in_python" in str([kept["model"], kept["trainer"]])
    if objects or any(" " not in one for one in code):  # the code of these is not known
        kept["unique"] = uuid4().hex
    kept["data_sha256"] = data_sha256
    # Sorted: the order in which options were written makes no difference.
    return digest(json.dumps(kept, sort_keys=True, default=str))


def plugin_versions(config: Mapping[str, Any]) -> list[str]:
    """Name of each plugin of a config and the SHA-256 of its file, or of all files of its package,
    in order of name: an edited plugin makes new runs."""
    found = []
    for plugin in config.get("plugins") or []:
        name, path = plugin, registry.origin(plugin) or ""
        if plugin.endswith(".py"):
            name, path = Path(plugin).name, plugin
        found.append(f"{name} {_checksum(Path(path))}")
    return sorted(found)


def _without(section: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in names}


def _checksum(path: Path) -> str:
    if not path.is_file():
        return "missing"
    files = [path]
    if path.name == "__init__.py":
        files = sorted(path.parent.rglob("*.py"))
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()


def code_of_parts(config: Mapping[str, Any]) -> list[str]:
    """Name and checksum of each file of the user's program, or of an installed plugin, that defines
    a part of a config; of what was typed into a notebook the name alone."""
    text = json.dumps([config.get(name) for name in ("model", "trainer", "data")], default=str)
    words = set(re.findall(r"[\w.]+", text))
    modules = {word.rpartition(".")[0] for word in words}  # of class paths
    parts = set()
    for kind in registry.KINDS:
        for name, cls in registry.registered(kind).items():
            if name in words and not cls.__module__.startswith("gnn_depth."):
                parts.add(cls.__module__)
    plugins = {Path(plugin).name.partition(".")[0] for plugin in config.get("plugins") or []}
    found = []
    for name in sorted((modules | parts) & sys.modules.keys()):
        file = getattr(sys.modules[name], "__file__", None)
        top = name.partition(".")[0]
        if name in sys.builtin_module_names or top in plugins:
            continue
        if file is None:
            found.append(name)
        elif name in parts:
            found.append(f"{top} {_checksum(Path(registry.origin(top) or file))}")
        elif not any(Path(file).is_relative_to(folder) for folder in INSTALLED):
            found.append(f"{name} {_checksum(Path(file))}")
    return found


def hparams(config: dict[str, Any]) -> dict[str, Any]:
    """The options of a resolved config as one row of dotted keys: ``model.layer.heads: 8``.

    Of the trainer's options, those that may change what is learned are in it. Each part of the
    model also has one value as a whole, as in a grid: ``model.norm: lipschitz form=released``.
    """
    row: dict[str, Any] = {}
    for section in ("data", "model", "optimizer", "lr_scheduler", "seed_everything", "init_from"):
        _flatten(config.get(section), section, row)
    known = trainer_options()
    for key, value in (config.get("trainer") or {}).items():
        if key == "callbacks":
            value = [one for one in items_of(value or []) if not _only_watches(one)] or None
        is_default = key in known and value == known[key].default
        # Those that may change what is learned and differ from their default.
        if key in ALWAYS or not (key in SHOWN or is_default):
            _flatten(value, f"trainer.{key}", row)
    for kind, part in (config.get("model") or {}).items():
        if kind in registry.KINDS:
            row[f"model.{kind}"] = _short(kind, part)
    return row


def _only_watches(callback: Any) -> bool:
    """True if a callback, as a config writes it, changes nothing in a training."""
    path = callback.get("class_path") if isinstance(callback, Mapping) else callback
    try:
        part = LIVE.find("callback", path)
    except PartError:  # a class inside a function
        return False
    return part.class_name in WATCHING or getattr(part.cls, "only_measures", False)


def _short(kind: str, part: Any) -> str:
    """One or more parts as text: the name, and the options that differ from their defaults."""
    if isinstance(part, list):
        return "+".join(_short(kind, item) for item in part) or "none"
    if not isinstance(part, dict):
        return str(part)
    if "name" not in part:
        return str(part.get("class_path", part))
    known = LIVE.find(kind, part["name"])
    words = [part["name"]]
    for name, value in part.items():
        # A label of a table or a curve: it says what was chosen.
        if name == "name" or value == known.options[name].default:
            continue
        text = registry.as_written(value)
        inner = known.options[name].kind
        if inner is not None:
            text = _short(inner, value)
        words.append(f"{name}={text}")
    return " ".join(words)


def _flatten(value: Any, key: str, row: dict[str, Any]) -> None:
    """Add nested options to a row under dotted keys; a class and its arguments stand at the key of
    the part."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for name, item in value.items():
            inner = key
            if name not in ("class_path", "init_args"):
                inner = f"{key}.{name}"
            _flatten(item, inner, row)
    elif value is not None:
        row[key] = value if isinstance(value, SCALAR) else str(value)
