"""What axes and captions say."""

import re
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from gnn_depth.reports.figures.charts import Axis
from gnn_depth.reports.sheets import is_percent
from gnn_depth.runs import RESULTS

WORDS = {"acc": "accuracy", "val": "validation", "f1": "F1", "auroc": "AUROC", "lr": "learning rate"}
LISTED = 10  # folders that a hover text names


def metric_label(name: str) -> str:
    """``test accuracy at best validation, %`` of ``test_acc_at_best_val``."""
    said = " ".join(WORDS.get(word, word) for word in re.split("[_/]", name))
    return said + (", %" if is_percent(name) else "")


def metric_axis(name: str, log: bool = False) -> Axis:
    """The axis of a metric, which for a fraction goes from 0 to 100% and a little further for the markers."""
    return Axis(metric_label(name), log=log, within=(-2.0, 102.0) if is_percent(name) else None)


def plural(count: int, what: str = "run") -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def scale(name: str) -> float:
    """What values of a metric are multiplied by to be drawn: fractions are shown in percent."""
    return 100.0 if is_percent(name) else 1.0


def span(counts: Iterable[int]) -> str:
    """``3``, or ``3 to 5``."""
    found = sorted(set(counts)) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def count_of(counts: Iterable[int]) -> str:
    """``n = 3 to 5``, which is not broken over two lines."""
    return f"n = {span(counts)}".replace(" ", "\N{NO-BREAK SPACE}")


def tally(frame: pd.DataFrame) -> str:
    """How many runs diverged, and how many are left out because they came to no result: sentences, or nothing."""
    counts = Counter(frame["status"])
    results = sum(counts[status] for status in RESULTS)
    said = f"{counts['diverged']} of {plural(results)} diverged." if counts["diverged"] else ""
    out = {status: count for status, count in counts.items() if status not in RESULTS}
    return sentences(said, f"Left out: {counted(out)}." if out else "")


def counted(counts: dict[str, int]) -> str:
    """``2 failed, 1 running``."""
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def listed(folders: Iterable[str]) -> str:
    """Folders, one a line, and how many more there are."""
    known = list(folders)
    more = [f"and {len(known) - LISTED} more"] if len(known) > LISTED else []
    return "\n".join([*known[:LISTED], *more])


def sentences(*said: str) -> str:
    """Those that say anything, with spaces between."""
    return " ".join(filter(None, said))
