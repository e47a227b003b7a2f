"""What the court says follows from the records."""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from gnn_depth.arena.court import (
    WORDS,
    correlations,
    features,
    frame_of,
    write_court,
)
from gnn_depth.arena.definition import Arena
from tests.arena.made import probed

ROOT = Path(__file__).parents[2]
SETS = ["citation_small", "sbm_small", "mines_small", "eccentricity_small"]

pytestmark = pytest.mark.usefixtures("no_pictures")


def without_relation(records, seed=0):
    """The records with scores that no measure tells."""
    draws = np.random.default_rng(seed)
    return [dataclasses.replace(record, test=0.5 + 0.1 * draws.random()) for record in records]


def test_the_court_finds_the_measure_that_tells_and_none_in_one_that_tells_the_depth(tmp_path):
    arena = Arena()
    records = probed(arena, SETS)
    frame = frame_of(records, arena.reference)
    assert sorted(frame["depth"].unique()) == [8, 32]
    assert frame["outcome"].between(0, 1).all()
    growth = correlations(frame, "gradient growth value 0")
    assert growth["given set and depth"].value > 0.95
    assert growth["given set and depth"].excludes_zero
    rank = correlations(frame, "rank last value 0")
    assert rank["overall"].value > 0.5
    assert math.isnan(rank["given depth"].value)
    text = write_court(records, arena, tmp_path).read_text()
    rank, gradients, nothing = answer(text)
    assert rank.endswith("unknown, as its measures do not vary.")
    assert "growth of ‖G‖ (value) at initialisation: rho = **+1.00" in gradients
    assert gradients.startswith("- **Gradients (arXiv 2506.04653)**: supported.")
    assert nothing.startswith("- **Nothing (arXiv 2601.07419)**: refuted.")


def answer(text):
    """The lines of the short answer on top of the page."""
    top = text.partition("\n## ")[0]
    return [line for line in top.splitlines() if line.startswith("- **")]


def test_the_short_answer_has_a_line_for_each_claim_and_names_rho_and_interval(tmp_path):
    arena = Arena()
    records = probed(arena, SETS)
    # The rank of X differs between trainings of one depth, and tells nothing.
    draws = np.random.default_rng(1)
    for record in records:
        for summary in record.probe.values():
            summary[4] = [5.0, 5.0, 1.0 + draws.random()]
    rank, gradients, nothing = answer(write_court(records, arena, tmp_path).read_text())
    assert rank.startswith("- **Rank (arXiv 2502.04591)**: not supported.")
    assert "Of 8 numbers none predicts the outcome" in rank
    for line in (rank, gradients, nothing):
        assert re.search(r"rho = (\*\*)?[+-]\d\.\d\d \[[+-]\d\.\d\d, [+-]\d\.\d\d\]", line)
    unrelated = without_relation(records)
    lines = answer(write_court(unrelated, arena, tmp_path).read_text())
    verdicts = [line.partition("**: ")[2].partition(".")[0] for line in lines]
    assert verdicts == ["not supported", "not supported", "not refuted"]


def test_a_set_on_which_nothing_learns_is_left_out_of_the_court_by_name(tmp_path):
    arena = Arena()
    records = probed(arena, SETS)
    silent = []
    for record in records:
        if record.job.set == "sbm_small":  # up to 0.04 above the constant prediction
            record = dataclasses.replace(record, test=0.24 if record.job.depth == 8 else 0.2)
        silent.append(record)
    frame = frame_of(silent, arena.reference)
    assert sorted(frame["set"].unique()) == sorted(set(SETS) - {"sbm_small"})
    text = write_court(silent, arena, tmp_path).read_text()
    assert "**sbm_small** is left out" in text
    assert (
        "Its best cell, plain with 8 layers, scores 24.0; a constant prediction scores 20.0" in text
    )
    learnt = [dataclasses.replace(one, test=max(one.test, 0.2401)) for one in silent]
    assert "sbm_small" in set(frame_of(learnt, arena.reference)["set"])


def test_all_measures_are_in_every_table_and_the_tables_have_titles(tmp_path):
    arena = Arena()
    records = probed(arena, SETS)
    # Each measure varies by itself.
    draws = np.random.default_rng(2)
    for record in records:
        for moment in record.probe:
            values = 10 ** draws.normal(size=(13, 3))
            values[5] = draws.random(3)  # the share of zero rows
            record.probe[moment] = values.tolist()
    text = write_court(records, arena, tmp_path).read_text()
    count = len(features("0", False))
    for title in (
        "In each data set, ranks within each depth:",
        "At each depth, mean over the data sets:",
    ):
        tables = text.split(title)[1:]
        assert len(tables) == 4  # at two moments, as values and as differences
        for table in tables:
            rows = table.strip().split("\n\n")[0].splitlines()
            assert len(rows) == count + 3  # head, rule and numbers of trainings
            assert len({row.count("|") for row in rows}) == 1


def test_sets_that_contradict_what_predicts_are_named(tmp_path):
    arena = Arena()
    records = probed(arena, [*arena.sets, *arena.small], settings=12)
    assert "point the other way" not in write_court(records, arena, tmp_path).read_text()
    for record in records:
        if record.job.set == "photo":
            for summary in record.probe.values():
                summary[6] = summary[6][::-1]  # gradients grow where they shrank
    page = write_court(records, arena, tmp_path).read_text()
    (said,) = [line for line in page.splitlines() if "point the other way" in line]
    assert re.search(r"on photo \(\d+ of \d+\)\.$", said)


def test_every_measure_is_in_the_legend_with_a_section_that_exists():
    toc = pytest.importorskip("markdown.extensions.toc")
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/diagnostics.md").read_text(), re.MULTILINE)
    sections = {toc.slugify(heading, "-") for heading in headings}
    for _, meaning, section in WORDS.values():
        assert section in sections
        assert "|" not in meaning  # it would end a table's cell


def test_the_page_says_what_is_bold_what_symbols_mean_and_whose_reference_it_is(tmp_path):
    arena = Arena()
    text = write_court(probed(arena, SETS), arena, tmp_path).read_text()
    redrawn = [name for name, data_set in arena.sets.items() if data_set.is_redrawn]
    for words in (
        "**Bold**: the interval excludes 0",
        "G the gradient",
        "so that a measure gets no credit for merely reflecting the depth",
        "log of the measure (of zero rows: the share) minus that of the same measure in a 4-layer model",
        "trained on split 0 only: for other splits it is that of split 0",
        f"drawn anew ({', '.join(redrawn)}) it then saw other data",
        "no better than a constant prediction; none diverged.",
        "Depth alone correlates at",
    ):
        assert words in text
    diverged = []
    for number, record in enumerate(probed(arena, SETS)):
        is_lost = number < 30 and record.job.depth > 4
        diverged.append(dataclasses.replace(record, status="diverged") if is_lost else record)
    assert "; 20 diverged." in write_court(diverged, arena, tmp_path).read_text()


def test_a_difference_is_to_the_shallow_stack_of_the_same_setting():
    arena = Arena()
    records = probed(arena, ["a"], settings=2)
    frame = frame_of(records, arena.reference)
    by_key = {(record.job.setting, record.job.depth): record for record in records}
    deep, shallow = by_key[1, 32], by_key[1, arena.reference]
    (place,) = [
        place
        for place, record in enumerate(record for record in records if record.job.depth > 4)
        if record is deep
    ]

    def growth(record):
        first, _, last = record.probe["0"][6]  # gradient
        return math.log10(last / first)

    found = frame.iloc[place]["gradient growth difference 0"]
    assert found == pytest.approx(growth(deep) - growth(shallow))
    assert frame.iloc[place]["gradient growth value 0"] == pytest.approx(growth(deep))
    assert len(features("0", False)) == 2 * 15
