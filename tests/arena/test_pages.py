"""What the page of the arena says, in words and tables."""

import dataclasses

import numpy as np
import pytest

from gnn_depth.arena.definition import MEMORY, Arena, DataSet
from gnn_depth.arena.pages import set_in_words, terminal_summary, write_arena
from gnn_depth.arena.results import Results
from gnn_depth.data import GraphTransfer
from tests.arena.made import final, finals

REAL = ["cora", "squirrel_filtered", "minesweeper", "photo"]

pytestmark = pytest.mark.usefixtures("no_pictures")


def entries(text, start):
    """The entries of the first row of a table that starts with some words."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [entry.strip() for entry in row.split("|")[1:-1]]


def section(text, heading):
    """A section of a page."""
    return text.partition(f"### {heading}")[2].partition("\n### ")[0]


def equal(arena, sets, splits=3, **more):
    """Records of remedies that differ by noise alone."""
    draws = np.random.default_rng(5)
    found = []
    for name in sets:
        for split in range(splits):
            for remedy in ("plain", "residual_batch", "gcnii"):
                for depth in (2, 32):
                    test = 0.8 + 0.02 * draws.normal()
                    found.append(final(arena, name, remedy, depth, split, test, **more))
    return found


def test_where_no_difference_is_found_the_answer_says_how_large_it_could_be():
    arena = Arena()
    results = Results(arena, equal(arena, ["cora"]))
    text = terminal_summary(results)
    (answer,) = results.depth_answers(["cora"])
    limit = f"{100 * answer.detectable:.1f}"
    assert f"none found; with 3 splits no difference below {limit} points could be found" in text
    row = entries(section(text, "Do 32 layers"), "cora")
    assert row[4] == limit
    assert answer.detectable == pytest.approx(answer.test.detectable())
    # Of a family with two comparisons, each is tested at half of the level.
    family = results.against_skip_and_norm("cora", 32)
    limits = sorted(one.test.detectable(2) for one in family.others)
    assert sorted(one.detectable for one in family.others) == pytest.approx(limits)
    low, high = (f"{100 * limit:.1f}" for limit in limits)
    middle = f"{50 * sum(limits):.1f}"
    third = section(text, 'Is "skip')
    third = third.partition("All other remedies")[2]
    assert entries(third, "cora")[5] == f"{middle} ({low} to {high})"
    found = f"a comparison could find differences from {middle} ({low} to {high}) points on"
    assert f"none found; with 3 splits {found}" in third
    limits = [100 * one.detectable for one in results.against_best("cora", 32).others]
    row = entries(section(text, "Which remedies"), "cora")
    assert row[4].startswith(f"{np.median(limits):.1f} (")


def in_short(text):
    """The lines of the answers at the beginning."""
    return text.partition("## In short")[2].partition("\n\n#")[0].strip().splitlines()


def test_the_answers_come_first_and_are_those_of_the_questions(tmp_path):
    arena = Arena()
    records = equal(arena, [*REAL, "transfer"], splits=4)
    results = Results(arena, records)
    depth, norm, ranks = in_short(write_arena(results, tmp_path).read_text())
    (constructed,) = results.depth_answers(["transfer"])
    assert depth.startswith("- Do 32 layers beat the best of 8 or fewer? On 4 real sets (cora, ")
    limit = f"(it would have taken {100 * constructed.detectable:.1f} points)."
    found = " On 1 constructed set (transfer): no difference found"
    assert depth.endswith(f"{found} {limit}")
    compared = results.ranks(32)
    largest = max(len(group) for group in compared.groups)
    assert f"Over 5 sets with 32 layers `{compared.names[0]}`, " in ranks
    assert f"{largest} of {len(compared.names)} remedies form a group" in ranks
    (constructed,) = results.sufficiency_answers(["transfer"])
    limit = f"(it would have taken {100 * constructed.detectable:.1f} points)."
    assert norm.endswith(f"{found} {limit}")
    assert not in_short(write_arena(Results(arena, []), tmp_path).read_text())


def test_what_is_better_is_named_at_once():
    arena = Arena()
    records = []
    for record in equal(arena, ["cora", "transfer"]):
        better = record.job.remedy == "gcnii" and record.job.set == "cora"
        test = 0.99 if better else 0.1 * record.test
        if record.job.depth == 2:
            test = 0.5
        records.append(dataclasses.replace(record, test=test, val=test))
    depth, norm = in_short(terminal_summary(Results(arena, records)))
    assert "On 1 constructed set (transfer): worse on transfer." in depth
    assert norm.startswith("- Is another remedy with 32 layers better than the best skip with a")
    assert "On 1 real set (cora): yes on cora." in norm


def test_the_scores_of_a_comparison_are_over_the_splits_that_both_have():
    arena = Arena()
    records = equal(arena, ["cora"])
    deep = Results(arena, records).planned("cora")[0]
    for split in range(3, 6):
        records.append(final(arena, "cora", deep.remedy, deep.depth, split, 0.1))
    (answer,) = Results(arena, records).depth_answers(["cora"])
    mean, other = answer.means
    assert mean - other == pytest.approx(answer.test.difference)
    assert mean > answer.cell.mean  # which has the further splits


def test_equal_differences_on_a_few_test_rows_are_no_discovery():
    arena = Arena()
    records = []
    for split in range(3):
        for depth, test in ((2, 0.6), (32, 0.62)):
            job = final(arena, "transfer", "plain", depth, split, test, rows=(150, 50, 50))
            records.append(job)
    (answer,) = Results(arena, records).depth_answers(["transfer"])
    assert answer.test.difference == pytest.approx(0.02)
    assert 0.05 < answer.test.p < 0.06


def test_a_set_on_which_nothing_learns_decides_no_question_and_is_named_with_the_reason(tmp_path):
    arena = Arena()
    names = ["cora", "photo", "minesweeper", "transfer"]
    records = []
    for record in finals(arena, names):
        if record.job.set == "transfer":  # 0.04 above the constant prediction, and no more
            is_best = record.job.remedy == "gcnii" and record.job.depth == 32
            record = dataclasses.replace(record, test=0.34 if is_best else 0.3, train=0.3)
        records.append(record)
    results = Results(arena, records)
    assert list(results.silent) == ["transfer"]
    assert results.ranks(32).sets == 3
    assert results.ranked("transfer", 32) == []
    assert results.depth_answers(["transfer"]) == []
    assert results.against_best("transfer", 32) is None
    assert results.against_skip_and_norm("transfer", 32) is None
    assert results.failures(32).failed == []
    text = write_arena(results, tmp_path).read_text()
    assert "**transfer** is left out of the ranks, the questions and [the court](court.md)" in text
    assert (
        "Its best cell, gcnii with 32 layers, scores 34.0; a constant prediction scores 30.0"
        in text
    )
    row = entries(text.partition("\n### transfer\n")[2], "gcnii")
    assert row[1:3] == ["30.0 ± 0.0", "34.0 ± 0.0"]
    more = [dataclasses.replace(one, test=max(one.test, 0.3401)) for one in records]
    assert Results(arena, more).silent == {}


def test_remedies_that_have_no_rank_are_listed_with_the_reason():
    arena = dataclasses.replace(Arena(), left_out={"gated": {"photo": MEMORY}})
    records = []
    for record in finals(arena, ["cora", "photo", "minesweeper"]):
        key = (record.job.set, record.job.remedy, record.job.depth)
        if key == ("photo", "gated", 32):
            continue
        is_unsettled = key in {("cora", "plain", 32), ("photo", "plain", 32)}
        records.append(dataclasses.replace(record, settled=not is_unsettled))
    text = terminal_summary(Results(arena, records))
    assert "ranked on every set (cora, minesweeper and photo)" in text
    assert "- left out of photo: gated" in text
    assert "- not settled on cora, photo: plain" in text
    assert "- no trainings yet on cora, minesweeper, photo: residual, batch" in text
    ranks = Results(arena, records).ranks(32)
    assert sorted(ranks.names) == ["gcnii", "residual_batch", "residual_layer"]


def test_intervals_of_splits_of_one_graph_are_wider_than_those_of_sets_drawn_anew(tmp_path):
    arena = Arena()
    records = []
    for name in ("cora", "transfer"):
        for split, test in enumerate((0.79, 0.80, 0.81)):
            records.append(final(arena, name, "plain", 2, split, test))
    text = write_arena(Results(arena, records), tmp_path).read_text()
    # 4.303 * 0.01 * sqrt(1/3), and with 25 test rows for 100 training rows sqrt(1/3 + 1/4).
    assert entries(text.partition("\n### cora\n")[2], "plain")[1] == "80.0 ± 3.3 (1)"
    assert entries(text.partition("\n### transfer\n")[2], "plain")[1] == "80.0 ± 2.5 (1)"
    assert "sqrt(1/n + n_test/n_train) for n splits of one graph" in text
    assert "times sqrt(1/n) on sets that are drawn anew (transfer)" in text


def test_a_failure_to_train_is_told_from_one_to_generalise():
    arena = Arena()
    records = []
    for split in range(3):
        records.append(final(arena, "cora", "plain", 32, split, 0.3, train=0.339))
        records.append(final(arena, "cora", "gated", 32, split, 0.3, train=0.35))
        records.append(final(arena, "cora", "gcnii", 32, split, 0.8))
    found = Results(arena, records).failures(32)
    assert [cell.remedy for cell in found.failed] == ["plain", "gated"]
    assert [cell.remedy for cell in found.untrained] == ["plain"]


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ([], "None of the 1 cells with 32 layers do no better than always predicting one class."),
        (
            [0.31],
            "1 of the 2 cells with 32 layers does no better than always predicting one class. It "
            "also fails on the training nodes: it could not be trained, rather than overfitting.",
        ),
        (
            [0.31, 0.32],
            "2 of the 3 cells with 32 layers do no better than always predicting one class. All 2 "
            "also fail on the training nodes: they could not be trained, rather than overfitting.",
        ),
        (
            [0.31, 0.99],
            "Of these, 1 also fail on the training nodes: they could not be trained. The others "
            "(1) do not: they learn the training nodes and do not generalise.",
        ),
        (
            [0.9, 0.99],
            "None of them fails on the training nodes: they learn the training nodes and do not "
            "generalise.",
        ),
    ],
)
def test_the_answer_about_failures_is_right_for_any_counts(training, said):
    arena = Arena()
    records = []
    for split in range(3):
        records.append(final(arena, "cora", "gcnii", 32, split, 0.8))
        for remedy, train in zip(("plain", "gated"), training):
            records.append(final(arena, "cora", remedy, 32, split, 0.3, train=train))
    assert said in terminal_summary(Results(arena, records))


def test_what_a_failure_on_training_nodes_is_compared_with_is_said():
    arena = Arena()
    records = [final(arena, "cora", "plain", 32, split, 0.3, train=0.3) for split in range(3)]
    records += [final(arena, "cora", "gcnii", 32, split, 0.8) for split in range(3)]
    for split in range(3):  # a metric that is not measured on training nodes
        records.append(final(arena, "minesweeper", "gcnii", 32, split, 0.9, train=float("nan")))
    text = terminal_summary(Results(arena, records))
    assert "1 of the 2 cells" in text
    assert "at most 4 points above that same number: the records do not hold" in text
    assert "Cells of sets without a training score are not counted: minesweeper." in text


def test_both_families_of_holms_correction_are_named():
    arena = Arena()
    text = terminal_summary(Results(arena, equal(arena, [*REAL, "transfer", "eccentricity"])))
    assert "A family of 4 real sets (cora, squirrel_filtered, minesweeper and photo): none" in text
    assert "A family of 2 constructed sets (transfer and eccentricity): none found" in text


def test_every_set_of_the_arena_is_described_from_its_definition():
    arena = Arena()
    for name, data_set in {**arena.sets, **arena.small}.items():
        words = set_in_words(name, data_set)
        assert words.endswith(".")
        assert "{" not in words
    line = DataSet(
        {"class_path": "GraphTransfer", "init_args": {"shape": "line", "distance": 7}}, ("seed",)
    )
    words = set_in_words("transfer", line)
    assert "500 lines, 8 nodes each" in words  # 500 is the class's default
    assert "5 classes another node has, 7 edges away" in words
    ring = dataclasses.replace(
        line, data={**line.data, "init_args": {"shape": "ring", "distance": 7}}
    )
    assert "500 rings, 14 nodes each" in set_in_words("transfer", ring)
    first = " ".join(GraphTransfer.__doc__.partition(".")[0].split())
    assert set_in_words("of a plugin", line) == f"{first}."


def test_a_remedy_that_is_left_out_is_named_in_a_sentence(tmp_path):
    arena = dataclasses.replace(
        Arena(),
        left_out={
            "contra": {"cora": MEMORY},
            "fosr": {"cora": "a test says so"},
            "borf": {"cora": "a test says so"},
        },
    )
    text = write_arena(Results(arena, equal(arena, ["cora"])), tmp_path).read_text()
    assert "contra is not run here: each layer needs memory and time for nodes x nodes." in text
    assert "fosr and borf are not run here: a test says so." in text


def test_the_page_begins_with_what_is_compared(tmp_path):
    arena = Arena()
    nowhere = dict.fromkeys(arena.sets, MEMORY)
    arena = dataclasses.replace(arena, left_out={"contra": nowhere})
    text = write_arena(Results(arena, equal(arena, ["cora"])), tmp_path).read_text()
    count = len(arena.remedies) - 1  # one is trained on no set
    said = (
        f"We compare {count} remedies (contra would be too slow on every set); each gets the same"
    )
    assert said in text
    assert (
        "A cell is one remedy at one depth on one data set, trained on 3 of the planned 10 splits"
        in text
    )
    assert text.index("A cell is *settled* if") < text.index("### Do 32 layers")
    assert "Cells with one split have no interval." in text
    assert (
        f"Everything else is the same: width {arena.width}, a GCN layer unless another is named"
        in text
    )
