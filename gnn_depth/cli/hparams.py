"""Flatten a resolved config to one row, for TensorBoard's HParams page."""

from typing import Any

from gnn_depth import registry
from gnn_depth.short_names import describe
from gnn_depth.sweeps.grid import label_text

# The options of the trainer that change what is learned.
TRAINER = ("max_epochs", "precision", "gradient_clip_val", "accumulate_grad_batches")


def hparams(config: dict[str, Any]) -> dict[str, Any]:
    """Flatten data, model, seed and part of the trainer to dotted keys: ``model.layer.heads: 8``.

    Each part of the model also has one value as a whole, as in a grid: ``model.norm: lipschitz form=released``.

    Args:
        config: A resolved config.
    """
    trainer = {key: value for key, value in config.get("trainer", {}).items() if key in TRAINER}
    chosen = {key: config.get(key) for key in ("data", "model", "seed_everything")}
    model = chosen["model"] or {}
    parts = {f"model.{kind}": _called(kind, part) for kind, part in model.items() if kind in registry.KINDS}
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
        for name, value in _flatten(item, keys if key in ("class_path", "init_args") else (*keys, str(key))).items()
    }
