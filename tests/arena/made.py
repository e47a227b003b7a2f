"""Records that are made up."""

import numpy as np

from gnn_depth.arena.records import MEASURES, TrainingJob, TrainingRecord
from gnn_depth.arena.running import training_identity

#: What a made-up remedy gains with 32 layers.
GAINS = {"plain": -0.2, "residual_batch": 0.0, "residual_layer": -0.01, "gcnii": 0.1, "gated": 0.0}


def final(arena, name, remedy, depth, split, test, val=None, settled=True, **more):
    """A final record."""
    job = TrainingJob("final", name, remedy, depth, arena.width, 0, split, arena.epochs)
    known = {"chance": 0.3, "rows": (1000, 500, 250), "seconds": 1.0, "bytes": 1000, "train": 0.9}
    given = {"test": test, "val": test if val is None else val, "settled": settled}
    return TrainingRecord(
        job, training_identity(arena, job), "finished", **{**known, **given, **more}
    )


def finals(arena, sets, splits=5, seed=0):
    """Records of a few remedies; 32 layers of gcnii are the best on every set."""
    draws = np.random.default_rng(seed)
    found = []
    for name in sets:
        for split in range(splits):
            hard = 0.02 * draws.normal()
            for depth in (2, 32):
                for remedy, gain in GAINS.items():
                    score = 0.6 + hard + (gain if depth == 32 else 0) + 0.003 * draws.normal()
                    found.append(final(arena, name, remedy, depth, split, score))
    return found


def probed(arena, sets, settings=30, seed=0):
    """Small records in which the growth of ||G|| at initialisation tells the outcome, and the rank
    of X tells nothing but the depth."""
    draws = np.random.default_rng(seed)
    found = []
    for name in sets:
        for setting in range(settings):
            for depth in (arena.reference, 8, 32):
                sizes = {measure: [1.0, 1.0, 1.0] for measure in MEASURES}
                growth = draws.normal()
                first = 10.0 ** draws.normal()
                sizes["gradient"] = [first, 1.0, first * 10.0**growth]
                sizes["rank"] = [5.0, 5.0, 100.0 / depth]
                test = 0.6 + 0.05 * growth - 0.005 * depth
                job = TrainingJob("small", name, "plain", depth, 16, setting, setting, 60)
                probe = {moment: list(sizes.values()) for moment in ("0", "10", "50", "end")}
                number = f"{name}{setting}{depth}"
                found.append(
                    TrainingRecord(
                        job, number, "finished", test=test, val=test, chance=0.2, probe=probe
                    )
                )
    return found
