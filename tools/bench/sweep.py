"""A sweep of forty short runs on two workers, on one, and as forty times ``gnn-depth fit``, one after the other.

The runs are configs/sweeps/gcn_seeds.yaml: 200 epochs of the two-layer GCN on Cora. Whole commands are timed, imports
included; the rate is that of the runs alone, from the first start to the last end.
"""

import argparse
import datetime as dt
import json
import os
import sys
import tempfile
from pathlib import Path

from tools.bench.fit import HERE, seconds

GRID = HERE / "configs" / "sweeps" / "gcn_seeds.yaml"
CONFIG = HERE / "configs" / "gcn_2.yaml"
RUNS = 40


def sweep(workers: int, folder: Path, root: str) -> tuple[float, float]:
    """Seconds of a sweep as a whole, and runs a second between its first start and its last end."""
    words = [str(GRID), "--workers", str(workers), "--root", str(folder), "--data.root", root]
    whole = seconds([sys.executable, "-m", "gnn_depth", "sweep", *words])
    results = [json.loads(path.read_text()) for path in folder.glob("*/*/seed_*/result.json")]
    assert [result["status"] for result in results] == ["finished"] * RUNS
    starts = [dt.datetime.fromisoformat(result["started"]).timestamp() for result in results]
    ends = [start + result["seconds"] for start, result in zip(starts, results, strict=True)]
    return whole, RUNS / (max(ends) - min(starts))


def fits(count: int, folder: Path, root: str) -> float:
    """Seconds of some fits, one after the other."""
    words = ["--config", str(CONFIG), "--data.root", root, "--run.root", str(folder)]
    command = [sys.executable, "-m", "gnn_depth", "fit", *words, "--seed_everything"]
    return sum(seconds([*command, str(seed)]) for seed in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of Cora")
    parser.add_argument("--fits", type=int, default=RUNS, help="how many single fits; their mean stands for the others")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    root = str(Path(options.data).resolve())
    os.environ.pop("OMP_NUM_THREADS", None)
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            two, rate_of_two = sweep(2, folder / "two", root)
            one, rate_of_one = sweep(1, folder / "one", root)
            single = fits(options.fits, folder / "fits", root) * RUNS / options.fits
        found = {"two workers": two, "one worker": one, "single fits": single}
        ratios = {"one / two": one / two, "single / two": single / two, "rates, two / one": rate_of_two / rate_of_one}
        print(json.dumps({key: round(value, 2) for key, value in {**found, **ratios}.items()}), flush=True)


if __name__ == "__main__":
    main()
