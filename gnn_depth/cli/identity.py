"""The identity of a run: equal for runs that must give equal numbers."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from gnn_depth.cli.config import GIVEN_BY_DATA, PATHS

# Options of the trainer that only say where things are written and what is shown.
SHOWN = ("logger", "enable_progress_bar", "enable_model_summary", "default_root_dir", "profiler", "barebones")


def identity(config: dict[str, Any], data_sha256: str) -> str:
    """SHA-256 of a resolved config, with its seed, and of the data, in hex: equal for runs with equal numbers.

    Names of runs, folders and what is shown on the screen are left out. The content of a plugin counts, its place
    does not.
    """
    kept = {key: value for key, value in config.items() if key not in ("run", "config", "plugins")}
    kept["trainer"] = {key: value for key, value in kept.get("trainer", {}).items() if key not in SHOWN}
    kept["model"] = {key: value for key, value in kept.get("model", {}).items() if key not in GIVEN_BY_DATA}
    kept["data"] = _without_paths(kept.get("data"))
    kept["plugins"] = [version(plugin) for plugin in config.get("plugins") or []]
    kept["data_sha256"] = data_sha256
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(item) for key, item in value.items() if key not in PATHS}
    return value


def version(plugin: str) -> str:
    """A plugin's name and the checksum of its file, so that an edited plugin makes new runs."""
    path = Path(plugin) if plugin.endswith(".py") else _file_of(plugin)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
    return f"{path.name if plugin.endswith('.py') else plugin} {content}"


def _file_of(module: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # loading it says what is wrong
        spec = None
    return Path(spec.origin or "") if spec else Path()
