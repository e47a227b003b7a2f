"""Train for thousands of steps with every callback, and watch the memory: ``python -m
tools.attack.soak [STEPS]``."""

import ctypes
import gc
import os
import sys
import tempfile
from pathlib import Path

import lightning as L

from gnn_depth import diagnostics
from gnn_depth.cli import main as gnn_depth
from tools.attack.table import SMALL

LOOK = 500  # steps between two looks
WARM = 4  # looks until everything has been imported, measured and drawn once
GROWTH = (
    1.05  # of the memory from then on; the values that are kept for the run's files take some of it
)


def resident() -> float:
    """Megabytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Look(L.Callback):
    """Note the memory of the process from time to time."""

    seen: list[float] = []  # noqa: RUF012

    def on_train_batch_start(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step % LOOK == 0:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(
                0
            )  # what is free but not returned yet would hide slow growth
            Look.seen.append(resident())


def main(argv: list[str]) -> int:
    """Print the memory after every few hundred steps; 1 if it grows."""
    steps = int(argv[0]) if argv else 5000
    kinds = [name for name in diagnostics.__all__ if isinstance(getattr(diagnostics, name), type)]
    given = [f"--trainer.callbacks+={name}" for name in (*kinds, "tools.attack.soak.Look")]
    after = given.index("--trainer.callbacks+=LayerMeasures") + 1
    given.insert(after, f"--trainer.callbacks.measures=[{','.join(diagnostics.MEASURES)}]")
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
    print(f"exit code {code}; MB every {LOOK} steps: {', '.join(f'{one:.0f}' for one in seen)}")
    late = seen[WARM:] or seen[-1:]
    growth = max(late) / late[0]
    print(f"{100 * (growth - 1):.1f}% growth after warming up; {resident():.0f} MB at the end")
    return 1 if code or growth > GROWTH else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
