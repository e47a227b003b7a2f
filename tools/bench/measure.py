"""One measurement in a process of its own: ``time`` of a case, or ``memory`` of one side of it;
prints JSON."""

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

from gnn_depth.nn import native
from tools.bench import graphs, memory, sides, timing
from tools.bench.cases import CASES, Case


def time_case(
    case: Case, data: graphs.Data, compiling: sides.Compile, plan: timing.Plan
) -> dict[str, Any]:
    """All sides in this process: warm up, check that they are the same model, interleave."""
    ours, default = sides.ours(case, data, compiling), sides.ours(case, data, "off")
    others = {kind: sides.peer(case, data, kind) for kind in case.peers}
    # Compiling belongs to the first step, and is told apart from the others.
    first, first_of_default = _seconds(ours), _seconds(default)
    # Their first steps drew other dropout masks, so their weights differ.
    default.model.load_state_dict(ours.model.state_dict())
    difference = sides.check_equal(ours.scores(), default.scores())
    for kind, peer in others.items():
        peer()  # which fills its caches, as ours have been
        sides.share_weights(ours.model, peer.model)
        difference = max(difference, sides.check_equal(ours.scores(), peer.scores()))
        if kind == "compiled":
            peer.model.compile()
            peer()
    rounds = timing.interleave({**others, "ours": ours, "default": default}, plan)
    pairs = {kind: timing.compare(rounds, kind) for kind in others}
    fastest = min(pairs, key=lambda kind: pairs[kind].peer)
    return {
        "origin": data.origin,
        "path": ours.path,
        "failure": ours.failure,
        "first_step_s": first,
        "difference": difference,
        **asdict(pairs["peer"]),
        "peers": {kind: pair.peer for kind, pair in pairs.items()},
        "fastest": {"name": fastest, **asdict(pairs[fastest])},
        "kernels": native.available(),
        "default_first_step_s": first_of_default,
        "default": asdict(timing.compare(rounds, fastest, "default")),
        "default_and_pyg": asdict(timing.compare(rounds, "peer", "default")),
        "default_and_compiled": asdict(timing.compare(rounds, "ours", "default")),
    }


def peak_of_side(
    case: Case, data: graphs.Data, compiling: sides.Compile, side: str
) -> dict[str, Any]:
    """The peak of one side above the imports and the data."""
    if side == "peer":
        data.peers()  # what it reads is data, and not counted
        return asdict(memory.peak_of(partial(sides.peer, case, data)))
    if compiling == "on":
        import_module("torch._inductor.compile_fx")
    return asdict(memory.peak_of(partial(sides.ours, case, data, compiling)))


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", choices=["time", "ours", "peer"], help="time, or the memory of a side"
    )
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--data")
    parser.add_argument("--compile", default="on", choices=["on", "off"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument(
        "--tuned", action="store_true", help="fail unless the tuned malloc is at work"
    )
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    if given.tuned and not memory.keeps_freed_pages():
        raise SystemExit(
            "this C library does not heed MALLOC_MMAP_THRESHOLD_: use --malloc default."
        )
    case, data = CASES[given.case], graphs.load(CASES[given.case].data, given.data)
    if given.what == "time":
        found = time_case(case, data, given.compile, timing.Plan(given.rounds, given.budget))
    else:
        found = peak_of_side(case, data, given.compile, given.what)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
