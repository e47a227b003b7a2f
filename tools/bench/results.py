"""Reading 10,000 results and averaging them into a table: ``gnn_depth.reports.load`` and ``tabulate``."""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

GROUPS, SEEDS = 1000, 10


def write(folder: Path, template: dict) -> None:
    """Results that differ in two axes and the seed, each a copy of a real one."""
    for group in range(GROUPS):
        axes = {"depth": group % 25, "width": group // 25}
        for seed in range(SEEDS):
            run = folder / f"depth={axes['depth']},width={axes['width']}" / f"seed_{seed}-{group:08x}"
            run.mkdir(parents=True)
            metrics = {name: random.random() for name in template["metrics"]}
            result = {**template, "seed": seed, "axes": axes, "metrics": metrics, "identity": f"{group}-{seed}"}
            (run / "result.json").write_text(json.dumps(result, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", help="a result.json to copy")
    template = json.loads(Path(parser.parse_args().result).read_text())
    template["hparams"] = {key: value for key, value in template["hparams"].items() if "seed" not in key}
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), template)
        start = time.perf_counter()
        from gnn_depth.reports import load
        from gnn_depth.reports.table import tabulate

        imported = time.perf_counter()
        frame = load(name)
        loaded = time.perf_counter()
        table = tabulate(frame, "depth", "width")
        done = time.perf_counter()
    assert sum(cell.n for _, _, cell in table.each()) == GROUPS * SEEDS
    seconds = {"import": imported - start, "load": loaded - imported, "tabulate": done - loaded}
    print(json.dumps({key: round(value, 2) for key, value in seconds.items()}))


if __name__ == "__main__":
    main()
