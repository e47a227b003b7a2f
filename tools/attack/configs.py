"""Configs drawn from the catalogue of parts: most of them valid, some with values far outside their
range."""

import random
from typing import Any

import yaml

from gnn_depth.cli.catalogue import catalogue
from gnn_depth.part_specs import SECTIONS, Option
from tools.attack.table import Attack, fit

KINDS = ("layer", "norm", "init", "skip", "graph_dropout", "optimizer", "scheduler")
PLAIN = {
    "num_layers": (1, 2, 5, 5, 5, 0),
    "dropout": (0.0, 0.5, 0.5, 1.0, float("nan")),
    "activation": ("relu", "tanh", "identity"),
    "encoder": ("linear", "linear", "linear", "none"),
    "decoder": ("linear", "none"),
    "norm_after_skip": (True, False),
    "share_layers": (True, False),
    "jump": ("last", "max", "cat"),
    "checkpoint_every": ("none", "sqrt", 2, 0),
    "reversible": (0, 0, 2),
}
NUMBERS = (0, 1, 2, 0.5, 1e-3, -1, 1e12, float("nan"), float("inf"), "x", None, [1], {"a": 1})
MISUSE = 0.05  # share of options with any value at all


def draw(count: int, seed: int = 0) -> list[Attack]:
    """Draw short trainings.

    Args:
        count: How many.
        seed: The same seed draws the same ones.
    """
    chance, known = random.Random(seed), catalogue([])
    attacks = []
    for number in range(count):
        model: dict[str, Any] = {}
        for name, values in PLAIN.items():
            if chance.random() < 0.25:
                model[name] = chance.choice(values)
        for kind in chance.sample(KINDS, chance.randint(1, 4)):
            part = chance.choice(list(known.parts[SECTIONS[f"model.{kind}"]].values()))
            options = {}
            for option in part.options.values():
                if chance.random() < 0.3:
                    options[option.name] = _value(option, chance)
            model[kind] = {"name": part.name, **options}
        text = yaml.safe_dump({"model": model}, sort_keys=False)
        argv = fit("--config=c.yaml", "--model.compile=off", "--trainer.max_epochs=1")
        said = yaml.safe_dump(model, default_flow_style=True, width=10**6).strip()
        # 1: declared as diverged, or refused by a library in the first step
        attacks.append(Attack(f"{number}: {said}", argv, {"c.yaml": text}, (0, 1, 2), seconds=20))
    return attacks


def _value(option: Option, chance: random.Random) -> Any:
    if chance.random() < MISUSE:  # few, as a config with many faults shows only the first
        return chance.choice(NUMBERS)
    if option.choices:
        return chance.choice(option.choices)
    types = option.type.split(" | ")
    if "float" in types:
        return chance.choice((0.1, 0.5, 0.9, 1.0))
    if "int" in types:
        return chance.choice((1, 2, 3))
    if "bool" in types:
        return chance.random() < 0.5
    return option.default if option.is_plain else "x"
