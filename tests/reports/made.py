"""Folders of runs for the tests of figures: result.json and measures."""

import itertools
import json

import numpy as np

from gnn_depth import measurements
from gnn_depth.measurements import MeasureValues

METRIC = "test_acc_at_best_val"


_NUMBERS = itertools.count(1)


def make_run(root, axes, seed=0, value=0.5, status="finished", measures=(), result=None):
    """Write the folder of a run of a sweep with these axes, and return it.

    No two runs have the same identity. ``result`` replaces keys of ``result.json``; a value of None
    is a run without metrics.
    """
    number = next(_NUMBERS)
    group = ",".join(f"{name}={text}" for name, text in axes.items()) or "all"
    folder = root / "grid" / group / f"seed_{seed}-{number:08x}"
    folder.mkdir(parents=True)
    hparams = {f"model.{name}": axes[name] for name in axes if axes[name] is not None}
    content = {
        "format": 1,
        "status": status,
        "name": "grid",
        "seed": seed,
        "started": f"2026-11-21T{number:09}",
        "packages": {"gnn-depth": "0.1.0"},
        "seconds": 1.5,
        "metrics": {"val/loss": 1.0} | ({} if value is None else {METRIC: value}),
        "hparams": {"model.layer": "gat", "seed_everything": seed, **hparams},
        "sweep": "grid",
        "axes": dict(axes),
        "identity": f"{number:064x}",
    }
    (folder / "result.json").write_text(json.dumps(content | dict(result or {})))
    for measurement in measures:
        measurements.save_values(folder, measurement)
    return folder


def similarity(name, seed=0, steps=6, depth=5, slope=-0.5):
    """log10 of a similarity that decays with the distance from the last layer."""
    draws = np.random.default_rng(seed)
    fall = slope * np.arange(depth)[::-1]
    values = fall + 0.05 * np.arange(steps)[:, None] + 0.1 * draws.standard_normal((steps, depth))
    return MeasureValues(name, 10 * np.arange(steps), values, unit="mu", log10=True)


def balance(seed=0, steps=6, depth=3, neurons=8):
    """The balance c of every neuron, which drifts."""
    draws = np.random.default_rng(seed)
    start = draws.standard_normal((1, depth, neurons))
    drift = 0.1 * draws.standard_normal((steps, depth, neurons)).cumsum(axis=0)
    return MeasureValues("balance", np.arange(steps), start + drift, unit="c")
