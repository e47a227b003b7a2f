"""The court: do measures before training, or soon after its start, tell how it will end?"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from gnn_depth.arena.definition import Arena
from gnn_depth.arena.pages import MADE, NOT_ENOUGH, nothing_learns, probability, set_in_words
from gnn_depth.arena.pictures import draw_correlations
from gnn_depth.arena.records import MEASURES, PLACES, TrainingRecord
from gnn_depth.arena.results import BestCell, best_cells, score_of
from gnn_depth.arena.statistics import (
    FEWEST_PAIRS,
    LEVEL,
    Correlation,
    holm,
    mean_correlation,
    pooled_correlation,
)
from gnn_depth.training.summary import NEAR_CHANCE

#: Moments at which a measure may predict: before the first step, and after ten.
WHEN = {"0": "at initialisation", "10": "after 10 steps"}
#: Each measure in words, what it is, and its section in docs/diagnostics.md. All but the zero rows
#: are compared on a logarithmic scale.
WORDS = {
    "norm": ("‖X‖", "Frobenius norm of X", "diagnostics"),
    "out": ("‖F(X)‖", "Frobenius norm of the layer's output F(X)", "diagnostics"),
    "mu": (
        "µ(X)",
        "distance of the rows of X from their mean; 0 if all nodes are equal",
        "similarity-mu",
    ),
    "energy": ("Dirichlet energy of X", "how much nodes differ from their neighbours", "energies"),
    "rank": (
        "effective rank of X",
        "number of directions that the rows of X fill",
        "effective-rank",
    ),
    "zeros": ("zero rows of X", "share of nodes that are zero in every channel", "diagnostics"),
    "gradient": ("‖G‖", "Frobenius norm of G", "diagnostics"),
    "gradient_mu": ("µ(G)", "distance of the rows of G from their mean", "similarity-mu"),
    "weight_gradient": (
        "‖dW‖",
        "norm of the gradients dW of the layer's parameters",
        "diagnostics",
    ),
    "stretch": (
        "Lipschitz constant",
        "largest singular value of the layer's Jacobian at X",
        "lipschitz-constant",
    ),
    "bound": ("Lipschitz bound", "upper limit of that constant for any X", "lipschitz-constant"),
    "imbalance": (
        "imbalance of the neurons",
        "median over the neurons of the difference between the squared weights into a neuron and "
        "those out of it, without its sign and as a share of their sum",
        "balance-c-and-delta",
    ),
    "defect": (
        "violation of the balance law",
        "largest delta of the neurons, without its sign; the balance law says that it is 0",
        "balance-c-and-delta",
    ),
    "share": ("µ(X) / ‖X‖", "µ(X) as a share of the norm, from 0 to 1", "similarity-mu"),
    "gradient_share": ("µ(G) / ‖G‖", "µ(G) as a share of the norm, from 0 to 1", "similarity-mu"),
}
#: The claims that a kind of measure predicts the outcome, and these measures.
CLAIMS = {
    "rank (arXiv 2502.04591)": ("rank",),
    "gradients (arXiv 2506.04653)": ("gradient", "gradient_mu", "weight_gradient"),
}
SIMILARITY = ("mu", "share", "energy")
NOTHING = "nothing (arXiv 2601.07419)"
FEWEST_RECORDS, FEWEST_SETS = 200, 3
TINY = 1e-30  # in place of 0 on a logarithmic scale
#: A correlation this small is of no use for a prediction, whatever its interval.
WEAK = 0.3


@dataclass(frozen=True)
class Feature:
    """A number that may predict how a training ends.

    Attributes:
        measure: A measure of :data:`WORDS`.
        kind: ``last``, the measure at the last layer, or ``growth`` from the first to the last.
        is_difference: Take it as a difference to the shallow stack of the same layer and setting.
        moment: A moment of :data:`WHEN`.
    """

    measure: str
    kind: str
    is_difference: bool
    moment: str

    @property
    def column(self) -> str:
        """Its column in the frame of :func:`frame_of`."""
        mark = "difference" if self.is_difference else "value"
        return f"{self.measure} {self.kind} {mark} {self.moment}"

    @property
    def words(self) -> str:
        """Measure and kind in words."""
        words = WORDS[self.measure][0]
        if self.kind == "growth":
            return f"growth of {words}"
        return f"{words}, last layer"


def features(moment: str, is_difference: bool) -> list[Feature]:
    """All features of a moment, as values or as differences to the shallow stack."""
    found = []
    for measure in WORDS:
        for kind in ("last", "growth"):
            found.append(Feature(measure, kind, is_difference, moment))
    return found


def frame_of(records: Iterable[TrainingRecord], reference: int) -> pd.DataFrame:
    """A row for each probed training that is deeper than the reference: its outcome and features.

    The outcome is the score above chance, as a share of the best one on its set; 0 for a training
    that diverged or failed. Differences are to the training of the reference depth with the same
    set, remedy, width and setting. Sets on which nothing learns are left out: their best score is
    noise.

    Args:
        records: The records.
        reference: The number of layers of the shallow stacks.
    """
    records = list(records)
    silent = silent_sets(records)
    probed = []
    for record in records:
        if record.probe and record.job.stage != "tune" and record.job.set not in silent:
            probed.append(record)
    shallow: dict[tuple, TrainingRecord] = {}
    best: dict[str, float] = {}
    for record in probed:
        job, above = record.job, score_of(record) - record.chance
        best[job.set] = max(best.get(job.set, 0.0), above)
        if job.depth == reference:
            shallow[_family_of(record)] = record
    rows = []
    for record in probed:
        job = record.job
        if job.depth <= reference or not best[job.set]:
            continue
        above = score_of(record) - record.chance
        outcome = 0.0
        if record.status == "finished":
            outcome = min(1.0, max(0.0, above / best[job.set]))
        row = {
            "set": job.set,
            "remedy": job.remedy,
            "depth": job.depth,
            "outcome": outcome,
            "failed": record.status != "finished" or above <= NEAR_CHANCE,
            "diverged": record.status == "diverged",
        }
        beside = shallow.get(_family_of(record))
        for moment in WHEN:
            values = _values(record, moment)
            of_shallow = {} if beside is None else _values(beside, moment)
            for name, value in values.items():
                row[f"{name} value {moment}"] = value
                row[f"{name} difference {moment}"] = value - of_shallow.get(name, math.nan)
        rows.append(row)
    return pd.DataFrame(rows)


def silent_sets(records: Iterable[TrainingRecord]) -> dict[str, BestCell]:
    """The sets on which nothing learns, with their best cells."""
    return {name: best for name, best in best_cells(records).items() if not best.learns}


def _family_of(record: TrainingRecord) -> tuple:
    """The options that a training and the shallow stack beside it have in common."""
    job = record.job
    is_small = job.stage == "small"
    return is_small, job.set, job.remedy, job.width, job.setting


def _values(record: TrainingRecord, moment: str) -> dict[str, float]:
    """Each measure at the last layer and its growth, on a logarithmic scale where it is a size."""
    assert record.probe is not None
    summary = record.probe.get(moment)
    if summary is None:
        return {}
    ends: dict[str, tuple[float, float]] = {}
    for measure, values in zip(MEASURES, summary, strict=True):
        if values is None:
            continue
        by_place = dict(zip(PLACES, values, strict=True))
        first, last = by_place["first"], by_place["last"]
        ends[measure] = (_scaled(measure, first), _scaled(measure, last))
    for share, (part, whole) in {
        "share": ("mu", "norm"),
        "gradient_share": ("gradient_mu", "gradient"),
    }.items():
        if part in ends and whole in ends:
            ends[share] = (ends[part][0] - ends[whole][0], ends[part][1] - ends[whole][1])
    found = {}
    for measure, (first, last) in ends.items():
        found[f"{measure} last"] = last
        found[f"{measure} growth"] = last - first
    return found


def _scaled(measure: str, value: float | None) -> float:
    if value is None:
        return math.nan
    if measure == "zeros":
        return value
    return math.log10(max(value, TINY))


GIVEN_BOTH = "given set and depth"
COLUMNS = ("overall", "within sets", "given depth", GIVEN_BOTH)


def correlations(frame: pd.DataFrame, column: str) -> dict[str, Correlation]:
    """The rank correlation of a column with the outcome: overall, within each set, given the
    depth, and given set and depth."""
    if column not in frame:
        return {}
    x, y, sets, depth = frame[column], frame["outcome"], frame["set"], frame["depth"]
    return {
        "overall": pooled_correlation(x, y, sets),
        "within sets": mean_correlation(x, y, sets),
        "given depth": pooled_correlation(x, y, sets, depth),
        GIVEN_BOTH: mean_correlation(x, y, sets, depth),
    }


def all_correlations(frame: pd.DataFrame) -> dict[Feature, dict[str, Correlation]]:
    """The correlations of every feature that is known of some trainings, and varies."""
    found = {}
    for moment in WHEN:
        for is_difference in (False, True):
            for feature in features(moment, is_difference):
                values = correlations(frame, feature.column)
                if values and not math.isnan(values["overall"].value):
                    found[feature] = values
    return found


def write_court(records: Iterable[TrainingRecord], arena: Arena, folder: Path) -> Path:
    """Write ``court.md`` and its picture into a folder of documentation."""
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    records = list(records)
    frame = frame_of(records, arena.reference)
    found = all_correlations(frame)
    is_enough = len(frame) >= FEWEST_RECORDS and frame["set"].nunique() >= FEWEST_SETS
    sections = [
        MADE.format("court"),
        "# The court",
        "Three papers disagree on what predicts whether a deep GNN will train: "
        f"{', '.join(CLAIMS)}, or {NOTHING}. The records of [the arena](arena.md) decide.",
    ]
    if is_enough:
        sections += _answer(frame, found)
    else:
        sections.append(
            f"{NOT_ENOUGH} The verdict takes {FEWEST_RECORDS} trainings on {FEWEST_SETS} sets."
        )
    sections += _introduction(frame, arena)
    for name, best in silent_sets(records).items():
        sections.append(nothing_learns(name, best, "this page"))
    if is_enough:
        depth_alone = mean_correlation(frame["depth"], frame["outcome"], frame["set"])
        sections += [
            "## The strongest measures",
            f"Depth alone correlates at {_text(depth_alone)} within sets. Of the measures of each "
            "claim, at each moment, as values and as differences, this has the largest |rho|, "
            "whether it predicts or not:",
            _strongest(found),
        ]
        sections += _legend()
        sections += _by_moment(frame, found, pictures)
    path = folder / "court.md"
    path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path


def _introduction(frame: pd.DataFrame, arena: Arena) -> list[str]:
    count = f"{len(frame):,} trainings."
    sets = []
    if not frame.empty:
        failed, diverged = int(frame["failed"].sum()), int(frame["diverged"].sum())
        ended = f"{diverged:,} diverged" if diverged else "none diverged"
        depths = ", ".join(map(str, sorted(frame["depth"].unique())))
        count = (
            f"{len(frame):,} trainings of {frame['remedy'].nunique()} remedies on "
            f"{frame['set'].nunique()} sets with {depths} layers. {failed:,} did no better than a "
            f"constant prediction; {ended}."
        )
        for name in arena.small:
            if name in set(frame["set"]):
                sets.append(f"- **{name}**: {set_in_words(name, arena.small[name])}")
    redrawn = [name for name, data_set in arena.sets.items() if data_set.is_redrawn]
    text = [
        "## What was asked",
        "Each record of [the arena](arena.md) has the measures of `gnn-depth probe` before the "
        "first step and after ten, and how the training ended. Some layers lack some measures: "
        "imbalance needs two weight matrices in a row, a bound needs a part that has one. This "
        "page is made from "
        f"{count} The outcome is the test score above chance as a share of the best on the same "
        "set; a training that diverged has 0. Small trainings have width "
        f"{arena.small_width}, {arena.small_epochs} epochs and {len(arena.small_settings)} "
        "settings drawn from the search space, without tuning; the others are the final ones of "
        "the arena.",
    ]
    if sets:
        text += ["The sets of the small trainings:", "\n".join(sets)]
    text += [
        "Each number is Spearman's rank correlation rho of a measure with the outcome.",
        "- *Within sets*: the mean over the sets of the correlation in each of them.\n"
        f"- *{GIVEN_BOTH.capitalize()}*: the same, with ranks taken at each depth of a set, so "
        "that a measure gets no credit for merely reflecting the depth.\n"
        "- *Overall* and *given depth*: of all trainings together; ranks are taken over all of "
        "them, or at each depth.\n"
        "- Intervals: 95%. The sets are the sampling unit, as the question is about the next data "
        "set. Means over sets have a t interval of Fisher's z; a set with fewer than "
        f"{FEWEST_PAIRS} trainings is left out. The pooled columns, *overall* and *given depth*, "
        "have a jackknife over the sets. (A bootstrap over so few sets gives intervals that are "
        "too narrow.)\n"
        "- **Bold**: the interval excludes 0. Of measures without a relation to the outcome, one "
        "in 20 is bold by chance.\n"
        f"- *Difference to {arena.reference} layers*: log of the measure (of zero rows: the share) "
        "minus that of the same "
        f"measure in a {arena.reference}-layer model with the same remedy, setting and data. For "
        f"the final trainings the {arena.reference}-layer model was trained on split 0 only: for "
        "other splits it is that of split 0. On sets that are drawn anew "
        f"({', '.join(redrawn) or 'none'}) it then saw other data.",
        "One command makes this page again:",
        "<!-- not run: writes this page -->\n```bash\ngnn-depth arena --pages docs\n```",
    ]
    return text


def _text(found: Correlation | None) -> str:
    """A correlation with its interval."""
    if found is None or math.isnan(found.value):
        return ""
    text = f"{found.value:+.2f}"
    if not math.isnan(found.low):
        text += f" [{found.low:+.2f}, {found.high:+.2f}]"
    return f"**{text}**" if found.excludes_zero else text


@dataclass(frozen=True)
class Judged:
    """A feature among those of a claim.

    Attributes:
        feature: The feature.
        found: Its correlation given set and depth.
        adjusted: Holm's p over all features of the claim.
    """

    feature: Feature
    found: Correlation
    adjusted: float

    @property
    def predicts(self) -> bool:
        """True if it correlates with the outcome well enough to predict something."""
        return self.adjusted <= LEVEL and abs(self.found.value) >= WEAK

    @property
    def name(self) -> str:
        """The feature in words."""
        kind = "difference" if self.feature.is_difference else "value"
        return f"{self.feature.words} ({kind})"


def judged(
    found: Mapping[Feature, Mapping[str, Correlation]], measures: Iterable[str]
) -> list[Judged]:
    """All features of some measures, the strongest first."""
    known = set(measures)
    chosen = []
    for feature, of_feature in found.items():
        if feature.measure in known and not math.isnan(of_feature[GIVEN_BOTH].value):
            chosen.append((feature, of_feature[GIVEN_BOTH]))
    adjusted = holm([value.p for _, value in chosen])
    judged = [Judged(*one, p) for one, p in zip(chosen, adjusted, strict=True)]
    return sorted(judged, key=lambda one: -_size(one.found))


def _answer(frame: pd.DataFrame, found: Mapping[Feature, Mapping[str, Correlation]]) -> list[str]:
    """A line for each claim: whether the records support it."""
    lines = []
    for claim, measures in CLAIMS.items():
        features = judged(found, measures)
        support = "supported" if any(one.predicts for one in features) else "not supported"
        lines.append(_line(claim, support, features))
    features = judged(found, WORDS)
    support = "refuted" if any(one.predicts for one in features) else "not refuted"
    lines.append(_line(NOTHING, support, features))
    return [
        "\n".join(lines),
        "All rho are rank correlations with the outcome, given set and depth. We say that a number "
        f"predicts if its p is at most {LEVEL}, by Holm's correction over all numbers of the "
        f"claim, and its |rho| at least {WEAK}, which is {WEAK**2:.0%} of the variance of the "
        "ranks. The last line counts the numbers of all measures, so its correction is stricter. "
        "These are correlations: none says that the measure is the reason.",
        *_exceptions(frame, found),
    ]


def _exceptions(
    frame: pd.DataFrame, found: Mapping[Feature, Mapping[str, Correlation]]
) -> list[str]:
    """The sets on which the strongest numbers have the opposite sign."""
    counts: Counter[str] = Counter()
    strongest = []
    for measures in CLAIMS.values():
        strongest += [one for one in judged(found, measures) if one.predicts]
    for one in strongest:
        for name, part in frame.groupby("set"):
            here = _of_part(part, one.feature)
            if here.value * one.found.value < 0 and abs(here.value) >= WEAK:
                counts[str(name)] += 1
    if not counts:
        return []
    said = [f"{name} ({count} of {len(strongest)})" for name, count in counts.most_common()]
    return [
        "**Before you rely on it for another data set:** numbers that predict over the sets point "
        f"the other way, with |rho| of at least {WEAK}, on {', '.join(said)}."
    ]


def _line(claim: str, support: str, features: Sequence[Judged]) -> str:
    """Whether a claim is supported, and by which of its numbers."""
    claim = f"{claim[0].upper()}{claim[1:]}"
    if not features:
        return f"- **{claim}**: unknown, as its measures do not vary."
    counted = [one for one in features if one.predicts]
    best = (counted or features)[0]
    return (
        f"- **{claim}**: {support}. Of {len(features)} numbers {len(counted) or 'none'} "
        f"{'predicts' if len(counted) < 2 else 'predict'} the outcome; the strongest "
        f"{'of them ' if len(counted) > 1 else ''}is {best.name} {WHEN[best.feature.moment]}: "
        f"rho = {_text(best.found)}, p (Holm) {probability(best.adjusted)}."
    )


def _strongest(found: Mapping[Feature, Mapping[str, Correlation]]) -> str:
    """The strongest measure of each claim at each moment."""
    head = f"| measures | when | strongest | rho {GIVEN_BOTH} | p (Holm) | compared |"
    rows = [head, "|---|---|---|---|---|---|"]
    for claim, measures in {**CLAIMS, "similarity of nodes": SIMILARITY}.items():
        features = judged(found, measures)
        for moment, when in WHEN.items():
            of_moment = [one for one in features if one.feature.moment == moment]
            for one in of_moment[:1]:
                rows.append(
                    f"| {claim} | {when} | {one.name} | {_text(one.found)} | "
                    f"{probability(one.adjusted)} | {len(features)} |"
                )
    return "\n".join(rows)


def _legend() -> list[str]:
    """A table of the measures with their meanings."""
    rows = ["| measure | meaning |", "|---|---|"]
    for words, meaning, section in WORDS.values():
        rows.append(f"| {words} | [{meaning}](diagnostics.md#{section}) |")
    return [
        "## The measures",
        "X is the input of a layer, with one row for each node, F(X) its output, G the gradient of "
        "the loss with respect to X. ‖ ‖ is the Frobenius norm. *Last layer*: the measure at "
        "the last layer. *Growth*: from the first layer to the last, as a difference of logs; "
        "growth of ‖G‖ is positive if gradients shrink on their way back to the first layer, so a "
        "rho below 0 means that the outcome is worse where they do. All but the zero rows are "
        "compared on a logarithmic scale.",
        "\n".join(rows),
    ]


def _by_moment(
    frame: pd.DataFrame, found: Mapping[Feature, Mapping[str, Correlation]], pictures: Path
) -> list[str]:
    """The tables of all measures."""
    text = []
    for moment, when in WHEN.items():
        text.append(f"## {when[0].upper()}{when[1:]}")
        of_pair: dict[str, dict[str, Correlation]] = {}
        for is_difference in (False, True):
            chosen = []
            for feature in found:
                if feature.moment == moment and feature.is_difference == is_difference:
                    chosen.append(feature)
            if not chosen:
                continue
            kind = "difference" if is_difference else "value"
            ordered = sorted(chosen, key=lambda one: -_size(found[one][GIVEN_BOTH]))
            for feature in ordered:
                of_pair.setdefault(feature.words, {})[kind] = found[feature][GIVEN_BOTH]
            text.append(f"### {kind[0].upper()}{kind[1:]}s, {when}")
            text.append(_table(found, ordered))
            text.append("In each data set, ranks within each depth:")
            text.append(_by_group(frame, "set", ordered))
            text.append("At each depth, mean over the data sets:")
            text.append(_by_group(frame, "depth", ordered))
        rows = [pair for pair in of_pair.items() if len(pair[1]) == 2 and _is_known(pair[1])]
        if rows:
            name = f"court_{moment}.png"
            draw_correlations(rows, pictures / name, f"{when}, given set and depth")
            text.append(f"![Rank correlations {when}](pictures/{name})")
    return text


def _is_known(found: Mapping[str, Correlation]) -> bool:
    """True if a measure has a correlation as a value and as a difference."""
    return not any(math.isnan(one.value) for one in found.values())


def _size(found: Correlation) -> float:
    return 0.0 if math.isnan(found.value) else abs(found.value)


def _table(found: Mapping[Feature, Mapping[str, Correlation]], ordered: Sequence[Feature]) -> str:
    rows = [
        f"| measure | {' | '.join(COLUMNS)} | trainings, overall | sets, {GIVEN_BOTH} |",
        f"|---|{'---|' * (len(COLUMNS) + 2)}",
    ]
    for feature in ordered:
        values = found[feature]
        entries = [_text(values[column]) for column in COLUMNS]
        pairs, sets = values["overall"].pairs, values[GIVEN_BOTH].sets
        rows.append(f"| {feature.words} | {' | '.join(entries)} | {pairs:,} | {sets} |")
    return "\n".join(rows)


def _of_part(part: pd.DataFrame, feature: Feature) -> Correlation:
    """The rank correlation in some trainings; of a single set, the mean over sets is its own."""
    return mean_correlation(
        part[feature.column], part["outcome"], part["set"], within=part["depth"]
    )


def _by_group(frame: pd.DataFrame, group: str, chosen: Sequence[Feature]) -> str:
    """Rank correlations in each set, given depth; or at each depth, within sets."""
    groups = sorted(frame[group].unique())
    head = [str(one) if group == "set" else f"{one} layers" for one in groups]
    rows = [f"| measure | {' | '.join(head)} |", f"|---|{'---|' * len(groups)}"]
    parts = [frame[frame[group] == one] for one in groups]
    for feature in chosen:
        entries = []
        for part in parts:
            found = _of_part(part, feature)
            entries.append("" if math.isnan(found.value) else f"{found.value:+.2f}")
        rows.append(f"| {feature.words} | {' | '.join(entries)} |")
    rows.append(f"| *trainings* | {' | '.join(f'{len(part):,}' for part in parts)} |")
    return "\n".join(rows)
