"""What would be read, and the one message for all that needs a decision."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

from gnn_depth.cli.config import files_as_flags
from gnn_depth.data import UserGraph
from gnn_depth.data.checks import DataError
from gnn_depth.data.columns import NodeColumns, facts_of, flag, propose
from gnn_depth.yaml_limits import value_in
from tests.cli.conftest import QUIET, SMALL

NODES = 60


@pytest.fixture
def mixed(gnn_depth: Callable) -> Callable:
    """The command line, in a folder with tables that leave everything open."""
    rng = np.random.default_rng(0)
    kind = rng.choice(3, NODES, p=[0.7, 0.25, 0.05])
    kind[:3] = 2
    nodes = pd.DataFrame(
        {
            "key": [f"k{number}" for number in range(NODES)],
            "age": rng.integers(18, 90, NODES).astype(float),
            "views": rng.lognormal(5, 3, NODES).round(2),
            "city": np.array(["Rome", "Oslo"])[np.arange(NODES) % 2],
            "since": pd.date_range("2020-01-01", periods=NODES).strftime("%Y-%m-%d"),
            "remark": [f"remark {number}" for number in range(NODES)],
            "kind": np.array(["a", "b", "c"])[kind],
        }
    )
    nodes.loc[4, "age"] = np.nan
    nodes.to_csv("nodes.csv", index=False)
    ends = nodes.key.to_numpy()[rng.integers(NODES - 5, size=(100, 2))]
    pd.DataFrame(ends, columns=["a", "b"]).to_csv("edges.csv", index=False)
    return gnn_depth


def proposed(text: str) -> list[str]:
    """The words of the command that inspect proposes."""
    return shlex.split(text.partition("Train with")[2].replace("\\\n", " "))[1:]


def test_inspect_shows_columns_graph_and_flags_that_train(mixed: Callable):
    answer = mixed("inspect", "nodes.csv", "edges.csv")
    assert answer.code == 0, answer.err
    for words in (
        "age +integers from .* filled",
        "city .*text, 2 different: Oslo, Rome",
        "since .*dates from 2020-01-01",
        "remark .*60 different",
        "nodes +60 with 5 features",
        r"no neighbour +\d+ nodes",
        "components",
        "task +multiclass",
        r"classes +3: a \d+",
        "proposed",
        "homophily +0",
        "'kind' is a guess",
    ):
        assert re.search(rf"(?s){words}", answer.out), words
    words = proposed(answer.out)
    assert {"--data.dates", "--data.fill", "--data.drop", "--model.class_weight"} <= set(words)
    trained = mixed(*words, *QUIET, "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu")
    assert trained.code == 0, trained.err
    assert "nodes by class (rows) and predicted class (columns)" in trained.out
    (folder,) = Path("runs").glob("*/*")
    assert "views" in (folder / "schema.yaml").read_text()


def test_two_files_alone_lead_to_one_message_with_every_decision_and_its_flags(refused, mixed):
    said = refused("fit", "nodes.csv", "edges.csv")
    assert "5 decisions are needed" in said
    for words in ("no column is the label", "'age' is missing", "'city'", "'since'", "'remark'"):
        assert words in said
    (line,) = [line for line in said.splitlines() if line.startswith("For example: ")]
    words = ["fit", "edges.csv", "nodes.csv", *shlex.split(line)[2:]]  # by its name, in any order
    answer = mixed(*words, *QUIET, "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu")
    assert answer.code == 0, answer.err


def test_no_line_of_inspect_is_wider_than_the_terminal(mixed: Callable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = mixed("inspect", "nodes.csv", "edges.csv").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]


def test_what_is_decided_is_proposed_no_more(mixed: Callable):
    given = ["--data.label", "city", "--data.drop", "[remark, kind]", "--data.fill", "mean"]
    words = proposed(mixed("inspect", "nodes.csv", "edges.csv", *given).out)
    assert words[words.index("--data.label") + 1] == "city"
    assert words.count("--data.drop") == 1
    assert "--data.categories" not in words
    assert words[words.index("--model.task") + 1] == "binary"


def test_large_numbers_to_predict_are_proposed_to_be_scaled(mixed: Callable):
    words = proposed(mixed("inspect", "nodes.csv", "edges.csv", "--data.targets", "[views]").out)
    assert words[words.index("--data.scale_target") + 1] == "standard"


def test_a_layer_that_keeps_a_nodes_own_columns_is_proposed_for_numbers(mixed: Callable):
    numbers = mixed("inspect", "nodes.csv", "edges.csv", "--data.targets", "[views]")
    classes = mixed("inspect", "nodes.csv", "edges.csv", "--data.label", "city")
    assert "--model.layer sage" in numbers.out
    assert "--model.layer" not in classes.out


def test_inspect_of_other_data_shows_the_graph(gnn_depth: Callable, tmp_path: Path):
    np.savez("graph.npz", x=np.eye(6), y=np.arange(6) % 2, edge_index=[[0, 1, 1], [1, 0, 1]])
    assert "1 from a node to itself" in gnn_depth("inspect", "graph.npz").out
    assert "gnn-depth fit graph.npz" in gnn_depth("inspect", "graph.npz").out
    answer = gnn_depth("inspect", "--data", "SyntheticCitation", *SMALL)
    assert re.search("nodes +60 with 16 features", answer.out), answer.err


def test_files_stand_before_options():
    flags = ["--data", "UserGraph", "--data.path", "links.tsv", "--data.nodes", "people.tsv"]
    assert files_as_flags(["links.tsv", "people.tsv", "--x", "1"]) == [*flags, "--x", "1"]
    assert files_as_flags(["people.tsv", "links.tsv"]) == flags
    assert files_as_flags(["--x", "a.csv"]) == ["--x", "a.csv"]


@pytest.mark.parametrize(
    "value",
    [
        "topic",
        "two words",
        "it's",
        True,
        False,
        None,
        3,
        0.5,
        ["a", "b c", "yes", "12", 'say "x"'],
        {"a b": "log1p", "*": "x"},
    ],
)
def test_a_proposed_flag_is_read_back_as_its_value(value):
    (text,) = shlex.split(flag(value))
    assert (text if isinstance(value, str) else value_in(text)) == value


@pytest.mark.parametrize(
    ("values", "kind", "distinct"),
    [
        ([1, 2, 3], "integers", 3),
        ([0, 1, 1], "flags", 2),
        ([0.5, 1, np.nan], "numbers", 2),
        (["1", "2", "x"], "integers", 2),
        (["a", "b", ""], "text", 2),
        (["2020-01-31", "2021-02-01T10:00", None], "dates", 2),
        (["31.01.2020", "01.02.2021", "x"], "text", 3),
        (["31.01.2020", "01.02.2021", ""], "other dates", 2),
        ([None, None, None], "nothing", 0),
        ([np.inf, 1, 2], "integers", 2),
    ],
)
def test_columns_are_of_the_kind_of_their_values(values, kind, distinct):
    facts = facts_of("c", pd.Series(values))
    assert (facts.kind, facts.distinct) == (kind, distinct)


def test_a_column_named_as_a_label_is_proposed_and_others_by_their_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": [1, 2] * 9, "d": rng.normal(size=18), "last": ["a", "b", "c"] * 6})
    facts = [facts_of(name, frame[name]) for name in frame]
    assert propose(facts, NodeColumns(None), True, False).options["label"] == "y"
    assert propose(facts[1:], NodeColumns(None), True, False).options["label"] == "last"
    numbers = [facts_of("price", pd.Series(rng.normal(size=18)))]
    assert "label" not in propose(numbers, NodeColumns(None), True, False).options


def test_repeated_payments_get_flags_that_fit_takes(mixed: Callable):
    edges = pd.read_csv("edges.csv")
    edges = pd.concat([edges, edges[:30]], ignore_index=True)
    amounts = np.random.default_rng(0).lognormal(8, 1, len(edges))
    edges.assign(amount=amounts, kind=np.array(["card", "cash"])[np.arange(len(edges)) % 2]).to_csv(
        "edges.csv", index=False
    )
    files = ("nodes.csv", "edges.csv", "--data.edge_features", "[amount, kind]")
    words = proposed(mixed("inspect", *files).out)
    for option, value in (
        ("--data.undirected", "true"),
        ("--data.repeated_edges", "sum"),
        ("--data.edge_standardize", "standard"),
    ):
        assert words[words.index(option) + 1] == value
    trained = mixed(*words, *QUIET, "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu")
    assert trained.code == 0, trained.err


@pytest.mark.parametrize(("factor", "is_scaled"), [(1000, True), (1, False)])
def test_a_single_column_of_large_numbers_of_edges_is_proposed_to_be_scaled(
    mixed: Callable, factor: int, is_scaled: bool
):
    edges = pd.read_csv("edges.csv")
    edges.assign(amount=factor * np.linspace(0.5, 4, len(edges))).to_csv("edges.csv", index=False)
    answer = mixed("inspect", "nodes.csv", "edges.csv", "--data.edge_features", "[amount]")
    assert ("--data.edge_standardize standard" in answer.out) == is_scaled


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ("<html><body>404</body></html>\n", "a,b\n0,1\n", "no rows"),
        ("id,y,size\n0,a,1\n1,b,2\n", "a,b\n0,1\n0,7\n", "b '7' is not an id"),
    ],
)
def test_inspect_of_what_cannot_be_read_is_an_error_without_a_proposal(
    gnn_depth: Callable, nodes: str, edges: str, words: str
):
    Path("n.csv").write_text(nodes)
    Path("e.csv").write_text(edges)
    answer = gnn_depth("inspect", "n.csv", "e.csv")
    assert answer.code == 2
    assert words in answer.err
    assert "n.csv: " in answer.out
    assert "rain with" not in answer.out


def test_a_decision_on_a_graph_in_one_file_proposes_no_command_that_fails(tmp_path):
    graph = networkx.path_graph(6)
    for node in graph:
        graph.nodes[node].update(kind="ab"[node % 2], remark=f"text {node}")
    path = tmp_path / "graph.graphml"
    networkx.write_graphml(graph, path)
    with pytest.raises(DataError, match="a decision is needed") as error:
        UserGraph(str(path), label="kind").batch  # noqa: B018  (reads it)
    assert "gnn-depth inspect" not in str(error.value)
