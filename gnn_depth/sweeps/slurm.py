"""A sweep as a SLURM job array: all jobs work on one folder, and take runs that are free."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gnn_depth.sweeps.pool import PoolError
from gnn_depth.sweeps.store import Store


def submit(store: Store, options: str, argv: Sequence[str]) -> str:
    """Write the script of a job array beside the runs, and submit it with options of ``sbatch``.

    The command line of the sweep is that of every job, on the workers of its machine. Returns what
    ``sbatch`` prints.

    Raises:
        PoolError: ``sbatch`` is missing or refuses the options.
    """
    words = [word for word in argv if word != "--force"]  # the results have been archived
    command = [sys.executable, "-m", "gnn_depth", "sweep", *words, "--engine=local"]
    folder = store.folder.absolute()
    script = folder / "array.sh"
    script.write_text(
        f"#!/bin/bash\ncd {shlex.quote(str(Path.cwd()))}\n{shlex.join(command)}\n",
        encoding="utf-8",
    )
    line = ["sbatch", f"--output={folder}/slurm-%A_%a.out", *shlex.split(options), str(script)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise PoolError(f"{shlex.join(line)} failed: {reason}") from error
    return done.stdout.strip()
