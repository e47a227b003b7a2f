"""The court: do measures before training, or soon after its start, tell how it will end?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from gnn_depth.arena.definition import Arena
from gnn_depth.arena.pages import MADE, NOT_ENOUGH
from gnn_depth.arena.pictures import draw_correlations
from gnn_depth.arena.records import MEASURES, PLACES, TrainingRecord
from gnn_depth.arena.results import score_of
from gnn_depth.arena.statistics import Correlation, rank_correlation
from gnn_depth.training.summary import NEAR_CHANCE

#: Moments at which a measure may predict: before the first step, and after ten.
WHEN = {"0": "at initialisation", "10": "after 10 steps"}
#: The measures in words; those that are no ratio are compared on a logarithmic scale.
WORDS = {
    "norm": "‖X‖",
    "out": "‖F(X)‖",
    "mu": "µ(X)",
    "energy": "Dirichlet energy of X",
    "rank": "effective rank of X",
    "zeros": "zero rows of X",
    "gradient": "‖G‖",
    "gradient_mu": "µ(G)",
    "weight_gradient": "‖dW‖",
    "stretch": "Lipschitz constant",
    "bound": "Lipschitz bound",
    "imbalance": "imbalance of the neurons",
    "defect": "violation of the balance law",
    "share": "µ(X) / ‖X‖",
    "gradient_share": "µ(G) / ‖G‖",
}
#: The three claims, and the measures that each is about.
CLAIMS = {
    "rank (arXiv 2502.04591)": ("rank",),
    "gradients (arXiv 2506.04653)": ("gradient", "gradient_mu", "weight_gradient"),
    "similarity of nodes": ("mu", "share", "energy"),
}
FEWEST_RECORDS, FEWEST_SETS = 200, 3
DRAWS = 2000  # of data sets, for an interval
TINY = 1e-30  # in place of 0 on a logarithmic scale
SHOWN = 12  # measures in the tables by set and by depth
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
        if self.kind == "growth":
            return f"growth of {WORDS[self.measure]}"
        return f"{WORDS[self.measure]}, last layer"


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
    set, remedy, width and setting.

    Args:
        records: The records.
        reference: The number of layers of the shallow stacks.
    """
    probed = [record for record in records if record.probe and record.job.stage != "tune"]
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
    x, y, sets = frame[column], frame["outcome"], frame["set"]
    both = sets + " " + frame["depth"].astype(str)
    groups = {"overall": None, "within sets": sets, "given depth": frame["depth"], GIVEN_BOTH: both}
    found = {}
    for name, within in groups.items():
        found[name] = rank_correlation(x, y, sets, within, draws=DRAWS)
    return found


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
    frame = frame_of(records, arena.reference)
    found = all_correlations(frame)
    sections = [MADE.format("court"), "# The court", _introduction(frame, arena)]
    if frame.empty or len(frame) < FEWEST_RECORDS or frame["set"].nunique() < FEWEST_SETS:
        sections.append(
            f"{NOT_ENOUGH} The verdict takes {FEWEST_RECORDS} trainings on {FEWEST_SETS} sets."
        )
    else:
        sections += _verdict(frame, found)
        sections += _by_moment(frame, found, pictures)
    path = folder / "court.md"
    path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path


def _introduction(frame: pd.DataFrame, arena: Arena) -> str:
    count = f"{len(frame):,} trainings"
    if not frame.empty:
        diverged, failed = int(frame["diverged"].sum()), int(frame["failed"].sum())
        count += (
            f" of {frame['remedy'].nunique()} remedies on {frame['set'].nunique()} sets with "
            f"{', '.join(map(str, sorted(frame['depth'].unique())))} layers; {failed:,} are no "
            f"better than a constant prediction, {diverged:,} of them diverged"
        )
    return (
        "Three papers disagree about what tells whether a deep GNN will learn: the rank of its "
        "hidden states (arXiv 2502.04591), its gradients (arXiv 2506.04653), or nothing that is "
        "measured (arXiv 2601.07419). The arena's records can be asked: each has all measures of "
        "`gnn-depth probe` before the first step and after ten, and how the training ended.\n\n"
        f"This page is made from {count}. The outcome is the test metric above chance as a share "
        "of the best on the same set; a training that diverged has 0. Small trainings "
        f"({', '.join(arena.small)}) have width {arena.small_width}, {arena.small_epochs} epochs "
        f"and {len(arena.small_settings)} settings drawn from the search space, without tuning; "
        "the others are the final ones of the arena.\n\n"
        "Each number is Spearman's "
        "rank correlation with it. *Within sets*: the ranks are taken in each set. *Given depth* "
        "and *given set and depth*: in each group of equal depth, or of equal set and depth, so "
        "that a measure cannot score by telling the depth. Intervals: 95%, from 2,000 draws of "
        "whole data sets with replacement, as the question is about the next data set. *Difference "
        f"to {arena.reference} layers*: on a logarithmic scale, the measure minus that of a stack "
        f"of {arena.reference} layers with the same layer, setting and data. Growth is from the "
        "first layer to the last. One command makes this page again:\n\n"
        "<!-- not run: writes this page -->\n"
        "```bash\n"
        "gnn-depth arena --pages docs\n"
        "```"
    )


def _text(found: Correlation | None) -> str:
    """A correlation with its interval."""
    if found is None or math.isnan(found.value):
        return ""
    text = f"{found.value:+.2f}"
    if not math.isnan(found.low):
        text += f" [{found.low:+.2f}, {found.high:+.2f}]"
    return f"**{text}**" if found.excludes_zero else text


def _strongest(
    found: Mapping[Feature, Mapping[str, Correlation]], moment: str, measures: Sequence[str]
) -> Feature | None:
    """The feature of some measures with the largest correlation given set and depth."""
    chosen = []
    for feature in found:
        if feature.moment == moment and feature.measure in measures:
            chosen.append(feature)
    return max(chosen, key=lambda one: _size(found[one][GIVEN_BOTH]), default=None)


def _verdict(frame: pd.DataFrame, found: Mapping[Feature, Mapping[str, Correlation]]) -> list[str]:
    """The three claims, answered from the records."""
    text = ["## The verdict"]
    rows = []
    useful = []
    for moment, when in WHEN.items():
        for claim, measures in CLAIMS.items():
            feature = _strongest(found, moment, measures)
            if feature is None:
                continue
            value = found[feature][GIVEN_BOTH]
            kind = "difference" if feature.is_difference else "value"
            rows.append(f"| {claim} | {when} | {feature.words} ({kind}) | {_text(value)} |")
            if value.excludes_zero and abs(value.value) >= WEAK:
                useful.append(f"{feature.words} {when}")
    depth_alone = rank_correlation(frame["depth"], frame["outcome"], frame["set"], frame["set"])
    verdict = (
        "None of the three claims' measures tells, given set and depth, how a training ends: no "
        f"correlation is at least {WEAK} with an interval that excludes 0."
    )
    if useful:
        verdict = (
            f"Given set and depth, with a correlation of at least {WEAK} and an interval that "
            f"excludes 0, these tell how a training ends: {'; '.join(useful)}."
        )
    text += [
        verdict,
        f"The depth alone has {_text(depth_alone)} within sets. Of each claim's measures, as "
        "values and as differences, the one with the largest correlation given set and depth (it "
        "is the best of several, so its interval is too narrow):",
        "\n".join(["| claim | when | measure | given set and depth |", "|---|---|---|---|", *rows]),
    ]
    return text


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
            kind = "difference to the shallow stack" if is_difference else "value"
            ordered = sorted(chosen, key=lambda one: -_size(found[one][GIVEN_BOTH]))
            for feature in ordered:
                of_pair.setdefault(feature.words, {})[kind] = found[feature][GIVEN_BOTH]
            text.append(f"### {kind[0].upper()}{kind[1:]}s, {when}")
            text.append(_table(found, ordered))
            text.append(_by_group(frame, "set", ordered[:SHOWN]))
            text.append(_by_group(frame, "depth", ordered[:SHOWN]))
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
    rows = [f"| measure | {' | '.join(COLUMNS)} | trainings |", "|---|---|---|---|---|---|"]
    for feature in ordered:
        values = found[feature]
        entries = [_text(values[column]) for column in COLUMNS]
        count = values["overall"].count
        rows.append(f"| {feature.words} | {' | '.join(entries)} | {count:,} |")
    return "\n".join(rows)


def _by_group(frame: pd.DataFrame, group: str, chosen: Sequence[Feature]) -> str:
    """Rank correlations in each set, given depth; or at each depth, within sets."""
    other = "depth" if group == "set" else "set"
    words = "given depth" if group == "set" else "within sets"
    groups = sorted(frame[group].unique())
    head = [str(one) if group == "set" else f"{one} layers" for one in groups]
    rows = [f"| {words} | {' | '.join(head)} |", f"|---|{'---|' * len(groups)}"]
    parts = [frame[frame[group] == one] for one in groups]
    for feature in chosen:
        entries = []
        for part in parts:
            found = rank_correlation(
                part[feature.column], part["outcome"], part["set"], within=part[other], draws=1
            )
            entries.append("" if math.isnan(found.value) else f"{found.value:+.2f}")
        rows.append(f"| {feature.words} | {' | '.join(entries)} |")
    return "\n".join(rows)
