"""What the arena's pages say follows from the records."""

import dataclasses
import math
from pathlib import Path

import pytest
from scipy import stats

from gnn_depth.arena import checking
from gnn_depth.arena.checking import Again, remedies_of, train_again
from gnn_depth.arena.court import write_court
from gnn_depth.arena.definition import Arena, ArenaRemedy, Round
from gnn_depth.arena.pages import terminal_summary, write_arena
from gnn_depth.arena.records import Records, TrainingJob, TrainingRecord
from gnn_depth.arena.results import Results
from gnn_depth.arena.running import belongs, perform, training_identity
from gnn_depth.cli import main
from gnn_depth.training.identity import plugin_version
from tests.arena.made import GAINS, final, finals, probed

ROOT = Path(__file__).parents[2]

REAL = ["cora", "squirrel_filtered", "minesweeper", "photo"]
NORM = '''
"""A plugin."""
from gnn_depth import register
from gnn_depth.nn.parts import FeatureNorm


@register("norm", "halved")
class Halved(FeatureNorm):
    """Half of the features."""

    def forward(self, x, graph):
        return x / 2
'''


def test_the_depth_question_is_one_comparison_a_set_chosen_on_validation():
    arena = Arena()
    records = finals(arena, REAL)
    answers = Results(arena, records).depth_answers(REAL)
    assert [answer.cell.set for answer in answers] == REAL
    for answer in answers:
        assert answer.cell.remedy == "gcnii"
        assert answer.reference.depth == 2
        assert answer.test.difference == pytest.approx(0.1, abs=0.01)
        assert answer.test.count == 5
        assert answer.test.p <= answer.adjusted <= 4 * answer.test.p + 1e-12
    # A cell that is better on the test rows alone is not chosen.
    lucky = []
    for record in records:
        if record.job.remedy == "gated" and record.job.depth == 32:
            lucky.append(dataclasses.replace(record, test=0.99, val=0.1))
        else:
            lucky.append(record)
    assert Results(arena, lucky).depth_answers(REAL)[0].cell.remedy == "gcnii"


def test_a_cell_is_not_chosen_nor_passed_over_for_its_further_splits():
    arena = Arena()
    records = finals(arena, REAL, splits=3)
    chosen, other, *_ = Results(arena, records).planned("cora")
    assert chosen.remedy == "gcnii"
    for split in range(3, 10):
        records.append(dataclasses.replace(final(arena, "cora", "gcnii", 32, split, 0.5), val=0.1))
        records.append(dataclasses.replace(final(arena, "cora", "plain", 32, split, 0.5), val=1.0))
        records.append(final(arena, "cora", other.remedy, other.depth, split, 0.4))
    again = Results(arena, records)
    (answer,) = again.depth_answers(["cora"])
    assert [answer.cell.remedy, answer.reference.remedy] == ["gcnii", other.remedy]
    assert answer.test.count == 10
    assert again.against_best("cora", 32).reference.remedy == "gcnii"


@pytest.mark.usefixtures("no_pictures")
def test_the_deepest_stacks_are_compared_with_the_best_of_fewer_layers(tmp_path):
    arena = Arena()
    records = finals(arena, ["cora", "photo"], splits=3)
    assert Results(arena, records).depth_answers(["cora", "photo"], 128, 127) == []
    for split in range(3):
        records.append(final(arena, "cora", "plain", 128, split, 0.3 + split / 100, train=0.3))
        records.append(final(arena, "cora", "gated", 128, split, 0.6 + split / 100, train=0.6))
    results = Results(arena, records)
    (answer,) = results.depth_answers(results.telling, 128, 127)
    assert (answer.cell.remedy, answer.cell.depth) == ("gated", 128)
    shallow = results.depth_answers(["cora"])[0]
    assert answer.reference is shallow.cell or answer.reference is shallow.reference
    assert answer.test.difference == pytest.approx(answer.means[0] - answer.means[1])
    # The planned comparison of 32 layers is what it was.
    assert shallow == Results(arena, finals(arena, ["cora"], splits=3)).depth_answers(["cora"])[0]
    write_arena(results, tmp_path)
    page = (tmp_path / "arena.md").read_text()
    assert "**And 128 layers?** On cora, the best settled model" in page
    assert "| cora | gated 61.0 | " in page
    assert "of the 2 cells with 128 layers" in page
    # Costs are those of 32 layers, which more remedies have.
    assert "| 128 layers | seconds, 32 | MB, 32 |" in page
    assert "seconds, 128" not in page
    # Without them the page says nothing of them.
    assert "And 128" not in terminal_summary(Results(arena, finals(arena, ["cora"], splits=3)))


def test_the_best_other_remedy_is_compared_with_the_best_skip_with_a_norm_once_a_set():
    arena = Arena()
    records = []
    for name in ("cora", "photo"):
        for split in range(3):
            scores = {"residual_batch": 0.7, "linear_batch": 0.8, "gcnii": 0.9, "plain": 0.5}
            for remedy, score in scores.items():
                for depth in (2, 32):
                    records.append(final(arena, name, remedy, depth, split, score + split / 100))
    results = Results(arena, records)
    answers = results.sufficiency_answers(["cora", "photo", "minesweeper"])
    assert [answer.cell.set for answer in answers] == ["cora", "photo"]
    for answer in answers:
        assert (answer.cell.remedy, answer.reference.remedy) == ("gcnii", "linear_batch")
        assert answer.cell.depth == answer.reference.depth == 32
        assert answer.test.difference == pytest.approx(0.1)
    # Both comparisons of a set are about the best deep cell, which is named once.
    names = [(cell.remedy, cell.depth) for cell in results.planned("cora")]
    assert names == [("gcnii", 32), ("gcnii", 2), ("linear_batch", 32)]


def test_the_corrected_test_knows_what_splits_share():
    arena = Arena()
    results = Results(arena, finals(arena, ["cora", "transfer"]))
    assert results.ratio("cora") == 0.25
    assert results.ratio("transfer") == 0
    one, other = (results.cells["transfer", remedy, 2] for remedy in ("plain", "gated"))
    expected = stats.ttest_rel(one.scores(), other.scores()).pvalue
    assert results.paired(one, other).p == pytest.approx(expected)


def test_a_cell_that_is_not_settled_is_marked_and_never_ranked_nor_chosen():
    arena = Arena()
    records = []
    for record in finals(arena, REAL):
        is_best = record.job.remedy == "gcnii" and record.job.depth == 32
        records.append(dataclasses.replace(record, settled=not is_best or record.job.split == 0))
    results = Results(arena, records)
    assert "gcnii" not in [cell.remedy for cell in results.ranked("cora", 32)]
    assert "gcnii" in [cell.remedy for cell in results.ranked("cora", 2)]
    assert all(answer.cell.remedy != "gcnii" for answer in results.depth_answers(REAL))
    assert "gcnii" not in results.ranks(32).names
    (row,) = [
        line
        for line in terminal_summary(results).splitlines()
        if line.startswith("| gcnii | ") and "†" in line
    ][:1]
    assert "(1)" not in row.split("|")[3]


def test_ranks_and_pairs_are_over_the_splits_that_all_have():
    arena = Arena()
    records = finals(arena, REAL, splits=5)
    # A further split on which the first remedy is far better than it ever was.
    records.append(final(arena, "cora", "plain", 32, 5, 0.99))
    results = Results(arena, records)
    assert results.ranked("cora", 32)[-1].remedy == "plain"
    assert results.splits(results.ranked("cora", 32)) == 5
    plain, gated = (results.cells["cora", remedy, 32] for remedy in ("plain", "gated"))
    assert results.paired(plain, gated).count == 5


def test_groups_over_sets_and_on_one_set_are_those_of_the_tests():
    arena = Arena()
    results = Results(arena, finals(arena, [*REAL, "transfer", "eccentricity"]))
    ranks = results.ranks(32)
    assert ranks.names[0] == "gcnii"
    assert ranks.names[-1] == "plain"
    assert ranks.sets == 6
    assert all({"gcnii", "plain"} - set(group) for group in ranks.groups)
    family = results.against_best("transfer", 32)
    assert family.reference.remedy == "gcnii"
    assert len(family.others) == len(GAINS) - 1
    assert all(one.is_different and one.test.difference < 0 for one in family.others)


@pytest.mark.usefixtures("no_pictures")
def test_better_than_a_skip_with_a_norm_is_said_by_name(tmp_path):
    arena = Arena()
    results = Results(arena, finals(arena, REAL))
    for name in REAL:
        family = results.against_skip_and_norm(name, 32)
        assert family.reference.remedy == "residual_batch"
        assert "residual_layer" not in [one.cell.remedy for one in family.others]
    text = write_arena(results, tmp_path).read_text()
    row = next(line for line in text.splitlines() if line.startswith("| cora | residual_batch"))
    assert [entry.strip() for entry in row.split("|")[3:6]] == ["gcnii", "1", "3"]
    assert (
        "better than a skip with a norm on cora, squirrel_filtered, minesweeper and photo" in text
    )


def test_a_training_that_diverged_counts_as_a_constant_prediction():
    arena = Arena()
    record = final(arena, "cora", "plain", 32, 0, math.nan)
    record = dataclasses.replace(record, status="diverged", settled=False)
    cell = Results(arena, [record]).cells["cora", "plain", 32]
    assert cell.mean == 0.3
    assert not cell.is_settled
    assert cell.diverged == 1


def test_the_pages_are_written_without_and_with_records_and_are_always_the_same(tmp_path):
    arena = Arena()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "Not enough trainings yet" in write_court([], arena, empty).read_text()
    assert "not enough trainings yet" in write_arena(Results(arena, []), empty).read_text()
    records = [*finals(arena, REAL[:3], splits=2), *probed(arena, ["a", "b", "c"], settings=34)]
    pages = []
    for name in ("once", "twice"):
        folder = tmp_path / name
        folder.mkdir()
        write_arena(Results(arena, records), folder)
        write_court(records, arena, folder)
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        pages.append({path.relative_to(folder): path.read_bytes() for path in found})
    assert pages[0] == pages[1]
    assert len(pages[0]) == 6


def test_records_that_are_trained_again_agree_and_wrong_ones_do_not(tiny, tmp_path):
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        for split in range(3):
            job = final(tiny, "tiny", "plain", 1, split, 0.5).job
            records.add(perform(tiny, job))
    assert [one.agrees for one in train_again(tiny, records, 2)] == [True, True]
    forged = [dataclasses.replace(record, test=0.01) for record in records]
    assert not any(one.agrees for one in train_again(tiny, forged, 3))
    other = dataclasses.replace(tiny, every=2)
    with pytest.raises(ValueError, match="no final training"):
        list(train_again(other, records, 2))


def test_a_wide_interval_of_few_splits_does_not_make_a_record_agree():
    record = final(Arena(), "cora", "plain", 32, 0, 0.5)
    assert Again(record, 0.519, interval=0.5).agrees
    assert not Again(record, 0.521, interval=0.5).agrees
    assert not Again(record, 0.51, interval=0.005).agrees
    assert not Again(record, 0.51, interval=math.nan).agrees
    assert Again(record, 0.50005, interval=math.nan).agrees


def test_a_check_says_whether_the_last_digit_is_equal():
    record = final(Arena(), "cora", "plain", 32, 0, 0.84909)
    assert "agrees: cora, plain, 32 layers" in str(Again(record, 0.84909, interval=0.1))
    assert "now 0.84909, equal to the last digit" in str(Again(record, 0.84909, interval=0.1))
    assert "now 0.8491, not equal to the last digit" in str(Again(record, 0.8491, interval=0.1))
    assert str(Again(record, 0.9, interval=0.1)).startswith("DIFFERS")


def test_a_part_of_ones_own_is_trained_alone_and_placed_among_the_others(
    tiny, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    short = dataclasses.replace(
        tiny, depths=(1,), deepest=None, portions=(1,), tuning=(Round(1, 2),)
    )
    monkeypatch.setattr("gnn_depth.arena.definition.Arena", lambda: short)
    (tmp_path / "halved.py").write_text(NORM)
    assert main(["arena", "--run", "--records", "all.jsonl", "--sets", "tiny"]) == 0
    before = (tmp_path / "all.jsonl").read_bytes()
    own = ["arena", "--add", "halved.py", "--records", "all.jsonl", "--output", "own.jsonl"]
    assert main([*own, "--sets", "tiny"]) == 0
    assert (tmp_path / "all.jsonl").read_bytes() == before
    assert {record.job.remedy for record in Records("own.jsonl")} == {"halved"}
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("| halved |")]
    assert "| plain |" in printed
    assert "%" not in row


def test_an_edited_plugin_is_trained_again(tiny, tmp_path):
    plugin = tmp_path / "thirds.py"
    plugin.write_text(NORM.replace("halved", "thirds"))
    found = remedies_of(str(plugin))
    assert found["thirds"].code == plugin_version(str(plugin))
    plugin.write_text(plugin.read_text().replace("x / 2", "x / 3"))
    edited = dataclasses.replace(found["thirds"], code=plugin_version(str(plugin)))
    job = TrainingJob("final", "tiny", "thirds", 2, 4, 0, 0, 6)
    arenas = [tiny.with_remedies(one) for one in (found, {"thirds": edited})]
    one, other = (training_identity(arena, job) for arena in arenas)
    assert one != other
    record = TrainingRecord(job, one, "finished")
    assert [belongs(arena, record) for arena in arenas] == [True, False]


def test_a_plugin_without_a_part_of_a_model_cannot_be_added(tmp_path):
    (tmp_path / "nothing_here.py").write_text('"""Nothing."""\n')
    with pytest.raises(ValueError, match="registers no part"):
        remedies_of(str(tmp_path / "nothing_here.py"))


def test_what_the_command_refuses(tmp_path, capsys):
    records = f"--records={tmp_path / 'none.jsonl'}"
    for words, said in (
        (["--run", "--verify", "2"], "one of"),
        (["--max-hours", "2"], "--max-hours"),
        (["--verify", "2", "--accelerator", "gpu"], "--accelerator"),
        ([records], "no file of records"),
        (["--sets", "corra", records], "'cora'"),
        (["--remedies", "plane", records], "'plain'"),
    ):
        assert main(["arena", *words]) == 2
        assert said in capsys.readouterr().err


def test_the_command_says_with_its_exit_code_that_a_record_differs(tiny, tmp_path, monkeypatch):
    key = ("tiny", "plain", 1, 0)
    monkeypatch.setattr("gnn_depth.arena.definition.Arena", lambda: tiny)
    monkeypatch.setattr(checking, "perform", lambda arena, job: final(arena, *key, test=0.9))
    path = tmp_path / "r.jsonl"
    with Records(path, writes=True) as records:
        records.add(final(tiny, *key, test=0.9))
    assert main(["arena", "--verify", "1", "--records", str(path)]) == 0
    monkeypatch.setattr(checking, "perform", lambda arena, job: final(arena, *key, test=0.2))
    assert main(["arena", "--verify", "1", "--records", str(path)]) == 1


def test_a_cell_that_has_just_begun_keeps_no_set_from_being_compared():
    arena = Arena().restricted(["cora", "cora_cold", "minesweeper"], list(GAINS))
    records = finals(arena, ["cora", "cora_cold", "minesweeper"], splits=3)
    begun, whole = list(GAINS)[-1], Results(arena, records)
    few = []
    for record in records:
        job = record.job
        is_begun = (job.set, job.remedy, job.depth) == ("cora", begun, 32)
        if not (is_begun and job.split > 0):
            few.append(record)
    results = Results(arena, few)
    assert results.dropped(32) == {begun: ["only begun on cora"]}
    assert results.against_best("cora", 32).splits == 3
    for one, other in zip(
        results.depth_answers(["cora"]), whole.depth_answers(["cora"]), strict=True
    ):
        assert (one.cell, one.test) == (other.cell, other.test)


def test_ranks_leave_out_a_set_with_few_remedies_instead_of_most_remedies():
    sets = ["cora", "cora_cold", "minesweeper", "photo"]
    arena = Arena().restricted(sets, list(GAINS))
    records = []
    for record in finals(arena, sets, splits=3):
        if record.job.set != "photo" or record.job.remedy == "gcnii":
            records.append(record)
    results = Results(arena, records)
    assert results.ranked_sets(32) == ["cora", "cora_cold", "minesweeper"]
    assert results.ranks(32).sets == 3


def test_a_row_has_a_cell_for_each_column_where_depths_are_missing(tmp_path):
    arena = Arena().restricted(["cora"], ["plain", "residual"])
    records = [
        final(arena, "cora", "plain", 2, 0, 0.8),
        final(arena, "cora", "plain", 8, 0, 0.7),
        final(arena, "cora", "residual", 2, 0, 0.8),
    ]
    page = write_arena(Results(arena, records), tmp_path).read_text()
    section = page[page.index("### cora") :].split("\n\n")[1]
    rows = section.splitlines()
    assert len(rows) == 4
    assert {row.count("|") for row in rows} == {6}


# Of the pictures only the names are compared: another Matplotlib draws other pixels.
@pytest.mark.usefixtures("no_pictures")
def test_the_committed_pages_are_those_of_the_committed_records(tmp_path):
    arena = Arena()
    records = [one for one in Records(ROOT / "docs/results/arena.jsonl.gz") if belongs(arena, one)]
    made = write_arena(Results(arena, records), tmp_path)
    assert made.read_text() == (ROOT / "docs/arena.md").read_text()
    made = write_court(records, arena, tmp_path)
    assert made.read_text() == (ROOT / "docs/court.md").read_text()
    for picture in tmp_path.rglob("*.png"):
        assert (ROOT / "docs/pictures" / picture.name).is_file()


def test_records_of_another_definition_are_left_out_and_counted(
    tiny, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "r.jsonl"
    with Records(path, writes=True) as records:
        records.add(final(tiny, "tiny", "plain", 1, 0, test=0.9))
        other = dataclasses.replace(
            tiny, remedies={**tiny.remedies, "plain": ArenaRemedy({"norm": "batch"})}
        )
        records.add(final(other, "tiny", "plain", 2, 0, test=0.2))
        records.add(final(Arena(), "cora", "plain", 2, 0, test=0.2))
    monkeypatch.setattr("gnn_depth.arena.definition.Arena", lambda: tiny)
    assert main(["arena", "--records", str(path)]) == 0
    printed = capsys.readouterr()
    assert "2 records" in printed.err
    assert "90.0" in printed.out
    assert "20.0" not in printed.out
