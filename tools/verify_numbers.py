"""Rerun a random sample of the claims in docs/results, and compare each with its stated interval.

    python -m tools.verify_numbers --sample 10 --seed 0 [--cheaper-than SECONDS] [--max-hours H]

The first seed of each claim is run again, the cheapest claim first. A claim passes if the new value
equals the stated one of that seed, or lies in the 95% prediction interval of one more run, mean ± t
s sqrt(1 + 1/n). With a single stated run it may differ by one point. Claims marked stale are left
out. The exit code is 1 if a claim fails.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gnn_depth.reports.table import t_half_width
from tools.measured import METRIC, ROOT, Claim, Results, load

EQUAL, POINT = 5e-4, 0.01


def cost(claim: Claim) -> float:
    """Seconds of a run as measured, or a guess from the depth."""
    return claim.data.get("seconds") or 60 * float(claim.at.get("depth", 10))


def half_width(claim: Claim) -> float:
    """Half the width of the prediction interval of one more run."""
    deviation = claim.half_width("std")
    if deviation is None:
        return POINT
    return float(t_half_width(deviation, claim.n)) * math.sqrt(claim.n + 1)


def passes(claim: Claim, value: float) -> bool:
    """Compare a rerun of the claim's first seed with what is stated."""
    equal = bool(claim.values) and abs(value - claim.values[0]) <= EQUAL
    return equal or abs(value - claim.mean) <= half_width(claim)


def command(results: Results, claim: Claim, folder: str) -> list[str]:
    """The arguments of gnn-depth that run the first seed of a claim."""
    options = [*results.head.get("options", []), *claim.data.get("options", [])]
    options = list(map(os.path.expandvars, options))  # GNN_DEPTH_DATA
    seed = str(claim.data.get("seeds", [0])[0])
    if "config" in results.head:
        config = str(ROOT / "configs" / results.head["config"])
        words = ["fit", "--config", config, "--seed_everything", seed, "--run.root", folder]
        return [*words, *options]
    subset = [f"{axis}={value}" for axis, value in claim.at.items()]
    one = ["--seeds", "1", "--workers", "1", "--root", folder]
    return ["reproduce", results.head["item"], "--subset", *subset, *one, *options]


def rerun(results: Results, claim: Claim) -> float | None:
    """The metric of a new run; None if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "gnn_depth", *command(results, claim, folder)]
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        for path in Path(folder).rglob("result.json"):
            return json.loads(path.read_text())["metrics"].get(results.head.get("metric", METRIC))
    print(done.stdout[-2000:])
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=10, help="number of claims (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument(
        "--cheaper-than", type=float, default=math.inf, metavar="SECONDS", help="leave out others"
    )
    parser.add_argument(
        "--max-hours", type=float, default=math.inf, help="start no run after this time"
    )
    options = parser.parse_args()
    pool = []
    for results in load():
        for claim in results.claims:
            is_number = "text" not in claim.data and not claim.data.get("stale")
            if is_number and cost(claim) < options.cheaper_than:
                pool.append((results, claim))
    drawn = random.Random(options.seed).sample(pool, min(options.sample, len(pool)))
    deadline = time.monotonic() + 3600 * options.max_hours
    counted = {"passed": 0, "failed": 0, "not run": 0}
    # The cheapest first, so that most are done where the time runs out.
    for results, claim in sorted(drawn, key=lambda pair: cost(pair[1])):
        name = f"{results.path.stem}: {', '.join(claim.at.values())}: stated {claim.text()}"
        outcome, now = "not run", "none"
        if time.monotonic() <= deadline:
            found = rerun(results, claim)
            outcome = "failed"
            if found is not None:
                now = f"{100 * found:.1f}"
                if passes(claim, found):
                    outcome = "passed"
        counted[outcome] += 1
        seed = claim.data.get("seeds", [0])[0]
        print(f"{name}, seed {seed} now {now}: {outcome}", flush=True)
    outcomes = [f"{count} {outcome}" for outcome, count in counted.items()]
    print(f"{', '.join(outcomes)}, of {len(pool)} claims")
    return int(counted["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
