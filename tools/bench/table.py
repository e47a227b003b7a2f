"""The measurements as a Markdown table."""

from collections.abc import Sequence
from typing import Any

HEADER = ("case", "data, malloc", "path", "peer ms", "ours ms", "ours/peer", "GB")
DETAILS = (
    "case",
    "malloc",
    "rounds",
    "fastest peer ms",
    "ours/it",
    "default ms",
    "default/it",
    "default/compiled",
    "first step s",
    "GB with it",
    "difference",
)
LEGEND = """\
One training step (zero_grad, forward, cross-entropy, backward, Adam), float32, 2 threads, full
batch; peer: PyTorch Geometric with torch's default Adam, ours with its fused one, as trained by
default. ours/peer: median over interleaved rounds of the ratio within the round (smallest -
largest); ~ where other processes ran in every round. fastest peer: of PyTorch Geometric as it
is, under torch.compile, and for GCNs a product with a torch.sparse CSR matrix. tuned: glibc
keeps freed pages (MALLOC_MMAP_THRESHOLD_=1 GiB), for both. GB: peer -> ours, the peak above
imports and data over 3 warm steps, default malloc, fresh processes; + where it has to include
the first one. default: ours as a default run takes it, uncompiled, on native kernels. first
step: ours, with compiling. difference: of both sides' scores, over the largest score."""

Row = dict[str, Any]


def render(rows: Sequence[Row]) -> str:
    """Table, details, failures and legend."""
    measured = []
    failed = []
    for row in rows:
        if "error" in row:
            failed.append(f"FAILED {row['case']} ({row['malloc']} malloc): {row['error']}")
            continue
        measured.append(row)
        if row.get("failure"):
            failed.append(f"{row['case']} was not compiled: {row['failure']}")
    parts = [*failed, LEGEND]
    if measured:
        first = markdown([HEADER, *map(cells, measured)])
        parts = [first, markdown([DETAILS, *map(details, measured)]), *parts]
    return "\n\n".join(parts)


def summary(row: Row) -> str:
    """What was measured, in a line, or what went wrong."""
    if "error" in row:
        return f"  failed: {row['error']}"
    times = " : ".join(f"{number(row[side] * 1e3)} ms" for side in ("ours", "peer"))
    return f"  {times} = {row['ratio']:.3f} ({_short(row['low'])}-{_short(row['high'])})"


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    data = row["origin"]
    if row["malloc"] == "tuned":
        data += " tuned"
    ratio = f"{row['ratio']:.3f} ({_short(row['low'])}-{_short(row['high'])})"
    if row["noisy"]:
        ratio = f"~{ratio}"
    peer, ours = number(row["peer"] * 1e3), number(row["ours"] * 1e3)
    return (row["case"], data, row["path"], peer, ours, ratio, peaks(row.get("memory")))


def details(row: Row) -> tuple[str, ...]:
    """What explains a line of the table."""
    memory = row.get("memory")
    return (
        row["case"],
        row["malloc"],
        str(row["rounds"]),
        f"{number(row['fastest']['peer'] * 1e3)} {row['fastest']['name']}",
        _short(row["fastest"]["ratio"]),
        number(row["default"]["ours"] * 1e3),
        _short(row["default"]["ratio"]),
        _short(row["default_and_compiled"]["ratio"]),
        f"{row['first_step_s']:.1f}",
        f"{memory['ours']['first'] / 1e9:.2f}" if memory else "-",
        f"{row['difference']:.0e}",
    )


def peaks(memory: Row | None) -> str:
    """Peak memory of both sides."""
    if memory is None:
        return "-"
    peer, ours = (memory[side]["steps"] / 1e9 for side in ("peer", "ours"))
    mark = "" if memory["ours"]["reset"] and memory["peer"]["reset"] else "+"
    return f"{peer:.2f} -> {ours:.2f}{mark}"


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value < 10:
        return f"{value:.2f}"
    if value < 100:
        return f"{value:.1f}"
    return f"{value:.0f}"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first of which is the header, padded to equal widths."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = []
    for line in lines:
        padded.append(f"| {' | '.join(map(str.ljust, line, widths))} |")
    rules = ["-" * (width + 2) for width in widths]
    padded.insert(1, f"|{'|'.join(rules)}|")
    return "\n".join(padded)
