import math
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.published import (
    PublishedNumber,
    agreement_of,
    compare_published,
    parse_published,
)
from gnn_depth.reports.table import tabulate
from tests.reports.conftest import cell

ENTRY = {
    "source": "Mustafa et al. 2023, table 6",
    "interval": "std",
    "runs": 5,
    "where": {"data": "Cora", "norm": "lipschitz"},
    "over": "depth",
    "values": {2: 82.1, 5: "77.1 ± 0.5", 10: "78.0 +- 1.25", 20: "72.2+/-2"},
}


def test_numbers_are_read_in_the_unit_of_our_metrics():
    found = parse_published([ENTRY])
    assert found[0].where == {"data": "Cora", "norm": "lipschitz", "depth": "2"}
    assert [one.where["depth"] for one in found] == ["2", "5", "10", "20"]
    assert [one.number.mean for one in found] == pytest.approx([0.821, 0.771, 0.78, 0.722])
    assert [one.number.half for one in found] == [None, 0.005, 0.0125, 0.02]


def test_rounding_is_half_a_unit_of_the_last_printed_digits():
    printed = {
        "82.1": 0.0005,
        "78": 0.005,
        "77.1 +- 0.5": 0.001,
        "56.76 +- 0.00": 0.0001,
        "1.5e1": 0.005,
    }
    found = parse_published([ENTRY | {"values": {text: text for text in printed}}])
    assert [one.number.rounding for one in found] == pytest.approx([*printed.values()])


def test_a_number_that_yaml_has_shortened_has_the_digits_of_its_entry():
    # 82.10 is 82.1 in YAML.
    found = parse_published([ENTRY | {"values": {2: 82.10, 5: 79.95, 10: "78.0", 20: 80}}])
    assert [one.number.rounding for one in found] == pytest.approx([5e-5, 5e-5, 5e-4, 5e-3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sourc": "x"}, "'sourc'.*'source'"),
        ({"interval": "sdt"}, "'sdt'.*'std'"),
        ({"values": {2: "about 80"}}, "value of 2 .*not 'about 80'"),
        ({"over": None}, r"'over'"),
        ({"runs": 0}, "'runs'.*not 0"),
        ({"interval": "none"}, r"value of 5: '77.1 ± 0.5' .*std"),
    ],
)
def test_an_entry_that_is_not_understood_is_named(change, message):
    with pytest.raises(
        ReportError, match=r"^numbers.yaml, entry 2 \(Mustafa et al. 2023, table 6\).*" + message
    ):
        parse_published([ENTRY, ENTRY | change], "numbers.yaml")


@pytest.mark.parametrize(
    ("ours", "number", "interval", "word"),
    [
        ([0.80, 0.82], PublishedNumber(0.82, 0.01), "std", "inside"),  # exactly on the edge
        ([0.80, 0.82], PublishedNumber(0.825, 0.005), "std", "overlapping"),  # ours 0.81 +- 0.01414
        ([0.80, 0.82], PublishedNumber(0.85, 0.01), "std", "outside"),
        # Ours is 0.81 +- 0.127: t(0.975, 1) = 12.7.
        ([0.80, 0.82], PublishedNumber(0.90, 0.01), "ci", "overlapping"),
        # Without an interval only rounding makes a number "inside".
        ([0.80, 0.82], PublishedNumber(0.811), None, "overlapping"),
        ([0.80, 0.82], PublishedNumber(0.811, None, 0.001), None, "inside"),
        ([0.81], PublishedNumber(0.815, 0.01), "std", "inside"),
        # One run against one number: nothing to say.
        ([0.82], PublishedNumber(0.81), None, "undecided"),
        # Almost any number would agree.
        ([0.81], PublishedNumber(0.815, 0.16), "std", "undecided"),
        ([0.5, 0.9], PublishedNumber(0.8, 0.01), "std", "undecided"),
        ([], PublishedNumber(0.81, 0.01), "std", "no value"),
    ],
)
def test_the_agreement_of_a_cell(ours, number, interval, word):
    assert agreement_of(cell(*ours), number, interval) == word


values = st.floats(0, 1)
numbers = st.builds(PublishedNumber, values, st.floats(0, 0.15), st.floats(0, 0.005))


@given(st.lists(values, min_size=1, max_size=6), numbers, st.integers(1, 20))
def test_runs_are_compared_with_the_interval_of_as_many_runs(ours, number, runs):
    level = agreement_of(cell(*ours), number, "ci", runs)
    k = min(len(ours), runs)
    half = number.half * (runs / k) ** 0.5
    distance = abs(math.fsum(ours) / len(ours) - number.mean)
    assume(abs(distance - half - number.rounding) > 1e-6 and abs(half - 0.15) > 1e-6)
    if half > 0.15:
        assert level == "undecided"
    else:
        assert (level == "inside") == (distance <= half + number.rounding)
    if k == runs:
        assert level == agreement_of(cell(*ours), number, "ci")


def test_every_source_speaks_of_the_cells_that_it_is_about(run, runs):
    for data, norm, depth in product(("Cora", "CiteSeer"), ("lipschitz", "none"), (2, 10)):
        for seed, value in enumerate((0.80, 0.82)):
            run(value, seed, data=data, norm=norm, depth=depth)
    table = tabulate(read_runs(runs), ["data", "depth"], ["norm"])
    other = ENTRY | {"source": "B", "where": {"norm": "lipschitz"}, "interval": "none"}
    other["values"] = {"10.0": 80.4}
    found = compare_published(table, parse_published([ENTRY, other]))
    assert [(one.labels, one.published.source, one.level) for one in found] == [
        (("CiteSeer", "10", "lipschitz"), "B", "overlapping"),
        (("Cora", "2", "lipschitz"), ENTRY["source"], "overlapping"),
        (("Cora", "10", "lipschitz"), ENTRY["source"], "outside"),
        (("Cora", "10", "lipschitz"), "B", "overlapping"),
    ]
    assert found[1].published.number.mean == pytest.approx(0.821)


def test_an_axis_that_the_table_does_not_show_is_known_from_the_runs(run, runs):
    for depth in (2, 10):
        run(0.8, data="Cora", depth=depth)
    table = tabulate(read_runs(runs), ["depth"])
    entry = {"source": "A", "over": "depth", "values": {2: 80}}

    def count(**where):
        return len(compare_published(table, parse_published([entry | {"where": where}])))

    assert (count(data="Cora"), count(layer="gat"), count(data="PubMed")) == (1, 1, 0)
    with pytest.raises(ReportError, match=r"'dats'.*'data'"):
        count(dats="Cora")
