"""The pages of the arena: ``arena.md`` with its tables and pictures, written from the records."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gnn_depth import registry
from gnn_depth.arena.definition import Arena, DataSet
from gnn_depth.arena.pictures import draw_depths, draw_ranks
from gnn_depth.arena.results import (
    DEEP,
    FEWEST,
    LEARNT,
    SETTLED,
    SHALLOW,
    SKIP_AND_NORM,
    ArenaCell,
    BestCell,
    Compared,
    Failures,
    Family,
    Results,
)
from gnn_depth.arena.statistics import LEVEL
from gnn_depth.data.long_range import transfer_edges
from gnn_depth.training.summary import NEAR_CHANCE

NOT_ENOUGH = "Not enough trainings yet."
MADE = (
    "<!-- Written by `gnn-depth arena --pages FOLDER` from the records: do not edit. "
    "The words are in gnn_depth/arena/{}.py. -->"
)
#: The sets in words, with options of their data in braces: what they are, and why they are there.
SETS_IN_WORDS = {
    "cora": "2,708 papers that cite each other: classify a paper by its words and citations. "
    "Most remedies were published with results on it.",
    "transfer": "{num_graphs:,} {shapes}, {nodes} nodes each: one node must learn which of "
    "{num_classes} classes another node has, {distance} edges away. Fewer layers cannot see it, if "
    "each reaches one edge and no norm is over whole graphs, as `pair` is.",
    "transfer_crossed": "{num_graphs:,} {shapes}, {nodes} nodes each: the same task over "
    "{distance} edges, where nodes have more neighbours whose features are noise.",
    "eccentricity": "A planar graph of {num_nodes:,} random points: predict how far the "
    "shortest paths within {hops} edges of a node lead (its eccentricity), as one of "
    "{num_classes} classes. A network needs {hops} layers to see all of it, if each reaches one "
    "edge.",
    "cora_cold": "Cora's 2,708 papers without the words of all papers outside the "
    "training set: features must come from training nodes, however far away.",
    "squirrel_filtered": "2,223 Wikipedia pages that link to each other, without duplicates: "
    "classify a page by its traffic. Neighbours mostly have different classes.",
    "minesweeper": "A grid of 10,000 cells, a fifth of them mines: find the mines. The best "
    "published GCN has 12 to 15 layers.",
    "photo": "7,650 products, joined if they are bought together: classify a product by its "
    "reviews. The best published GCN has 6 layers.",
    "citation_small": "A generated citation graph of {num_nodes:,} nodes.",
    "sbm_small": "A contextual stochastic block model of {num_nodes:,} nodes, whose neighbours "
    "mostly have the other class.",
    "mines_small": "A Minesweeper grid of {rows} x {columns} cells.",
    "transfer_small": "{num_graphs:,} {shapes}, {nodes} nodes each: transfer over {distance} "
    "edges, with {num_classes} classes.",
    "eccentricity_small": "Eccentricity on {num_nodes:,} points, within {hops} edges, with "
    "{num_classes} classes.",
}
SHAPES = {"line": "lines", "ring": "rings", "crossed_ring": "rings with crossing edges"}


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
        *_in_short(results),
        "## The questions",
        *_terms(results),
        *_depth_question(results),
        *_group_question(results),
        *_sufficiency_question(results),
        "## Test score against depth",
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
        *_in_short(results),
        "## The questions",
        *_terms(results),
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
    compared = sum(_is_compared(arena, remedy) for remedy in arena.remedies)
    splits = _span(len(cell.records) for cell in results.cells.values())
    planned = f"{arena.portions[-1]} splits"
    if arena.deepest is not None:
        planned += f" ({arena.portions[0]} of those with {arena.deepest} layers)"
    left_out = [name for name in arena.remedies if not _is_compared(arena, name)]
    without = ""
    if left_out:
        without = f" ({_listed(left_out)} would be too slow on every set)"
    return (
        f"We compare {compared} remedies{without}; each gets the same tuning budget. "
        "[Remedies](howto/remedies.md) says what each of them does and where it comes from; how "
        "they are written here is [below](#the-remedies). A cell is one remedy "
        f"at one depth on one data set, trained on {splits} of the planned {planned}. "
        f"There are {len(arena.sets)} [data sets](#the-sets). {state}. This page is made from "
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


def _is_compared(arena: Arena, remedy: str) -> bool:
    """True if a remedy is trained on a set."""
    return any(arena.takes(remedy, name) for name in arena.sets)


def _in_short(results: Results) -> list[str]:
    """The answers in a few lines; nothing as long as there is none."""
    questions = {
        f"Do {DEEP} layers beat the best of {SHALLOW} or fewer?": results.depth_answers,
        f"Is another remedy with {DEEP} layers better than the best skip with a norm?": (
            results.sufficiency_answers
        ),
    }
    lines = []
    for question, answers_of in questions.items():
        answers = []
        for words, compared in _planned_families(results, answers_of):
            if compared:
                answers.append(f"On {_family_of(words, compared)}: {_verdict_in_short(compared)}.")
        if answers:
            lines.append(f"- {question} {' '.join(answers)}")
    ranks = results.ranks(DEEP)
    if ranks is not None:
        largest = max((len(group) for group in ranks.groups), default=1)
        best = _listed([f"`{name}`" for name in ranks.names[:5]])
        lines.append(
            f"- Which remedies are best? Over {ranks.sets} sets with {DEEP} layers {best} have the "
            f"best mean ranks. The test separates little: {largest} of {len(ranks.names)} remedies "
            "form a group in which no two can be told apart."
        )
    return ["## In short", "\n".join(lines)] if lines else []


def _verdict_in_short(compared: Sequence[Compared]) -> str:
    """The sets on which the first cell is better or worse, or what could have been found."""
    better, worse = _better_and_worse(compared)
    said = []
    if better:
        said.append(f"yes on {_listed(better)}")
    if worse:
        said.append(f"worse on {_listed(worse)}")
    if said:
        return ", ".join(said)
    limits = [one.detectable for one in compared if not math.isnan(one.detectable)]
    if not limits:
        return "no difference found"
    low, high = (_point(100 * limit) for limit in (min(limits), max(limits)))
    size = low if low == high else f"{low} to {high}"
    return f"no difference found (it would have taken {size} points)"


def _better_and_worse(compared: Sequence[Compared]) -> tuple[list[str], list[str]]:
    """The sets on which the first cell is better, and those on which it is worse."""
    better = [one.cell.set for one in compared if one.is_better]
    worse = [one.cell.set for one in compared if one.is_worse]
    return better, worse


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _span(values: Iterable[int]) -> str:
    """``3``, or ``3 to 10``."""
    known = sorted(set(values))
    if not known:
        return "0"
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def probability(p: float) -> str:
    """A p-value for a table."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _points(values: Iterable[float]) -> str:
    """The median and range of differences, in points."""
    points = sorted(100 * value for value in values if not math.isnan(value))
    if not points:
        return ""
    low, middle, high = map(_point, (points[0], float(np.median(points)), points[-1]))
    return middle if low == high else f"{middle} ({low} to {high})"


def _point(value: float) -> str:
    """The smallest difference in points that could be found, which is none if it is above 100."""
    return f"{value:.1f}" if value <= 100 else "none"


def _none_found(compared: Sequence[Compared]) -> str:
    """The answer to a question of which no comparison found anything."""
    limits = [one.detectable for one in compared if not math.isnan(one.detectable)]
    splits = _span(one.test.count for one in compared)
    if not limits:
        return "none found"
    limit = _points(limits)
    found = f"none found; with {splits} splits"
    if len(limits) == 1:
        return f"{found} no difference below {limit} points could be found"
    return (
        f"{found} a comparison could find differences from {limit} points on, in the first step of "
        "Holm's correction"
    )


def _terms(results: Results) -> list[str]:
    """The terms that all questions use, and the sets that answer none."""
    text = [
        f"A cell is *settled* if at least {SETTLED:.0%} of its trainings ended because "
        f"{results.arena.patience} epochs had brought no better validation score; other cells are "
        "neither chosen nor ranked. Two cells are compared by the corrected resampled t-test "
        "(Nadeau & Bengio 2003) over the splits that both have: trainings on splits of one graph "
        "share training nodes, and count for less than as many independent ones. Holm's "
        "correction is over a family of comparisons, which each question names.",
        "A few splits cannot decide much. *Detectable* is the smallest difference that a "
        f"comparison could have found: two-sided, at level {LEVEL} divided by the number of "
        "comparisons in its family, as in the first step of Holm's correction. Of several "
        "comparisons it is the median, with the range in brackets; *none* where no difference "
        "could have been found. Finding no difference does not prove that there is none.",
    ]
    for name, best in results.silent.items():
        text.append(
            nothing_learns(name, best, "the ranks, the questions and [the court](court.md)")
        )
    return text


def nothing_learns(name: str, best: BestCell, answers: str) -> str:
    """Why a set is left out of answers."""
    return (
        f"**{name}** is left out of {answers}: nothing learns there. Its best cell, {best.remedy} "
        f"with {best.depth} layers, scores {_percent(best.score)}; a constant prediction scores "
        f"{_percent(best.chance)}. It takes more than {100 * LEARNT:.0f} points to tell the two "
        "apart."
    )


def _planned_families(
    results: Results, answers_of: Callable[[Sequence[str]], list[Compared]]
) -> list[tuple[str, list[Compared]]]:
    """A planned comparison on the real sets, and on the constructed ones."""
    arena = results.arena
    real = [name for name in results.telling if not arena.sets[name].is_redrawn]
    made = [name for name in results.telling if arena.sets[name].is_redrawn]
    return [("real", answers_of(real)), ("constructed", answers_of(made))]


def _family_of(words: str, answers: Sequence[Compared]) -> str:
    """The sets of a family: how many of which kind, and their names."""
    sets = "set" if len(answers) == 1 else "sets"
    return f"{len(answers)} {words} {sets} ({_listed([one.cell.set for one in answers])})"


def _depth_question(results: Results) -> list[str]:
    """Is there a real set on which 32 layers beat 8 or fewer?"""
    arena = results.arena
    text = [
        f"### Do {DEEP} layers beat the best of {SHALLOW} or fewer?",
        f"For each set we take the best settled model with {DEEP} layers and the best with at most "
        f"{SHALLOW}, both chosen by validation score over the splits that all have, and compare "
        f"their test scores. These two are trained on all {arena.portions[-1]} splits before any "
        f"other cell gets more than {arena.portions[0]}. There are two families of Holm's "
        "correction: the real sets, and the constructed sets.",
    ]
    heads = (f"{DEEP} layers", f"{SHALLOW} or fewer")
    text += _planned_answers(results, results.depth_answers, heads)
    deepest, answers = arena.deepest, []
    if deepest is not None:
        answers = results.depth_answers(results.telling, deepest, deepest - 1)
    if answers:
        names = _listed([one.cell.set for one in answers])
        text += [
            f"**And {deepest} layers?** On {names}, the best settled model with {deepest} layers "
            "against the best with fewer, chosen and compared in the same way, over the few splits "
            f"of the deepest. One family: {_verdict(answers)}.",
            _answers_table(answers, (f"{deepest} layers", "fewer layers"), deepest),
        ]
    return text


def _planned_answers(
    results: Results,
    answers_of: Callable[[Sequence[str]], list[Compared]],
    heads: tuple[str, str],
) -> list[str]:
    """A planned comparison in words and a table, for each of its two families."""
    text = []
    for words, answers in _planned_families(results, answers_of):
        if not answers:
            text.append(f"{words.capitalize()} sets: {NOT_ENOUGH.lower()}")
            continue
        text.append(f"A family of {_family_of(words, answers)}: {_verdict(answers)}.")
        text.append(_answers_table(answers, heads, DEEP))
    return text


def _verdict(answers: Sequence[Compared]) -> str:
    """Where the first cell is better or worse, or what could have been found, in full."""
    better, worse = _better_and_worse(answers)
    verdict = f"yes, on {_listed(better)}" if better else _none_found(answers)
    if worse:
        verdict += f". It is worse on {_listed(worse)}"
    return verdict


def _answers_table(answers: Sequence[Compared], heads: tuple[str, str], stated: int | None) -> str:
    """A row for each comparison; the number of layers that a head states is not repeated."""
    rows = [
        f"| set | {heads[0]} | {heads[1]} | difference (points) | detectable (points) | "
        "p | p (Holm) | splits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in answers:
        mean, other = one.means
        rows.append(
            f"| {one.cell.set} | {_named(one.cell, mean, stated)} | "
            f"{_named(one.reference, other, stated)} | "
            f"{100 * one.test.difference:+.1f} | {_points([one.detectable])} | "
            f"{probability(one.test.p)} | {probability(one.adjusted)} | {one.test.count} |"
        )
    return "\n".join(rows)


def _named(cell: ArenaCell, mean: float, stated: int | None) -> str:
    """The remedy of a cell, its depth where it is not stated, and a mean."""
    depth = "" if cell.depth == stated else f", {cell.depth} layers,"
    return f"{cell.remedy}{depth} {_percent(mean)}"


def _group_question(results: Results) -> list[str]:
    """Which remedies cannot be told apart?"""
    text = [
        "### Which remedies cannot be told apart?",
        f"Over the sets, at {DEEP} layers: Friedman's test on the ranks of mean test scores, and "
        "Nemenyi's critical difference. A set with less than half as many ranked remedies as "
        "another one is left out. On each set: every settled remedy against the one with the "
        "best validation score. Each set is a family of Holm's correction.",
    ]
    ranks = results.ranks(DEEP)
    if ranks is None:
        text.append(
            f"Over the sets: {NOT_ENOUGH.lower()} It takes {FEWEST} sets on "
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
        means = [f"{name} {mean:.1f}" for name, mean in zip(ranks.names, ranks.ranks, strict=True)]
        text.append(f"Mean ranks: {', '.join(means)}.")
    text += _dropped(results)
    rows = []
    for name in results.sets:
        family = results.against_best(name, DEEP)
        if family is None:
            continue
        alike = [one.cell.remedy for one in family.others if not one.is_different]
        rows.append(
            f"| {name} | {family.reference.remedy} | {', '.join(alike) or 'none: all differ'} | "
            f"{len(family.others)} | {_points(one.detectable for one in family.others)} | "
            f"{family.splits} |"
        )
    if rows:
        head = (
            "| set | best by validation | cannot be told apart from it | compared | "
            "detectable (points) | splits |"
        )
        text.append("\n".join([head, "|---|---|---|---|---|---|", *rows]))
    else:
        text.append(f"On single sets: {NOT_ENOUGH.lower()}")
    return text


def _dropped(results: Results) -> list[str]:
    """The remedies that the comparison of ranks leaves out."""
    by_reason: dict[str, list[str]] = {}
    for remedy, reasons in results.dropped(DEEP).items():
        by_reason.setdefault("; ".join(reasons), []).append(remedy)
    if not by_reason:
        return []
    rows = [f"- {reason}: {', '.join(remedies)}" for reason, remedies in by_reason.items()]
    sets = _listed(results.ranked_sets(DEEP))
    return [
        f"Ranks compare only remedies that are ranked on every set ({sets}). Dropped are:",
        "\n".join(rows),
    ]


def _sufficiency_question(results: Results) -> list[str]:
    """Do a skip and a norm suffice, and is the rest trainability?"""
    text = [
        '### Is "skip and norm suffice, the rest is trainability" right here?',
        f"The claim of arXiv 2506.04653, in two parts. First: with {DEEP} layers, is the best "
        f"other settled remedy better than the best of {', '.join(SKIP_AND_NORM)}, both chosen by "
        "validation score? As above, these two get all their splits first, and there are two "
        "families. Second: do models that fail on the test nodes also fail on the training nodes?",
    ]
    heads = ("best other remedy", "skip and norm")
    text += _planned_answers(results, results.sufficiency_answers, heads)
    families: dict[str, Family] = {}
    better: dict[str, list[str]] = {}  # the remedies of each set that are, where there are any
    for name in results.sets:
        family = results.against_skip_and_norm(name, DEEP)
        if family is None or not family.others:
            continue
        families[name] = family
        remedies = [one.cell.remedy for one in family.others if one.is_better]
        if remedies:
            better[name] = remedies
    if not families:
        return text + _failures(results)
    text.append(
        "All other remedies against the same skip with a norm, each set a family of its own:"
    )
    if better:
        text.append(f"Some remedy is better than a skip with a norm on {_listed([*better])}.")
    else:
        compared = [one for family in families.values() for one in family.others]
        text.append(f"Better than a skip with a norm: {_none_found(compared)}.")
    rows = ["| set | skip and norm | better | worse | compared | detectable (points) | splits |"]
    rows.append("|---|---|---|---|---|---|---|")
    for name, family in families.items():
        worse = sum(one.is_worse for one in family.others)
        rows.append(
            f"| {name} | {family.reference.remedy} {_percent(family.reference.mean)} | "
            f"{', '.join(better.get(name, [])) or 'none found'} | {worse} | "
            f"{len(family.others)} | "
            f"{_points(one.detectable for one in family.others)} | {family.splits} |"
        )
    return [*text, "\n".join(rows), *_failures(results)]


def _failures(results: Results) -> list[str]:
    """Do models that fail on the test nodes also fail on the training nodes?"""
    asked = [results.failures(DEEP)]
    if results.arena.deepest is not None:
        asked.append(results.failures(results.arena.deepest))
    asked = [found for found in asked if found.cells]
    if not asked:
        return []
    exactly = (
        f"A cell fails on the test nodes if its mean score is at most {100 * NEAR_CHANCE:.0f} "
        "points above that of predicting the most frequent class of the test nodes. It fails on "
        f"the training nodes if its training score is at most {100 * LEARNT:.0f} points above that "
        "same number: the records do not hold the share of the class among the training nodes, "
        "which is nearly equal in a random split. The training score is that of the last epoch, "
        "with dropout."
    )
    unknown = [name for name in results.sets if any(name in found.unknown for found in asked)]
    if unknown:
        exactly += f" Cells of sets without a training score are not counted: {_listed(unknown)}."
    return [*map(_failed_in_words, asked), exactly]


def _failed_in_words(found: Failures) -> str:
    """How many cells of a depth fail on the test nodes, and on the training nodes too."""
    count, untrained = len(found.failed), len(found.untrained)
    do = "does" if count == 1 else "do"
    text = (
        f"{count or 'None'} of the {len(found.cells)} cells with {found.cells[0].depth} layers "
        f"{do} no better than always predicting one class."
    )
    fitted = "they learn the training nodes and do not generalise."
    if 0 < untrained == count:
        who = "It also fails" if count == 1 else f"All {count} also fail"
        it = "it" if count == 1 else "they"
        return (
            f"{text} {who} on the training nodes: {it} could not be trained, rather than "
            "overfitting."
        )
    if untrained:
        return (
            f"{text} Of these, {untrained} also fail on the training nodes: they could not be "
            f"trained. The others ({count - untrained}) do not: {fitted}"
        )
    if count:
        return f"{text} None of them fails on the training nodes: {fitted}"
    return text


def _tables(results: Results) -> list[str]:
    """A table for each set."""
    redrawn = [name for name in results.sets if results.arena.sets[name].is_redrawn]
    text = [
        "Test score in percent (accuracy; area under the ROC curve where a set has two classes), "
        "mean and 95% interval over the splits, at the epoch with the best validation score. The "
        "number after ± is the t quantile times the standard deviation times "
        "sqrt(1/n + n_test/n_train) for n splits of one graph, which are not independent, as in "
        "the tests; times sqrt(1/n) on sets that are drawn anew "
        f"({_listed(redrawn) or 'none yet'}). With 2 or 3 splits an interval may exceed 0 to 100. "
        "Cells with one split have no interval. In brackets the rank among the settled cells of "
        "this number of layers, over the splits that all of them have, while the mean is over all "
        "splits of the cell. The remedy with the best validation score at any depth comes first. "
        "† not settled, so not "
        "ranked. Seconds of processor time (one thread) of a whole training; MB that a step keeps "
        "for its backward pass."
    ]
    for name in results.sets:
        depths = results.depths(name)
        ranked = {depth: results.ranked(name, depth) for depth in depths}
        text.append(f"### {name}")
        if name in results.silent:
            text.append("Nothing learns on this set, so nothing is ranked.")
        head = [f"{depth} layers" for depth in depths]
        # The deepest stacks are trained with fewer remedies and on fewer sets.
        costly = max([depth for depth in depths if depth <= DEEP], default=depths[-1])
        rows = [
            f"| remedy | {' | '.join(head)} | seconds, {costly} | MB, {costly} |",
            f"|---|{'---|' * (len(depths) + 2)}",
        ]
        for remedy in _ordered(results, name, depths):
            entries = []
            for depth in depths:
                cell = results.cells.get((name, remedy, depth))
                entries.append(_entry(results, cell, ranked[depth]))
            cell = results.cells.get((name, remedy, costly))
            cost = "|  |  |"
            if cell is not None and not cell.failed:
                seconds = "on a GPU" if math.isnan(cell.seconds) else f"{cell.seconds:.3g}"
                cost = f"| {seconds} | {cell.bytes / 1e6:.3g} |"
            rows.append(f"| {remedy} | {' | '.join(entries)} {cost}")
        text.append("\n".join(rows))
        text += _left_out(results.arena, name)
    return text


def _left_out(arena: Arena, name: str) -> list[str]:
    """The remedies that are not trained on a set, a sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for remedy, reasons in arena.left_out.items():
        if name in reasons and remedy in arena.remedies:
            by_reason.setdefault(reasons[name], []).append(remedy)
    text = []
    for reason, remedies in by_reason.items():
        are = "is" if len(remedies) == 1 else "are"
        text.append(f"{_listed(remedies)} {are} not run here: {reason}.")
    return text


def _ordered(results: Results, name: str, depths: Sequence[int]) -> list[str]:
    """The remedies with cells of a set, the best at any depth by validation metric first."""
    best: dict[str, float] = {}
    for depth in depths:
        for remedy in results.arena.remedies:
            cell = results.cells.get((name, remedy, depth))
            if cell is not None:
                best[remedy] = max(best.get(remedy, -math.inf), cell.validation())
    return sorted(best, key=lambda remedy: -best[remedy])


def _entry(results: Results, cell: ArenaCell | None, ranked: Sequence[ArenaCell]) -> str:
    """A cell of the table."""
    if cell is None:
        return ""
    if cell.failed:
        return "cannot be trained"
    text = _percent(cell.mean)
    width = results.half_width(cell)
    if not math.isnan(width):
        text += f" ± {_percent(width)}"
    if cell.diverged:
        text += f", {cell.diverged} diverged"
    if not cell.is_settled:
        text += " †"
    if cell in ranked:
        text += f" ({ranked.index(cell) + 1})"
    return text


def _flow(options: Any) -> str:
    """Options as a config writes them, on one line."""
    return yaml.safe_dump(options, default_flow_style=True, width=1000).strip()


def set_in_words(name: str, data_set: DataSet) -> str:
    """The description of a data set; without words of its own, the first sentence of its class."""
    cls = registry.get("data", data_set.data["class_path"])
    if name not in SETS_IN_WORDS:
        return str(inspect.getdoc(cls)).partition(".")[0].replace("\n", " ") + "."
    options: dict[str, Any] = {}
    for option, parameter in inspect.signature(cls).parameters.items():
        options[option] = parameter.default
    options.update(data_set.data["init_args"])
    if options.get("shape") in SHAPES:
        options["shapes"] = SHAPES[options["shape"]]
        options["nodes"] = transfer_edges(options["shape"], options["distance"])[1]
    return SETS_IN_WORDS[name].format(**options)


def _definition(arena: Arena) -> list[str]:
    """Sets, remedies and budget."""
    words, sets = [], []
    for name, data_set in arena.sets.items():
        words.append(f"- **{name}**: {set_in_words(name, data_set)}")
        splits = "drawn anew" if data_set.is_redrawn else "of one graph"
        sets.append(f"| {name} | `{_flow(dict(data_set.data))}` | {data_set.metric} | {splits} |")
    remedies, controls = [], []
    for name, remedy in arena.remedies.items():
        options = remedy.options()
        if list(options) == ["model"]:  # as most have
            options = options["model"]
        remedies.append(f"| {name} | `{_flow(options)}` |")
        if remedy.transforms or "depth_lr" in remedy.model:
            controls.append(name)
    changes = (
        "Each row lists what the remedy changes. Everything else is the same: width "
        f"{arena.width}, a GCN layer unless another is named, and the tuned options."
    )
    if controls:
        changes += (
            " Controls, which give the plain model another graph or a learning rate that falls "
            f"with the number of layers L (`depth_lr: 1.5`, as L^-1.5): {', '.join(controls)}."
        )
    unitary = arena.remedies.get("unitary")
    if unitary is not None:
        changes += (
            f" A layer of unitary reaches {unitary.model['layer']['terms']} edges, so a few of "
            "them see as far as many others."
        )
    rounds = []
    for step in arena.tuning:
        rounds.append(f"{step.settings} settings for {step.epochs} epochs")
    settings = []
    for number, one in enumerate(arena.settings):
        settings.append(f"| {number} | {one.lr:g} | {one.dropout:g} | {one.weight_decay:g} |")
    return [
        "### The sets",
        "\n".join(words),
        "\n".join(["| set | data | metric | splits |", "|---|---|---|---|", *sets]),
        "### The remedies",
        changes,
        "\n".join(["| remedy | options |", "|---|---|", *remedies]),
        "### The budget",
        "Tuning is the same for every "
        f"remedy, depth and set: {len(arena.settings)} settings drawn once from the search space "
        "(learning rate log-uniform from 0.0005 to 0.02; dropout 0, 0.2, 0.5 or 0.7; weight decay "
        "0, 5e-5, 5e-4 or 5e-3), then successive halving on the validation score of split 0: "
        f"{', '.join(rounds)}. The best one is trained on every split for up to {arena.epochs} "
        f"epochs, validated every {arena.every}; it ends when {arena.patience} epochs brought "
        "nothing better. The seed is the number of the split.",
        "\n".join(
            ["| setting | learning rate | dropout | weight decay |", "|---|---|---|---|", *settings]
        ),
    ]
