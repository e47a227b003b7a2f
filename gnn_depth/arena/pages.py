"""The pages of the arena: ``arena.md`` with its tables and pictures, written from the records."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from gnn_depth.arena.definition import Arena
from gnn_depth.arena.pictures import draw_depths, draw_ranks
from gnn_depth.arena.results import (
    DEEP,
    FEWEST,
    SETTLED,
    SHALLOW,
    SKIP_AND_NORM,
    ArenaCell,
    DepthAnswer,
    Family,
    Results,
)
from gnn_depth.arena.statistics import half_width

NOT_ENOUGH = "Not enough trainings yet."
MADE = (
    "<!-- Written by `gnn-depth arena --pages FOLDER` from the records: do not edit. "
    "The words are in gnn_depth/arena/{}.py. -->"
)


def write_arena(results: Results, folder: Path) -> Path:
    """Write ``arena.md`` and its pictures into a folder of documentation."""
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    shown = []
    if results.cells:
        draw_depths(results, pictures / "arena_depths.png")
        shown.append("![Test metric against the number of layers](pictures/arena_depths.png)")
    ranks = results.ranks(DEEP)
    if ranks is not None:
        draw_ranks(ranks, pictures / "arena_ranks.png")
    sections = [
        MADE.format("pages"),
        "# The arena",
        _introduction(results),
        "## The questions",
        *_depth_question(results),
        *_group_question(results),
        *_sufficiency_question(results),
        "## Accuracy against depth",
        *shown,
        *_tables(results),
        "## What was compared",
        *_definition(results.arena),
    ]
    path = folder / "arena.md"
    path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path


def terminal_summary(results: Results) -> str:
    """The answers and the tables as plain text."""
    sections = [
        *_depth_question(results),
        *_group_question(results),
        *_sufficiency_question(results),
        *_tables(results),
    ]
    return "\n\n".join(sections)


def _introduction(results: Results) -> str:
    arena = results.arena
    finals = sum(len(cell.records) for cell in results.cells.values())
    cells = 0
    for remedy in arena.remedies:
        trained = [name for name in arena.sets if arena.takes(remedy, name)]
        cells += len(trained) * len(arena.depths)
        if arena.deepest is not None:
            cells += len(set(trained) & set(arena.deepest_sets))
    unfinished = cells - len(results.cells)
    state = f"All {cells} cells have trainings"
    if unfinished:
        state = f"The arena is not complete: {len(results.cells)} of {cells} cells have trainings"
    missing = [name for name in arena.sets if name not in results.sets]
    if missing:
        state += f", none on {', '.join(missing)}"
    counts = sorted({len(cell.records) for cell in results.cells.values()})
    words = " or ".join(map(str, counts)) or "0"
    return (
        f"{len(arena.remedies)} remedies for depth, each with its own tuning of equal cost, on "
        f"{len(arena.sets)} data sets. {state}; a cell is a remedy with a number of layers on a "
        f"set, and has {words} splits of {arena.portions[-1]}. This page is made from "
        f"{len(results.records):,} records, {finals:,} of them of final trainings.\n\n"
        "```bash\n"
        "gnn-depth arena --help\n"
        "```\n\n"
        "<!-- not run: hours -->\n"
        "```bash\n"
        "OMP_NUM_THREADS=1 gnn-depth arena --run       # what is missing; stop and go on at will\n"
        "gnn-depth arena --pages docs                  # this page and the court\n"
        "gnn-depth arena --verify 10                   # train ten random records again\n"
        "gnn-depth arena --add my_norm.py --sets cora  # your own part, placed among the others\n"
        "```"
    )


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _with_interval(values: Sequence[float]) -> str:
    """A mean with its 95% interval, in percent."""
    text = _percent(float(np.mean(values)))
    width = half_width(values)
    return text if math.isnan(width) else f"{text} ± {_percent(width)}"


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _depth_question(results: Results) -> list[str]:
    """Is there a real set on which 32 layers beat 8 or fewer?"""
    arena = results.arena
    real = [name for name in results.sets if not arena.sets[name].is_redrawn]
    made = [name for name in results.sets if arena.sets[name].is_redrawn]
    text = [
        f"### Do {DEEP} layers beat the best of {SHALLOW} or fewer?",
        f"One comparison a set: the settled cell of {DEEP} layers with the best validation metric "
        f"against that of {SHALLOW} layers or fewer. The test is the corrected resampled t-test "
        "over the splits both have, with Holm's correction over the sets.",
    ]
    for words, names in (("real", real), ("constructed", made)):
        answers = results.depth_answers(names)
        if not answers:
            text.append(f"On the {words} sets: {NOT_ENOUGH[0].lower()}{NOT_ENOUGH[1:]}")
            continue
        better = [one for one in answers if one.adjusted <= 0.05 and one.test.difference > 0]
        worse = [one for one in answers if one.adjusted <= 0.05 and one.test.difference < 0]
        verdict = f"no, on none of the {len(answers)} with enough trainings"
        if len(answers) == 1:
            verdict = "no, not on the only one with enough trainings"
        if better:
            verdict = f"yes, on {', '.join(one.set for one in better)}"
        if worse:
            verdict += f"; they are worse on {', '.join(one.set for one in worse)}"
        text.append(f"On the {words} sets: {verdict}.")
        text.append(_answers_table(answers))
    return text


def _answers_table(answers: Sequence[DepthAnswer]) -> str:
    rows = [
        f"| set | {DEEP} layers | {SHALLOW} or fewer | difference | p | Holm | splits |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in answers:
        deep, shallow = one.deep, one.shallow
        rows.append(
            f"| {one.set} | {deep.remedy} {_percent(deep.mean)} | {shallow.remedy}, "
            f"{shallow.depth} layers, {_percent(shallow.mean)} | "
            f"{100 * one.test.difference:+.1f} | {_probability(one.test.p)} | "
            f"{_probability(one.adjusted)} | {one.test.count} |"
        )
    return "\n".join(rows)


def _group_question(results: Results) -> list[str]:
    """Which remedies cannot be told apart?"""
    text = [
        "### Which remedies cannot be told apart?",
        f"Over the sets, at {DEEP} layers: Friedman's test on the ranks of mean test metrics, and "
        "Nemenyi's critical difference. On each set: every remedy against the one with the best "
        "validation metric, Holm's correction over them.",
    ]
    ranks = results.ranks(DEEP)
    if ranks is None:
        text.append(
            f"Over the sets: {NOT_ENOUGH[0].lower()}{NOT_ENOUGH[1:]} It takes {FEWEST} sets on "
            "which the same three remedies are ranked."
        )
    else:
        text.append("![Mean ranks and critical difference](pictures/arena_ranks.png)")
        groups = []
        for group in ranks.groups:
            groups.append(f"{group[0]} to {group[-1]} ({len(group)})")
        shown = "; ".join(groups) or "none: all can be told apart"
        text.append(
            f"Over {ranks.sets} sets, Friedman p = {ranks.p:.2g}; mean ranks nearer than "
            f"{ranks.critical:.2f} cannot be told apart. In the order of the picture the largest "
            f"groups are: {shown}."
        )
    rows = []
    for name in results.sets:
        family = results.against_best(name, DEEP)
        if family is not None:
            rows.append(_family_row(name, family))
    if rows:
        text.append(
            "\n".join(
                [
                    f"| set, {DEEP} layers | reference | cannot be told apart from it | of | "
                    "splits |",
                    "|---|---|---|---|---|",
                    *rows,
                ]
            )
        )
    else:
        text.append(f"On single sets: {NOT_ENOUGH[0].lower()}{NOT_ENOUGH[1:]}")
    return text


def _family_row(name: str, family: Family) -> str:
    alike = [one.cell.remedy for one in family.others if not one.is_different]
    return (
        f"| {name} | {family.reference.remedy} | {', '.join(alike) or 'none'} | "
        f"{len(family.others)} | {family.splits} |"
    )


def _sufficiency_question(results: Results) -> list[str]:
    """Do a skip and a norm suffice, and is the rest trainability?"""
    text = [
        '### Is "skip and norm suffice, the rest is trainability" right here?',
        f"The claim of arXiv 2506.04653, in two parts. At {DEEP} layers every other remedy is "
        f"compared with the best of {', '.join(SKIP_AND_NORM)} by validation metric, with Holm's "
        "correction on each set. And: do cells that fail on the test rows fail on the training "
        "rows too?",
    ]
    rows, better_anywhere = [], []
    for name in results.sets:
        family = results.against_skip_and_norm(name, DEEP)
        if family is None:
            continue
        better = []
        worse = 0
        for one in family.others:
            if one.is_different and one.test.difference > 0:
                better.append(one.cell.remedy)
            worse += one.is_different and one.test.difference < 0
        if better:
            better_anywhere.append(name)
        rows.append(
            f"| {name} | {family.reference.remedy} {_percent(family.reference.mean)} | "
            f"{', '.join(better) or 'none'} | {worse} | {len(family.others)} |"
        )
    if not rows:
        text.append(NOT_ENOUGH)
    else:
        verdict = "No remedy is better than a skip with a norm on any set with enough trainings."
        if better_anywhere:
            verdict = (
                "Not everywhere: some remedy is better than a skip with a norm on "
                f"{', '.join(better_anywhere)}."
            )
        text.append(verdict)
        head = f"| set, {DEEP} layers | skip and norm | better | worse | of |"
        text.append("\n".join([head, "|---|---|---|---|---|", *rows]))
    failed, untrained = results.failures(DEEP)
    if failed:
        text.append(
            f"Of the cells of {DEEP} layers, {len(failed)} are no better than a constant "
            f"prediction on the test rows; {len(untrained)} of these are no better on the training "
            "rows either."
        )
    return text


def _tables(results: Results) -> list[str]:
    """A table for each set."""
    text = [
        "Test metric in percent (accuracy; area under the ROC curve where a set has two classes), "
        "mean and 95% interval over the splits, at the epoch with the best validation metric. "
        "In brackets the rank among the settled cells of this number of layers, over the splits "
        "that all of them have. † not settled, so not ranked: fewer than "
        f"{SETTLED:.0%} of the trainings ended because the validation metric had stopped rising. "
        "Seconds of processor time (one thread) of a whole training; MB that a step keeps for its "
        "backward pass. One training on a single split has no interval."
    ]
    for name in results.sets:
        depths = results.depths(name)
        ranked = {depth: results.ranked(name, depth) for depth in depths}
        text.append(f"### {name}")
        head = [f"{depth} layers" for depth in depths]
        deepest = depths[-1]
        rows = [
            f"| remedy | {' | '.join(head)} | seconds, {deepest} | MB, {deepest} |",
            f"|---|{'---|' * (len(depths) + 2)}",
        ]
        for remedy in _ordered(results, name, depths):
            entries = []
            for depth in depths:
                cell = results.cells.get((name, remedy, depth))
                entries.append(_entry(cell, ranked[depth]))
            cell = results.cells.get((name, remedy, deepest))
            cost = "|  |  |"
            if cell is not None and not cell.failed:
                cost = f"| {cell.seconds:.3g} | {cell.bytes / 1e6:.3g} |"
            rows.append(f"| {remedy} | {' | '.join(entries)} {cost}")
        text.append("\n".join(rows))
        by_reason: dict[str, list[str]] = {}
        for remedy, reasons in results.arena.left_out.items():
            if name in reasons:
                by_reason.setdefault(reasons[name], []).append(remedy)
        for reason, out in by_reason.items():
            text.append(f"Left out {reason}: {', '.join(out)}.")
    return text


def _ordered(results: Results, name: str, depths: Sequence[int]) -> list[str]:
    """The remedies with cells of a set, the best at any depth by validation metric first."""
    best: dict[str, float] = {}
    for depth in depths:
        for remedy in results.arena.remedies:
            cell = results.cells.get((name, remedy, depth))
            if cell is not None:
                best[remedy] = max(best.get(remedy, -math.inf), cell.validation)
    return sorted(best, key=lambda remedy: -best[remedy])


def _entry(cell: ArenaCell | None, ranked: Sequence[ArenaCell]) -> str:
    """A cell of the table."""
    if cell is None:
        return ""
    if cell.failed:
        return "cannot be trained"
    text = _with_interval(cell.scores())
    if cell.diverged:
        text += f", {cell.diverged} diverged"
    if cell in ranked:
        return f"{text} ({ranked.index(cell) + 1})"
    return f"{text} †"


def _definition(arena: Arena) -> list[str]:
    """Remedies, sets and budget."""
    rounds = []
    for step in arena.tuning:
        rounds.append(f"{step.settings} settings for {step.epochs} epochs")
    settings = []
    for number, one in enumerate(arena.settings):
        settings.append(f"| {number} | {one.lr:g} | {one.dropout:g} | {one.weight_decay:g} |")
    remedies = []
    for name, remedy in arena.remedies.items():
        options = remedy.options()
        if list(options) == ["model"]:  # as most have
            options = options["model"]
        text = yaml.safe_dump(options, default_flow_style=True, width=1000).strip()
        remedies.append(f"| {name} | `{text}` |")
    sets = []
    for name, data_set in arena.sets.items():
        text = yaml.safe_dump(dict(data_set.data), default_flow_style=True, width=1000).strip()
        splits = "drawn anew" if data_set.is_redrawn else "of one graph"
        sets.append(f"| {name} | `{text}` | {data_set.metric} | {splits} |")
    return [
        f"A remedy is options of the model beside its width, {arena.width}, its depth and the "
        "tuned options, or of the data or the trainer where these are named; the layer is a GCN "
        "where none is named. `depth_lr` and the transforms are controls: a smaller step size and "
        "another graph for the plain model. Tuning is the same for every "
        f"remedy, depth and set: {len(arena.settings)} settings drawn once from the search space "
        "(learning rate log-uniform from 0.0005 to 0.02; dropout 0, 0.2, 0.5 or 0.7; weight decay "
        "0, 5e-5, 5e-4 or 5e-3), then successive halving on the validation metric of split 0: "
        f"{', '.join(rounds)}. The best one is trained on every split for up to {arena.epochs} "
        f"epochs, validated every {arena.every}; it ends when {arena.patience} epochs brought "
        "nothing better. The seed is the number of the split.",
        "\n".join(["| remedy | options |", "|---|---|", *remedies]),
        "\n".join(["| set | data | metric | splits |", "|---|---|---|---|", *sets]),
        "\n".join(
            ["| setting | learning rate | dropout | weight decay |", "|---|---|---|---|", *settings]
        ),
    ]
