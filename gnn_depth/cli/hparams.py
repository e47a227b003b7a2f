"""A config as a table of one row: what TensorBoard's HParams page compares runs by."""

from typing import Any

from gnn_depth.cli.sections import contract_config

# Of the trainer's forty options these change what is learned; each one is a column of the page.
TRAINER = ("max_epochs", "precision", "gradient_clip_val", "accumulate_grad_batches")


def hparams(config: dict[str, Any]) -> dict[str, Any]:
    """Data, model, seed and a little of the trainer, as dotted keys and plain values: ``model.layer.heads: 8``."""
    config = contract_config(config)
    trainer = {key: value for key, value in config.get("trainer", {}).items() if key in TRAINER}
    chosen = {key: config.get(key) for key in ("data", "model", "seed_everything")}
    return _flatten({**chosen, "trainer": trainer}, ())


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
