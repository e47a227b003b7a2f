"""Train for thousands of steps with every callback, and watch the memory: ``python -m
tools.attack.soak [STEPS]``."""

import sys
import tempfile

import lightning as L

from gnn_depth import diagnostics
from gnn_depth.cli import main as gnn_depth
from tools.attack.table import SMALL
from tools.bench import memory

LOOK = 500  # steps between two looks
WARM = 4  # looks until everything has been imported, measured and drawn once
# Of the memory from then on; the values that are kept for the run's files take some of it.
GROWTH = 1.05


def resident() -> float:
    """Megabytes of this process in memory."""
    return memory.resident() / 1e6


class Look(L.Callback):
    """Note the memory of the process from time to time."""

    seen: list[float] = []  # noqa: RUF012

    def on_train_batch_start(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step % LOOK == 0:
            memory.tidy()  # what is free but not returned yet would hide slow growth
            Look.seen.append(resident())


def main(argv: list[str]) -> int:
    """Print the memory after every few hundred steps; 1 if it grows."""
    steps = int(argv[0]) if argv else 5000
    given = []
    for name in (*diagnostics.__all__, "tools.attack.soak.Look"):
        if name == "MEASURES":  # the only one that is no callback
            continue
        given.append(f"--trainer.callbacks+={name}")
        if name == "LayerMeasures":
            given.append(f"--trainer.callbacks.measures=[{','.join(diagnostics.MEASURES)}]")
    words = [
        *SMALL,
        *given,
        f"--trainer.max_epochs={steps}",
        "--model.dropout=0.5",
        "--run.save_every_epochs=500",
    ]
    with tempfile.TemporaryDirectory() as top:
        code = gnn_depth(["fit", *words, f"--run.root={top}"])
    from tools.attack.soak import Look as Imported  # this file runs as __main__

    seen = Imported.seen
    rounded = [f"{megabytes:.0f}" for megabytes in seen]
    print(f"exit code {code}; MB every {LOOK} steps: {', '.join(rounded)}")
    if code:
        return 1
    late = seen[WARM:] or seen[-1:]
    growth = max(late) / late[0]
    print(f"{100 * (growth - 1):.1f}% growth after warming up; {resident():.0f} MB at the end")
    return int(growth > GROWTH)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
