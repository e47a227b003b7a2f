"""A user's graph from two tables, as people write them."""

import gzip
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import config

from gnn_depth.data import DataError, MissingFeatures, UserGraph
from gnn_depth.data.repeated_edges import once_each_way
from gnn_depth.training.models import build_model
from gnn_depth.training.prediction import predictions_of
from tests.data.conftest import noted

# Two classes, a node without a label, ids that are no integers.
NODES = "paper,topic,cites,age\np1,theory,0.5,1\np2,ml,1,0\n007,,0,3\np4,ml,2,2\np5,theory,1,1\n"
EDGES = "citing,cited\np1,p2\np2,007\np4,p5\n"
# The same with a split, integer ids and a column that is neither.
SPLIT = "id,topic,set,x\n1,a,train,1\n20,b,Val,2\n3,a,test,3\n4,b,,4\n5,,train,5\n"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UserGraph]:
    """``graph(nodes, edges, ...)``: a set of two files with these contents."""
    monkeypatch.chdir(tmp_path)

    def make(
        nodes: str | bytes = NODES, edges: str | bytes = EDGES, ext: str = ".csv", **options
    ) -> UserGraph:
        for name, content in (("nodes", nodes), ("edges", edges)):
            Path(name + ext).write_bytes(content.encode() if isinstance(content, str) else content)
        return UserGraph(
            **{"path": f"edges{ext}", "nodes": f"nodes{ext}", "label": "topic"} | options
        )

    return make


def parquet(frame: pd.DataFrame) -> bytes:
    frame.to_parquet("written.parquet")
    return Path("written.parquet").read_bytes()


def test_tables_become_a_graph_with_the_users_names(graph: Callable):
    data = graph()
    for named in (data, MissingFeatures(data, rate=1.0)):
        assert named.node_ids.tolist() == ["p1", "p2", "007", "p4", "p5"]
        assert named.class_names == ["ml", "theory"]
    assert data.batch.y.tolist() == [1, 0, 0, 0, 1]
    assert data.batch.x.tolist() == [[0.5, 1], [1, 0], [0, 3], [2, 2], [1, 1]]
    assert data.batch.graph.edge_index.T.tolist() == [[0, 1], [1, 2], [3, 4]]


def test_a_node_without_a_label_is_in_no_set_and_every_other_in_one(graph: Callable):
    for train in (0.1, 0.6, 1.0):
        batch = graph(train_fraction=train, val_fraction=0.0).batch
        assert torch.stack(batch.masks).sum(0).tolist() == [1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("ext", "write"),
    [
        (".csv", lambda text: text.replace("\n", "\r\n")),
        (".csv", lambda text: text.encode("utf-8-sig")),
        (".csv", lambda text: text.replace("\n", "\n\n") + "  \n"),
        (".csv", lambda text: text.replace(",", ", ").replace("\n", " \n")),
        (
            ".csv",
            lambda text: "\n".join(f'"{line}"'.replace(",", '","') for line in text.splitlines()),
        ),
        (".TSV", lambda text: text.replace(",", "\t")),
        (".csv.gz", lambda text: gzip.compress(text.encode())),
    ],
    ids=["crlf", "byte order mark", "empty lines", "spaces", "quoted", "tabs", "gzip"],
)
def test_a_table_may_be_written_in_many_ways(graph: Callable, ext: str, write: Callable):
    parts = [part.clone() for part in graph().batch.tensors]
    data = graph(write(NODES), write(EDGES), ext)
    assert all(torch.equal(*pair) for pair in zip(data.batch.tensors, parts))
    assert data.node_ids.tolist() == ["p1", "p2", "007", "p4", "p5"]


def test_parquet_is_read_as_csv_is(graph: Callable):
    wanted = graph()
    nodes = pd.DataFrame(
        {"paper": ["p1", "p2", "007", "p4", "p5"], "topic": ["theory", "ml", None, "ml", "theory"]}
    )
    nodes = nodes.assign(cites=[0.5, 1, 0, 2, 1], age=np.array([1, 0, 3, 2, 1], np.int8)).astype(
        {"topic": "category"}
    )
    edges = pd.DataFrame(
        {"citing": ["p1", "p2", "p4"], "cited": ["p2", "007", "p5"]}, index=[7, 8, 9]
    )
    data = graph(parquet(nodes), parquet(edges), ".parquet")
    assert all(torch.equal(*pair) for pair in zip(data.batch.tensors, wanted.batch.tensors))
    assert (data.class_names, data.node_ids.tolist()) == (
        wanted.class_names,
        wanted.node_ids.tolist(),
    )


def test_integers_with_a_gap_in_parquet_are_integers(graph: Callable):
    nodes = pd.DataFrame(
        {"id": [5, 6, 2**53 + 1], "topic": [1, None, 10], "x": [True, False, True]}
    )
    edges = pd.DataFrame({"s": [5], "t": [2**53 + 1]})
    data = graph(parquet(nodes), parquet(edges), ".parquet")
    assert data.node_ids.tolist() == [5, 6, 2**53 + 1]
    assert data.class_names == ["1", "10"]
    assert data.batch.x.tolist() == [[1], [0], [1]]
    assert data.batch.graph.edge_index.T.tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["0", "-7"], [0, -7]),
        (["7", "007"], ["7", "007"]),
        (["900719925474099311", "9007199254740993"], [900719925474099311, 9007199254740993]),
        (
            ["18446744073709551616", "18446744073709551617"],
            ["18446744073709551616", "18446744073709551617"],
        ),
        (["NA", "None"], ["NA", "None"]),
        (["1.0", "1"], ["1.0", "1"]),
        (['"a, ""b"""', "å"], ['a, "b"', "å"]),
    ],
)
def test_ids_are_integers_or_text_as_it_stands(graph: Callable, ids: list[str], kept: list):
    one, other = ids
    data = graph(f"id,topic,x\n{one},a,1\n{other},b,2\n", f"s,t\n{other},{one}\n{one},{one}\n")
    assert data.node_ids.tolist() == kept
    assert data.batch.graph.edge_index.T.tolist() == [[0, 0], [1, 0]]


def test_edges_given_once_twice_or_to_oneself_run_both_ways_once_if_undirected(graph: Callable):
    edges = "citing,cited,weight\np1,p2,1\np1,p2,1\np2,p1,1\np4,p5,1\np4,p4,1\n"
    directed = graph(edges=edges).batch.graph.edge_index.T.tolist()
    assert sorted(directed) == [[0, 1], [0, 1], [1, 0], [3, 3], [3, 4]]
    both = graph(edges=edges, undirected=True).batch.graph.edge_index.T.tolist()
    assert sorted(both) == [[0, 1], [1, 0], [3, 3], [3, 4], [4, 3]]


TIMED = (
    "citing,cited,times,year,page\n"
    "p1,p2,2,1990,3\np2,007,1,1991,4\np5,p4,0.5,1992,5\np2,p1,2,1990,3\n"
)


def test_columns_of_the_edges_are_their_weights_and_features(graph: Callable):
    columns = {"edge_weight": "times", "edge_features": ["page", "year"]}
    data = graph(edges=TIMED, **columns)
    of_edge = {(0, 1): 2, (1, 2): 1, (4, 3): 0.5, (1, 0): 2}
    for undirected, both in (
        (False, of_edge),
        (True, of_edge | {(t, s): w for (s, t), w in of_edge.items()}),
    ):
        found = graph(edges=TIMED, undirected=undirected, **columns).batch.graph
        assert (
            dict(
                zip(
                    map(tuple, found.edge_index.T.tolist()), found.edge_weight.tolist(), strict=True
                )
            )
            == both
        )
        years = {0.5: [5, 1992], 1: [4, 1991], 2: [3, 1990]}
        assert found.edge_attr.tolist() == [years[weight] for weight in found.edge_weight.tolist()]
    assert data.num_edge_features == 2
    assert graph(edges=TIMED).batch.graph.edge_weight is None


def test_columns_of_numbers_are_targets_and_a_node_without_one_is_in_no_set(graph: Callable):
    nodes = "id,price,size,x\n1,2.5,3,0\n2,,4,1\n3,1e2,5,2\n4,-1,,3\n"
    for targets, y, used in (
        (["price"], [2.5, 0, 100, -1], [1, 0, 1, 1]),
        (["size", "price"], [[3, 2.5], [0, 0], [5, 100], [0, 0]], [1, 0, 1, 0]),
    ):
        data = graph(nodes, "s,t\n1,2\n", label=None, targets=targets, features=["x"])
        assert (data.task, data.num_classes, data.class_names) == (
            "regression",
            len(targets),
            targets,
        )
        assert data.batch.y.tolist() == y
        assert torch.stack(data.batch.masks).sum(0).tolist() == used


@pytest.mark.parametrize(
    ("edges", "options", "words"),
    [
        (TIMED, {"edge_weight": "time"}, "'edges.csv': .*'time'.*'times'"),
        (TIMED, {"edge_features": ["citing"]}, "'edges.csv': .*'citing' has several roles"),
        (
            TIMED + "p4,p5,-3,1,1\n",
            {"edge_weight": "times"},
            "edges.csv', row 4 .*'times' is -3",
        ),
        (
            TIMED + "p4,p5,,1,1\n",
            {"edge_weight": "times"},
            "'edges.csv', row 4 .from 0.: 'times' is missing",
        ),
        (
            TIMED + "p4,p5,1,1,xii\n",
            {"edge_features": ["page"]},
            "'edges.csv': 'page' cannot be a feature of the edges.*'xii', in row 4 .from 0.",
        ),
        (
            TIMED + "p2,p1,1,1,1\n",
            {"edge_weight": "times", "undirected": True},
            "row 4 .from 0.: .*edge_weight.*undirected",
        ),
        (
            TIMED,
            {"label": None, "targets": ["topic"]},
            "'nodes.csv', row 0 .from 0.: 'topic' is theory; targets",
        ),
        (TIMED, {"targets": ["cites"]}, "label 'topic'.*targets.*one of them"),
        (EDGES, {"label": "Topic"}, "'nodes.csv': .*'Topic'.*'topic'.*paper, topic, cites, age"),
        (EDGES, {"ends": ["citing", "sited"]}, "'edges.csv': .*'sited'.*'cited'"),
        (EDGES, {"ends": ["citing", "citing"]}, "'edges.csv': column 'citing' has several roles"),
        (EDGES, {"features": ["topic"]}, "'nodes.csv': column 'topic' .*feature"),
        (EDGES, {"split": "age"}, "'nodes.csv', row 0 .from 0.: .*'1'.*test, train, val"),
    ],
)
def test_columns_that_do_not_serve_are_refused(
    graph: Callable, edges: str, options: dict, words: str
):
    with pytest.raises(DataError, match=words):
        _ = graph(edges=edges, **options).batch


def test_no_edges_and_classes_that_are_numbers_are_legal_and_one_class_is_not(graph: Callable):
    data = graph(NODES.replace("theory", "10").replace("ml", "9"), "citing,cited\n")
    assert data.batch.graph.num_edges == 0
    assert data.class_names == ["9", "10"], "in numerical order"
    assert data.batch.y.tolist() == [1, 0, 0, 0, 1]
    with pytest.raises(DataError, match="only one class, 'ml'"):
        _ = graph(NODES.replace("theory", "ml")).batch


def test_a_column_says_who_is_in_which_set(graph: Callable):
    batch = graph(SPLIT, "s,t\n1,20\n", split="set").batch
    assert [mask.nonzero().flatten().tolist() for mask in batch.masks] == [[0], [1], [2]]


def test_columns_are_chosen_by_name(graph: Callable):
    nodes = "x,topic,city,key,y\n1,a,Rome,k1,5\n2,b,Oslo,k2,6\n3,a,Rome,k3,7\n"
    edges = "weight,from,to\n1,k1,k2\n"
    data = graph(nodes, edges, id="key", features=["y"], categories=["city"], ends=["to", "from"])
    assert data.batch.x.tolist() == [[5, 0, 1], [6, 1, 0], [7, 0, 1]]
    assert data.batch.graph.edge_index.T.tolist() == [[1, 0]]
    assert data.num_features == 3


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        (
            NODES,
            EDGES + "\n\np1,p9\n",
            "'edges.csv', row 3 .from 0.: cited 'p9' .*'paper' of 'nodes.csv'.*'p1'",
        ),
        (NODES, 'citing,cited\n"p1\n",p2\np8,p1\n', "row 1 .from 0.: citing 'p8'"),
        (NODES, EDGES + "p1,\n", "'edges.csv', row 3 .from 0.: cited is missing"),
        (NODES, EDGES + "p1,p2,3\n", "'edges.csv': .*line 5 has 3 values for 2"),
        (NODES, "citing\np1\n", "'edges.csv': .*two ends.*citing"),
        (NODES, "p1,p2\np2,p4\n", "'edges.csv': .*first line.* p1, p2"),
        (NODES, "1,2\n2,1\n", "'edges.csv': .*first line, 1, 2, .*edge_columns"),
        (NODES, "", "'edges.csv': .*empty"),
        (
            NODES,
            EDGES.replace(",", " "),
            r"'edges.csv': .*' '.*','.*separator spaces",
        ),
        (NODES, EDGES.encode("utf-16"), "'edges.csv': .*UTF-8"),
        ("id,topic,x\n1,a,1\n2,b,2,\n", EDGES, "'nodes.csv': .*line 3 has 4 values for 3"),
        (
            "id,topic\n1,a,1\n2,b,2\n",
            EDGES,
            "'nodes.csv': row 0 .* has more values than the 2 columns",
        ),
        (NODES + "p1,ml,1,1\n", EDGES, "'nodes.csv', row 5 .from 0.: id 'p1' .*row 0"),
        (NODES + ",ml,1,1\n", EDGES, "'nodes.csv', row 5 .from 0.: 'paper' is missing"),
        (
            NODES + "p6,ml,,1\n",
            EDGES,
            "'nodes.csv': .*row 5 .from 0.: 'cites' is missing.*fill median.*`features`",
        ),
        (NODES + "p6,ml,1e300,1\n", EDGES, r"'nodes.csv' .*x.5, 0. is 1e.300 .'cites'.*float32"),
        (
            NODES + "p6,ml,1,old\n",
            EDGES,
            "row 5 .from 0.: 'age' is old: .*text, 'old', in row 5.*drop .*age.*`features`",
        ),
        (NODES + "p6,NA,1,1\n", EDGES, "'nodes.csv' .*y.5. is 'NA'.*missing_label 'NA'"),
        (NODES.replace("ml", "").replace("theory", ""), EDGES, "'nodes.csv' .*none of the 5 nodes"),
        (NODES.replace("age", "cites"), EDGES, "'nodes.csv': .*'cites'"),
        (NODES.replace("paper,", ","), EDGES, "'nodes.csv': column 1 .*index=False"),
        (NODES.splitlines()[0] + "\n", EDGES, "'nodes.csv': .*no rows"),
        (
            "id,topic,x\n" + "".join(f"{i},{i / 7},1\n" for i in range(300)),
            "s,t\n1,2\n",
            "y has 300 different classes.*`targets`",
        ),
        (SPLIT, "s,t\n1,20\n", "row 0 .from 0.: 'set' is train: .*--data.split set"),
    ],
)
def test_a_faulty_table_is_refused_by_file_and_line(
    graph: Callable, nodes: str, edges: str | bytes, words: str
):
    with pytest.raises(DataError, match=f"(?s){words}"):
        _ = graph(nodes, edges).batch


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_tables_of_other_separators_are_read_each_by_its_own_and_it_is_said(graph: Callable, sign):
    expected = graph(NODES, EDGES).batch
    data = graph(NODES.replace(",", sign), EDGES)
    assert torch.equal(data.batch.x, expected.x)
    assert torch.equal(data.batch.graph.edge_index, expected.graph.edge_index)
    assert noted(data.notes, f"nodes.csv: its values are separated by {sign!r}")


def test_one_separator_for_tables_of_two_is_refused_with_the_way_out(graph: Callable):
    with pytest.raises(DataError, match="'edges.csv': .*','.*without the option separator"):
        _ = graph(NODES.replace(",", ";"), EDGES, separator="semicolon").batch


def test_ids_in_another_column_than_the_first_are_found_and_the_flag_is_named(graph: Callable):
    lines = NODES.splitlines()
    numbered = [f"{number},{line}" for number, line in enumerate(lines[1:])]
    data = graph("\n".join(["row," + lines[0], *numbered]) + "\n")
    for look in (lambda: data.batch, data.inspect):
        with pytest.raises(DataError, match="'row', is no id.* values of 'paper'.*--data.id paper"):
            look()


def test_a_single_column_stands_for_a_list_of_one_as_in_the_command(graph: Callable):
    expected = graph(features=["age"], drop=["cites"]).batch.x
    data = UserGraph.__new__(UserGraph)
    # As outside of these tests, where nothing checks the types of arguments.
    make = inspect.unwrap(UserGraph.__init__)
    make(data, "edges.csv", "nodes.csv", label="topic", features="age", drop="cites")
    assert torch.equal(data.batch.x, expected)


def test_tables_in_each_other_s_place_are_named(graph: Callable):
    edges = "cited,citing\np1,p2\np1,p4\n"
    data = graph(edges, NODES, label=None)
    for look in (lambda: data.batch, data.inspect):
        with pytest.raises(DataError, match="each other's place: nodes.csv has edges"):
            look()


def test_the_columns_of_a_wide_table_fit_on_a_screen_of_an_error(graph: Callable):
    wide = "".join(f",x{i}" for i in range(300))
    with pytest.raises(DataError, match=r"'x150'.* 302 in all") as caught:
        _ = graph("id,topic" + wide + "\n", features=["x150 "]).batch
    assert len(str(caught.value)) < 400


def test_a_category_is_there(graph: Callable):
    with pytest.raises(
        DataError, match="(?s)'nodes.csv': .*row 0 .from 0.: 'city' is missing.*fill"
    ):
        _ = graph("id,topic,city\n1,0,\n2,1,Rome\n", "s,t\n1,2\n", categories=["city"]).batch


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda nodes: nodes.assign(x=[1, None]), r"row 1 \(from 0\): 'x' is missing"),
        (lambda nodes: nodes.assign(id=["a", "a"]), r"row 1 \(from 0\): id 'a' .*row 0"),
        (
            lambda nodes: nodes.assign(x=pd.Timestamp("2020-01-01")),
            r"row 0 \(from 0\): 'x' is 2020-01-01",
        ),
    ],
)
def test_a_faulty_parquet_table_is_refused_by_file_and_row(
    graph: Callable, change: Callable, words: str
):
    nodes = change(pd.DataFrame({"id": ["a", "b"], "topic": [0, 1], "x": [1.0, 2]}))
    with pytest.raises(DataError, match=rf"'nodes.parquet'.*(\n.*)*{words}"):
        _ = graph(parquet(nodes), parquet(pd.DataFrame({"s": ["a"], "t": ["b"]})), ".parquet").batch


@pytest.mark.parametrize("ext", [".csv.gz", ".parquet"])
@pytest.mark.parametrize(
    "content",
    [b"", b"id,topic,x\n", b"PAR1", gzip.compress(NODES.encode(), mtime=0)[:-12]],
    ids=["empty", "heading", "magic", "cut gzip"],  # the same in every process that collects them
)
def test_a_damaged_table_is_refused_by_name(graph: Callable, ext: str, content: bytes):
    with pytest.raises(DataError, match=rf"'nodes\{ext}': "):
        _ = graph(content, b"", ext).batch


def test_parquet_without_its_library_names_the_extra(
    graph: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"pip install 'gnn-depth\[parquet\]'"):
        _ = graph(b"", b"", ".parquet").batch


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": None, "label": None}, "'edges.csv' .*nodes and label.*--data.label topic"),
        ({"nodes": "away.csv"}, "'away.csv' does not exist"),
        ({"nodes": "nodes.xlsx"}, "nodes 'nodes.xlsx' .*.csv"),
        ({"path": "edges.doc"}, "path 'edges.doc' .*.csv.*.gml.*.npz.*np.savez"),
        ({"path": "graph.npz"}, "nodes .*'graph.npz'"),
        (
            {"path": "graph.npz", "nodes": None, "label": None, "ends": ["a", "b"]},
            "ends .*'graph.npz'",
        ),
    ],
)
def test_options_that_do_not_fit_the_files_are_refused_at_construction(
    graph: Callable, options: dict, words: str
):
    for name in ("edges.doc", "nodes.xlsx", "graph.npz"):
        Path(name).write_text("")
    graph()
    with pytest.raises(DataError, match=words):
        UserGraph(**{"path": "edges.csv", "nodes": "nodes.csv", "label": "topic"} | options)


def test_a_checkpoint_of_other_classes_is_refused(graph: Callable):
    state = graph().state_dict()
    graph().load_state_dict(state)
    with pytest.raises(DataError, match=r"ml, theory.* ai, theory"):
        graph(NODES.replace("ml", "ai")).load_state_dict(state)


def made_of(folder, nodes: str, edges: str = "a,b\n0,1\n", **options) -> UserGraph:
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    return UserGraph(str(folder / "e.csv"), str(folder / "n.csv"), label="y", **options)


def test_categories_that_are_one_number_but_two_texts_stay_two(tmp_path):
    rows = [f"{row},{('1.1', '1.10', '2')[row % 3]},{'ab'[row % 2]}" for row in range(30)]
    data = made_of(tmp_path, "\n".join(["id,version,y", *rows]), categories=["version"])
    assert data.schema.columns[0].values == ("1.1", "1.10", "2")
    assert (data.batch.x.sum(0) == 10).all()


def test_a_feature_that_is_the_label_by_another_name_is_said(tmp_path):
    rows = [f"{row},{row % 7},{'ab'[row % 2]},{5 - row % 2},{'yn'[row % 2]}" for row in range(30)]
    nodes = "\n".join(["id,size,kind,code,y", *rows])
    told = made_of(tmp_path, nodes, categories=["kind"])
    told.batch  # noqa: B018
    (note,) = noted(told.notes, "another name")
    assert note.startswith("'code' and 'kind' have one value for each class of 'y'")
    unlabelled = "\n".join([nodes, "30,2,a,4,unknown", "31,3,b,5,unknown"])
    marked = made_of(tmp_path, unlabelled, categories=["kind"], missing_label="unknown")
    marked.batch  # noqa: B018
    assert note in marked.notes
    other = nodes.replace("29,1,b,4,n", "29,1,b,4,y")
    assert other != nodes
    untold = made_of(tmp_path, other, categories=["kind"])
    untold.batch  # noqa: B018
    assert not noted(untold.notes, "another name")


@pytest.mark.parametrize(
    ("names", "values"),
    [("is_train,is_test", "True,False"), ("train,val", "1,0"), ("trainMask,Train", "1,0")],
)
def test_columns_that_look_like_a_split_are_no_features_unless_they_are_listed(
    tmp_path, names, values
):
    other = ",".join(reversed(values.split(",")))
    nodes = f"id,y,age,{names}\n0,a,0.5,{values}\n1,b,0.25,{other}\n"
    with pytest.raises(DataError, match="look like the split"):
        _ = made_of(tmp_path, nodes).batch
    assert made_of(tmp_path, nodes, features=["age", *names.split(",")]).num_features == 3


def test_features_with_such_a_word_in_their_name_are_features(tmp_path):
    nodes = "id,y,test_score,training_hours\n0,a,1,2.5\n1,b,0,7\n"
    assert made_of(tmp_path, nodes.replace(",1,", ",0.5,")).num_features == 2


def test_columns_of_edges_that_are_not_read_are_said(tmp_path):
    nodes, edges = "id,y,x\n0,a,1.5\n1,b,0\n", "a,b,weight,kind\n0,1,2.5,k\n"
    data = made_of(tmp_path, nodes, edges)
    assert noted(data.notes, "weight and kind of e.csv are not read")
    for chosen in ({"edge_weight": "weight"}, {"edge_weight": ""}, {"edge_features": ["weight"]}):
        assert not noted(made_of(tmp_path, nodes, edges, **chosen).notes, "not read")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("A a B", "'A' and 'a' are two classes"),
        ("1 1.0 x", "'1' and '1.0' are two classes"),
        ("a b unknown", "'unknown' is a class.*missing_label 'unknown'"),
        ("a b ?", r"missing_label '\?'"),
    ],
)
def test_names_of_classes_that_may_be_one_or_none_are_said(tmp_path, labels, words):
    rows = "".join(f"{row},{label},0.5\n" for row, label in enumerate(labels.split()))
    notes = made_of(tmp_path, f"id,y,x\n{rows}").notes
    assert re.search(words, "\n".join(notes))


PAID = (
    "citing,cited,amount,ways\np1,p2,2,1\np1,p2,3,5\np2,p1,10,0\np4,p4,1,1\np4,p4,4,2\np5,p4,7,3\n"
)
#: The rows of PAID with the same ends, by direction and without one.
ONE_WAY = {(0, 1): [(2, 1), (3, 5)], (1, 0): [(10, 0)], (3, 3): [(1, 1), (4, 2)], (4, 3): [(7, 3)]}
BOTH_WAYS = {
    (0, 1): [(2, 1), (3, 5), (10, 0)],
    (3, 3): [(1, 1), (4, 2)],
    (3, 4): [(7, 3)],
}
BOTH_WAYS |= {(target, source): rows for (source, target), rows in BOTH_WAYS.items()}


@pytest.mark.parametrize("rule", ["sum", "mean"])
@pytest.mark.parametrize(("undirected", "rows_of"), [(False, ONE_WAY), (True, BOTH_WAYS)])
def test_rows_with_the_same_ends_are_one_edge_with_their_sum_or_mean(
    graph: Callable, rule: str, undirected: bool, rows_of: dict
):
    options = {"edge_weight": "amount", "edge_features": ["ways"], "undirected": undirected}
    data = graph(edges=PAID, repeated_edges=rule, **options)
    found = data.batch.graph
    edges = list(map(tuple, found.edge_index.T.tolist()))
    assert sorted(edges) == sorted(rows_of)
    for edge, weight, features in zip(edges, found.edge_weight, found.edge_attr, strict=True):
        expected = getattr(np.array(rows_of[edge], float), rule)(0)
        assert [weight.item(), features.item()] == pytest.approx(expected.tolist())
    assert noted(data.notes, "6 rows of edges are merged into")


def test_features_of_repeated_edges_are_scaled_after_they_are_added(graph: Callable):
    options = {"edge_features": ["amount"], "repeated_edges": "sum", "train_fraction": 1.0}
    found = graph(edges=PAID, edge_standardize="standard", val_fraction=0.0, **options).batch.graph
    sums = np.array([sum(amount for amount, _ in rows) for rows in ONE_WAY.values()], float)
    expected = dict(zip(ONE_WAY, (sums - sums.mean()) / sums.std(), strict=True))
    edges = map(tuple, found.edge_index.T.tolist())
    wanted = [expected[edge] for edge in edges]
    np.testing.assert_allclose(found.edge_attr[:, 0], wanted, rtol=1e-6)


def test_edges_that_are_written_both_ways_are_not_added_to_themselves(graph: Callable):
    edges = "citing,cited,amount\np1,p2,2\np2,p1,2\np4,p5,3\np5,p4,3\n"
    options = {"edge_weight": "amount", "undirected": True}
    found = graph(edges=edges, repeated_edges="sum", **options).batch.graph
    assert found.edge_weight.tolist() == [2, 2, 3, 3]


def test_rows_that_contradict_each_other_are_refused_with_the_option_that_decides(graph: Callable):
    with pytest.raises(DataError, match=r"row 1 .*edge_weight.*--data.repeated_edges sum"):
        _ = graph(edges=PAID, edge_weight="amount", undirected=True).batch


def test_categories_by_number_are_not_added(tmp_path: Path):
    arrays = {"x": np.ones((3, 2)), "y": np.array([0, 1, 0]), "edge_index": [[0, 0, 1], [1, 1, 2]]}
    np.savez(tmp_path / "graph.npz", edge_attr=np.array([0, 1, 2]), **arrays)
    with pytest.raises(DataError, match="read as categories"):
        _ = UserGraph(str(tmp_path / "graph.npz"), repeated_edges="sum").batch


FAR_ENDS = "kg,citing,kind,cited\n4.92,p1,a,p2\n3,p2,b,007\n1,p4,a,p5\n"


def test_ends_in_other_columns_than_the_first_are_found_and_the_flag_is_named(graph: Callable):
    with pytest.raises(DataError, match=r"'kg' and 'citing'.*--data.ends '\[citing, cited\]'"):
        _ = graph(edges=FAR_ENDS).batch
    found = graph(edges=FAR_ENDS).inspect()
    assert found.options["data.ends"] == ["citing", "cited"]
    assert not found.open
    assert graph(edges=FAR_ENDS, ends=["citing", "cited"]).batch.graph.num_edges == 3
    # A single wrong id is named by its row.
    with pytest.raises(DataError, match="row 1 .*'p9' is not an id"):
        _ = graph(edges="citing,cited,by\np1,p2,p1\np9,p2,p2\np4,p5,p1\n").batch


def test_tables_of_pandas_are_read_as_their_files_are(graph: Callable, monkeypatch):
    monkeypatch.setattr(config, "jaxtyping_disable", True)  # as users have it
    of_files = graph().batch
    nodes = pd.read_csv("nodes.csv", dtype={"paper": str})
    edges = pd.read_csv("edges.csv", dtype=str)
    kept = edges.copy()
    data = UserGraph(edges, nodes=nodes, label="topic")
    edges["citing"] = "p1"  # what it was given counts
    by_index = UserGraph(kept, nodes=nodes.set_index("paper"), label="topic")
    filtered = UserGraph(kept, nodes=nodes.set_axis([7, 5, 3, 2, 0]), label="topic")
    for one in (data, by_index, filtered):
        assert one.node_ids.tolist() == ["p1", "p2", "007", "p4", "p5"]
        assert torch.equal(one.batch.x, of_files.x)
        assert torch.equal(one.batch.y, of_files.y)
        assert torch.equal(one.batch.graph.edge_index, of_files.graph.edge_index)


@pytest.mark.parametrize("decimal", [".", ","])
def test_every_type_of_column_of_pandas_is_read_as_from_its_file(graph: Callable, decimal: str):
    nodes = pd.DataFrame(
        {
            "id": pd.Series([1, 2, 3], dtype="Int64"),
            "part": ["train", "val", "test"],
            "topic": pd.Categorical(["a", "b", "a"]),
            "since": pd.to_datetime(["2020-01-01", "2020-01-05", None]),
            "paid": [True, False, True],
            "size": np.array([1.1, 2.2, 3.3], np.float32),
            "third": [1 / 3, 2e-300, 12345678.9],
            "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "place": ["x;y", None, "z,w"],
        }
    )
    edges = pd.DataFrame({"a": [1, 2], "b": [2, 3]})
    options = {"label": "topic", "split": "part", "categories": ["place"], "dates": "days"}
    data = UserGraph(edges, nodes=nodes, fill="mean", decimal=decimal, **options)
    x = data.batch.x.double()
    assert x[:, :7].tolist() == [
        pytest.approx([0, 1, 1.1, 1 / 3, 1, 2, 1]),
        pytest.approx([4, 0, 2.2, 0, 3, 4, 0]),  # x is float32
        pytest.approx([0, 1, 3.3, 12345678.9, 5, 6, 0]),
    ]
    assert data.schema.columns[-1].values == ("x;y", "z,w")


def test_ends_that_are_whole_floats_are_integer_ids(graph: Callable):
    nodes = "id,topic,x\n1,a,0.5\n20,b,1\n3,a,2\n"
    data = graph(nodes, "a,b\n1.0,20.0\n20.0,3.0\n")
    assert data.batch.graph.edge_index.T.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(DataError, match="row 1 .*b '3.5' is not an id"):
        _ = graph(nodes, "a,b\n1.0,20.0\n20.0,3.5\n").batch


def test_categories_that_differ_by_case_alone_are_said(graph: Callable):
    nodes = "id,topic,branch\n1,a,Retail\n2,b,retail\n3,a,bank\n4,b,Bank\n5,a,farm\n"
    data = graph(nodes, "a,b\n1,2\n", categories=["branch"])
    (note,) = noted(data.notes, "case")
    assert "in 'branch': 'Bank' and 'bank', 'Retail' and 'retail'" in note
    assert not noted(graph(categories=[]).notes, "case")


def test_what_is_wrong_with_a_table_of_pandas_is_named_by_its_row(graph: Callable):
    nodes = pd.DataFrame({"id": [1, 2], "topic": ["a", "b"], "x": [0.0, 1.0]})
    edges = pd.DataFrame({"a": [1, 3], "b": [2, 2]})
    with pytest.raises(DataError, match=r"'edges \(DataFrame\).csv', row 1 .*'3' is not an id"):
        _ = UserGraph(edges, nodes=nodes, label="topic").batch
    levels = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 0), ("b", 1)]))
    with pytest.raises(DataError, match="several levels"):
        _ = UserGraph(levels, nodes=nodes, label="topic").batch
    model = build_model({"num_layers": 1}, graph())
    with pytest.raises(ValueError, match=r"not a DataFrame.*UserGraph\(edges, nodes=nodes\)"):
        predictions_of(model, edges, edges)


def test_tables_of_pandas_are_inspected_and_can_be_the_sets_of_nodes(graph: Callable):
    nodes = pd.DataFrame({"id": range(30), "topic": ["a", "b", "c"] * 10, "x": np.arange(30.0)})
    edges = pd.DataFrame({"a": range(29), "b": range(1, 30)})
    data, given = UserGraph(edges, nodes=nodes), nodes.copy()
    nodes["topic"] = "a"  # inspect, too, reads what was given
    found = data.inspect()
    assert found.options["data.label"] == "topic"
    assert found.facts["classes"].startswith("3: ")
    nodes = given
    sets = {"train": nodes[:10], "val": nodes[10:20], "test": nodes[20:]}
    batch = UserGraph(edges, nodes=sets, label="topic").batch
    assert [int(mask.sum()) for mask in batch.masks] == [10, 10, 10]


def test_a_list_of_columns_without_brackets_is_answered_with_them(graph: Callable):
    with pytest.raises(DataError, match=r"brackets: '\[cites, age\]'"):
        _ = graph(features=["cites,age"]).batch


def test_edges_to_nodes_that_are_not_there_are_counted_with_a_way_to_leave_them_out(
    graph: Callable,
):
    edges = "a,b\np1,p2\np1,gone\np2,p4\nlost,p5\n"
    with pytest.raises(DataError, match=r"row 1 .*'gone' is not an id.*in 2 of 4 rows.*isin\(ids"):
        _ = graph(edges=edges).batch


def test_decisions_about_a_table_of_pandas_name_no_command_that_cannot_be_run(graph: Callable):
    nodes = pd.DataFrame({"id": [1, 2], "topic": ["a", "b"], "word": ["x", "y"]})
    data = UserGraph(pd.DataFrame({"a": [1], "b": [2]}), nodes=nodes, label="topic")
    with pytest.raises(DataError, match="inspect`, on tables saved as files, shows"):
        _ = data.batch


def test_the_first_row_that_contradicts_an_earlier_one_is_named_whatever_its_value_is():
    edge_index = torch.tensor([[0, 1, 1, 2, 0], [1, 2, 0, 1, 2]])
    of_edges = {
        "edge_weight": torch.tensor([1.0, 2.0, 1.0, 5.0, 1.0]),  # row 3 contradicts row 1
        "edge_attr": torch.tensor([[1.0], [1.0], [7.0], [1.0], [1.0]]),  # row 2 contradicts row 0
    }
    edges, once, conflict = once_each_way(edge_index, of_edges, 3)
    assert conflict == (2, "edge_attr")
    assert sorted(map(tuple, edges.T.tolist())) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    weight = dict(zip(map(tuple, edges.T.tolist()), once["edge_weight"].tolist(), strict=True))
    assert weight[1, 2] == weight[2, 1] == 2.0
