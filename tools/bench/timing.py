"""Interleaved samples of several calls, taken while the machine does nothing else, and what is made
of them."""

import gc
import math
import operator
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Call = Callable[[], object]

# Seconds at least: /proc/stat counts in hundredths, and a training's steps follow one another; the
# first ones after those of the other side find that side's tensors in the caches and its holes in
# the heap.
SAMPLE = 0.8
IDLE = 0.15  # cores that other processes may use
GLANCE = 0.08  # seconds of looking whether the machine is idle
TRIES = 4
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Sample:
    """Seconds of one call, and the cores that other processes used meanwhile."""

    seconds: float
    foreign: float

    @property
    def clean(self) -> bool:
        return self.foreign <= IDLE


@dataclass
class Patience:
    """The seconds that may yet be spent on waiting for an idle machine."""

    left: float = 40.0

    def wait(self) -> None:
        """Return once the machine is idle, or patience has run out."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.left:
            if watch(lambda: time.sleep(GLANCE)).clean:
                break
        self.left -= time.perf_counter() - begin


@dataclass
class Plan:
    """How much is measured.

    Attributes:
        rounds: Rounds at most.
        budget: Seconds that the rounds may take, unless the fewest take longer.
        patience: Seconds of waiting, samples taken again included.
    """

    rounds: int = 9
    budget: float = 30.0
    patience: Patience = field(default_factory=Patience)

    def count(self, spent: float, done: int) -> int:
        """How many rounds there are to be, when so many seconds have gone into those that are
        done."""
        fitting = int(self.budget / spent * done)
        return min(self.rounds, max(FEWEST_ROUNDS, fitting))


def watch(call: Call) -> Sample:
    """Time a call, and see what other processes used."""
    busy, own, begin = busy_seconds(), own_seconds(), time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    foreign = (busy_seconds() - busy) - (own_seconds() - own)
    return Sample(seconds, max(0.0, foreign / seconds))


def own_seconds() -> float:
    """Processor time of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def busy_seconds() -> float:
    """Processor time of all processes; 0 where the system does not say, which makes every machine
    look idle."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    return busy_ticks(line) / os.sysconf("SC_CLK_TCK")


def busy_ticks(line: str) -> int:
    """User, nice, system, irq and softirq of the first line of /proc/stat."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, line.split()[1:])
    return user + nice + system + irq + softirq


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    gc.collect()
    gc.freeze()  # what is there already is not looked at again
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def repeats(call: Call) -> int:
    """How many calls make a sample; slow calls are not tried a second time."""
    seconds = watch(call).seconds
    if seconds < SAMPLE:
        seconds = min(seconds, watch(call).seconds)
    return max(1, math.ceil(SAMPLE / seconds))


def sample(call: Call, count: int, patience: Patience) -> Sample:
    """The first clean sample of ``count`` calls, or the last one once patience or the tries have
    run out."""

    def calls() -> None:
        for _ in range(count):
            call()

    for _ in range(TRIES):
        patience.wait()
        with quiet_collector():
            taken = watch(calls)
        if taken.clean or patience.left < taken.seconds:
            break
        patience.left -= taken.seconds
    return Sample(taken.seconds / count, taken.foreign)


def several(call: Call, samples: int) -> list[float]:
    """Seconds of a call in some samples. The first call, which may compile, is in none of them."""
    call()
    patience, count = Patience(), repeats(call)
    return [sample(call, count, patience).seconds for _ in range(samples)]


def interleave(sides: Mapping[str, Call], plan: Plan) -> list[dict[str, Sample]]:
    """Rounds of one sample of every side, in alternating order. The sides must be warm."""
    counts = {name: repeats(call) for name, call in sides.items()}
    begin, wanted = time.perf_counter(), plan.rounds
    rounds: list[dict[str, Sample]] = []
    while len(rounds) < wanted:
        order = list(sides)
        if len(rounds) % 2 == 1:  # no side always comes after the same other one
            order.reverse()
        rounds.append({name: sample(sides[name], counts[name], plan.patience) for name in order})
        wanted = plan.count(time.perf_counter() - begin, len(rounds))
    return rounds


@dataclass(frozen=True)
class Pair:
    """Two sides over all rounds.

    Attributes:
        peer, ours: Median seconds of a call.
        ratio: Median over the rounds of ours / peer of the same round.
        low, high: The smallest and the largest of those ratios.
        rounds: How many rounds these are.
        noisy: Whether no round was free of other processes, so that the noisy ones had to do.
    """

    peer: float
    ours: float
    ratio: float
    low: float
    high: float
    rounds: int
    noisy: bool


def compare(rounds: Sequence[Mapping[str, Sample]], side: str = "peer", ours: str = "ours") -> Pair:
    """Compare one of our sides with a peer over the rounds in which all samples are clean, or all
    rounds if none is so."""
    clean = [one for one in rounds if all(sample.clean for sample in one.values())]
    used = clean or rounds
    theirs = [one[side].seconds for one in used]
    mine = [one[ours].seconds for one in used]
    ratios = list(map(operator.truediv, mine, theirs))
    return Pair(
        peer=statistics.median(theirs),
        ours=statistics.median(mine),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        rounds=len(used),
        noisy=not clean,
    )
