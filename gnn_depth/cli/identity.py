"""The identity of a run, equal for runs that must give equal numbers, and its hyperparameters as
one row."""

import hashlib
import json
from pathlib import Path
from typing import Any

from gnn_depth import registry
from gnn_depth.builder import without_paths
from gnn_depth.short_names import GIVEN_BY_DATA, describe
from gnn_depth.sweeps.grid import label_text

# Options of the trainer that only say where things are written and what is shown.
SHOWN = (
    "logger",
    "enable_progress_bar",
    "enable_model_summary",
    "default_root_dir",
    "profiler",
    "barebones",
)
# Those that change what is learned.
TRAINER = ("max_epochs", "precision", "gradient_clip_val", "accumulate_grad_batches")


def identity(config: dict[str, Any], data_sha256: str) -> str:
    """SHA-256 of a resolved config, with its seed, and of the data, in hex: equal for runs with
    equal numbers.

    Names of runs, folders and what is shown on the screen are left out. The content of a plugin
    counts, its place does not.
    """
    kept = {key: value for key, value in config.items() if key not in ("run", "config", "plugins")}
    kept["trainer"] = {
        key: value for key, value in kept.get("trainer", {}).items() if key not in SHOWN
    }
    kept["model"] = {
        key: value for key, value in kept.get("model", {}).items() if key not in GIVEN_BY_DATA
    }
    if "data" in kept:
        kept["data"] = without_paths("data", kept["data"])
    kept["plugins"] = [version(plugin) for plugin in config.get("plugins") or []]
    kept["data_sha256"] = data_sha256
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def version(plugin: str) -> str:
    """A plugin's name and the checksum of its file, so that an edited plugin makes new runs."""
    path = Path(plugin if plugin.endswith(".py") else registry.origin(plugin) or "")
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
    return f"{path.name if plugin.endswith('.py') else plugin} {content}"


def hparams(config: dict[str, Any]) -> dict[str, Any]:
    """Flatten data, model, seed and part of the trainer of a resolved config to dotted keys:
    ``model.layer.heads: 8``.

    Each part of the model also has one value as a whole, as in a grid: ``model.norm: lipschitz
    form=released``.
    """
    trainer = {key: value for key, value in config.get("trainer", {}).items() if key in TRAINER}
    chosen = {key: config.get(key) for key in ("data", "model", "seed_everything")}
    model = chosen["model"] or {}
    parts = {
        f"model.{kind}": _called(kind, part)
        for kind, part in model.items()
        if kind in registry.KINDS
    }
    return _flatten({**chosen, "trainer": trainer}, ()) | parts


def _called(kind: str, part: Any) -> str:
    """One or more parts as text: the name, and the options that differ from their defaults."""
    if isinstance(part, list):
        return "+".join(_called(kind, item) for item in part) or "none"
    if not isinstance(part, dict) or "name" not in part:
        return str(part["class_path"] if isinstance(part, dict) and "class_path" in part else part)
    known, said = describe(kind, part["name"], registry.get(kind, part["name"])), [part["name"]]
    for name, value in part.items():
        if name != "name" and value != known.defaults.get(name):
            inner = known.options[name].kind
            said.append(f"{name}={_called(inner, value) if inner else label_text(value)}")
    return " ".join(said)


def _flatten(config: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(config, list) and any(isinstance(item, dict) for item in config):
        config = {str(position): item for position, item in enumerate(config)}
    if not isinstance(config, dict):
        plain = isinstance(config, bool | int | float | str)
        return {} if config is None else {".".join(keys): config if plain else str(config)}
    return {
        name: value
        for key, item in config.items()
        # A class and its arguments stand at the key of the part itself.
        for name, value in _flatten(
            item, keys if key in ("class_path", "init_args") else (*keys, str(key))
        ).items()
    }
