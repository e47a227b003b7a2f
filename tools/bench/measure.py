"""One measurement in a process of its own: ``time`` of a case, or ``memory`` of one side of it; prints JSON."""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

import lightning  # noqa: F401  (both sides have imported the same when memory is counted)
import torch
import torch_geometric  # noqa: F401

from tools.bench import graphs, memory, sides, timing
from tools.bench.cases import CASES, Case
from tools.bench.floors import Sizes, floor
from tools.bench.rates import Rates
from tools.bench.statistics import compare


def time_case(case: Case, data: graphs.Data, compiling: sides.Compile, plan: timing.Plan) -> dict[str, Any]:
    """Both sides in this process: warm up, check that they are the same model, interleave, find the floor."""
    ours = sides.ours(case, data, compiling)
    peer = sides.peer(case, data, data.graph.edge_index)
    first = _seconds(ours)
    peer()
    sides.share_weights(ours.model, peer.model)
    difference = sides.check_equal(ours.scores(), peer.scores())
    pair = compare(timing.interleave({"peer": peer, "ours": ours}, plan))
    least = floor(case, sizes(data), Rates(plan.patience))
    return {
        "origin": data.origin,
        "path": ours.path,
        "failure": ours.failure,
        "first_step_s": first,
        "difference": difference,
        **asdict(pair),
        "floor": least.seconds,
        "floor_parts": asdict(least),
    }


def peak_of_side(case: Case, data: graphs.Data, compiling: sides.Compile, side: str) -> dict[str, Any]:
    """The peak of one side above the imports and the data."""
    if side == "peer":
        return asdict(memory.peak_of(partial(sides.peer, case, data, data.graph.edge_index)))
    if sides.compiles(compiling):
        import_module("torch._inductor.compile_fx")
    return asdict(memory.peak_of(partial(sides.ours, case, data, compiling)))


def sizes(data: graphs.Data) -> Sizes:
    """What the floor needs to know of the graph."""
    edges = int((data.graph.source != data.graph.target).sum()) + data.graph.num_nodes
    return Sizes(data.graph.num_nodes, edges, data.x.shape[1], int(data.x.count_nonzero()), data.classes)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["time", "ours", "peer"], help="time, or the memory of a side")
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--data")
    parser.add_argument("--compile", default="auto", choices=["auto", "on", "off"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument("--tuned", action="store_true", help="fail unless the tuned malloc is at work")
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    if given.tuned and not memory.keeps_freed_pages():
        raise SystemExit("this C library does not heed MALLOC_MMAP_THRESHOLD_: use --malloc default.")
    case, data = CASES[given.case], graphs.load(CASES[given.case].data, given.data)
    if given.what == "time":
        found = time_case(case, data, given.compile, timing.Plan(given.rounds, given.budget))
    else:
        found = peak_of_side(case, data, given.compile, given.what)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
