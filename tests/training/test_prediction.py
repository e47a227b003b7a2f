"""Tables of the next month: each gives the predictions of the model's own table, or is refused by
name."""

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import to_undirected

import gnn_depth
from gnn_depth.data import (
    DataError,
    GraphSource,
    MiniBatches,
    MissingFeatures,
    SyntheticCitation,
    UserGraph,
)
from gnn_depth.data.schema import Schema
from gnn_depth.training.models import build_model
from gnn_depth.training.prediction import predictions_of

NODES, EDGES = 30, 60
ROLES = {
    "label": "topic",
    "split": "part",
    "categories": ["country"],
    "dates": "days",
    "standardize": {"balance": "log1p", "*": "standard"},
    "edge_weight": "times",
    "undirected": True,
}


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table of nodes with every kind of column, and one of edges."""
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame(
        {
            "id": [f"n{number}" for number in range(NODES)],
            "age": rng.integers(18, 90, NODES),
            "balance": rng.lognormal(8, 2, NODES).round(2),
            "country": np.array(["DE", "FR", "IT"])[np.arange(NODES) % 3],
            "joined": pd.date_range("2020-01-01", periods=NODES, freq="9D").strftime("%Y-%m-%d"),
            "topic": np.array(["art", "law", "war"])[np.arange(NODES) % 3],
            "part": np.array(["train", "train", "val", "test", "train"])[np.arange(NODES) % 5],
        }
    )
    pairs = pd.DataFrame(rng.integers(NODES, size=(4 * EDGES, 2)))
    pairs = pd.DataFrame(np.sort(pairs.to_numpy(), 1)).drop_duplicates()[:EDGES].to_numpy()
    ids = nodes.id.to_numpy()
    edges = pd.DataFrame({"from": ids[pairs[:, 0]], "to": ids[pairs[:, 1]]})
    return nodes, edges.assign(times=rng.integers(1, 9, len(edges)))


def written(nodes: pd.DataFrame, edges: pd.DataFrame, suffix: str = ".csv") -> list[str]:
    """Write both tables into the working directory, and return the paths that UserGraph takes."""
    paths = []
    for name, table in (("edges", edges), ("nodes", nodes)):
        path = f"{name}{suffix}"
        if suffix == ".parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False, sep="\t" if "tsv" in suffix else ",")
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of the tables, and its predictions for them. It needs no training to be wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("trained"))
        data = UserGraph(*written(*tables()), **ROLES)
        torch.manual_seed(0)
        model = build_model({"layer": "gcn", "num_layers": 2, "hidden_channels": 8}, data)
        return model, predictions_of(model, data)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_nodes(change):
    """A change of the table of nodes."""
    return lambda nodes, edges: (change(nodes), edges)


def of_edges(change):
    return lambda nodes, edges: (nodes, change(edges))


def cell(column, row, value):
    """Another value in one cell."""

    def change(nodes):
        values = nodes[column].astype(object)
        values.iloc[row] = value
        return nodes.assign(**{column: values})

    return of_nodes(change)


def with_new_nodes(nodes, edges):
    """Three new nodes with edges among themselves."""
    new = nodes.iloc[:3].assign(id=["x", "y", "z"], topic=None, part=None)
    ends = pd.DataFrame({"from": ["x", "y"], "to": ["y", "z"], "times": [1, 2]})
    return pd.concat([nodes, new]), pd.concat([edges, ends])


def twice(nodes, edges):
    """Two copies side by side, the second with other ids."""
    other = nodes.assign(id="b" + nodes.id)
    ends = edges.assign(**{"from": "b" + edges["from"], "to": "b" + edges["to"]})
    return pd.concat([other, nodes]), pd.concat([ends, edges])


def everything(nodes, edges):
    nodes = nodes.drop(columns=["topic", "part"]).assign(score=1.5, name="text")
    nodes = nodes[list(nodes.columns[::-1])].sample(frac=1, random_state=0)
    return nodes, edges[["times", "to", "from"]].sample(frac=1, random_state=0)


EQUAL = ""
#: A change of the tables, and what refuses it; EQUAL if the predictions must be the same.
CHANGES = {
    "nothing": (of_nodes(lambda nodes: nodes), EQUAL),
    "age and balance in each other's place": (
        of_nodes(lambda n: n[["id", "balance", "age", *n.columns[3:]]]),
        EQUAL,
    ),
    "one more column of edges": (of_edges(lambda edges: edges.assign(year=1990)), EQUAL),
    "empty labels": (of_nodes(lambda nodes: nodes.assign(topic=None)), EQUAL),
    "other classes": (of_nodes(lambda nodes: nodes.assign(topic="sport")), EQUAL),
    "labels that are numbers": (of_nodes(lambda nodes: nodes.assign(topic=range(NODES))), EQUAL),
    "a split of other words": (of_nodes(lambda nodes: nodes.assign(part="later")), EQUAL),
    "edges turned round": (
        of_edges(lambda e: e.rename(columns={"from": "to", "to": "from"})),
        EQUAL,
    ),
    "every edge twice": (of_edges(lambda edges: pd.concat([edges, edges])), EQUAL),
    "new nodes": (with_new_nodes, EQUAL),
    "another graph beside it": (twice, EQUAL),
    "all of it at once": (everything, EQUAL),
    "ages as text": (of_nodes(lambda n: n.assign(age=n.age.astype(str) + " ")), EQUAL),
    "ages as floats": (of_nodes(lambda nodes: nodes.assign(age=nodes.age + 0.0)), EQUAL),
    "balance in exponents": (
        of_nodes(lambda n: n.assign(balance=[f"{value:.17e}" for value in n.balance])),
        EQUAL,
    ),
    "spaces around words": (of_nodes(lambda n: n.assign(country=" " + n.country + " ")), EQUAL),
    "dates with a time of day": (of_nodes(lambda n: n.assign(joined=n.joined + "T00:00")), EQUAL),
    "a renamed category": (
        cell("country", 4, "Germany"),
        r"'country': 'Germany' is no category of the model \(row 4 alone of 30, from 0\)",
    ),
    "categories in another case": (
        of_nodes(lambda nodes: nodes.assign(country=nodes.country.str.lower())),
        r"'country': 'de' is no category .*row 0, 1, 2, \.\.\. 30 in all.*Did you mean 'DE'",
    ),
    "categories that are numbers": (
        of_nodes(lambda nodes: nodes.assign(country=np.arange(NODES) % 3)),
        "'country': '0' is no category",
    ),
    "a missing category": (cell("country", 7, ""), r"'country': is missing|'country'.*row 7"),
    "a missing number": (cell("age", 3, None), r"'age'.*missing \(row 3"),
    "a word among numbers": (cell("age", 3, "old"), r"'age': 'old' is no finite number \(row 3"),
    "an infinite number": (cell("balance", 2, np.inf), r"'balance'.*no finite number \(row 2"),
    "two faults at once": (
        of_nodes(lambda n: n.drop(columns="age").assign(country="XX")),
        "(?s)no column 'age'.*'XX' is no category",
    ),
    "dates that are numbers": (
        of_nodes(lambda nodes: nodes.assign(joined=20201301)),
        "'joined': '20201301' is no date",
    ),
    "a year among dates": (cell("joined", 4, "1234"), r"'joined': '1234' is no date.*row 4"),
    "dates in digits": (
        of_nodes(lambda nodes: nodes.assign(joined=nodes.joined.str.replace("-", "").astype(int))),
        EQUAL,
    ),
    "dates of another form": (
        of_nodes(lambda nodes: nodes.assign(joined="31.12.2020")),
        r"'joined': '31\.12\.2020' is no date such as 2024-12-31",
    ),
    "no weights": (of_edges(lambda edges: edges.drop(columns="times")), "column 'times'"),
    "a negative weight": (of_edges(lambda e: e.assign(times=-1)), "'times' is -1"),
    "an edge of nobody": (
        of_edges(lambda e: pd.concat([e, e.iloc[:1].assign(to="n99")])),
        "row 60 .*'n99' is not an id",
    ),
    "an id twice": (of_nodes(lambda nodes: nodes.replace({"id": {"n1": "n2"}})), "id 'n2'"),
    "no nodes": (of_nodes(lambda nodes: nodes[:0]), "no rows"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_table_has_the_same_predictions_or_is_refused_by_name(trained, folder, name):
    model, expected = trained
    change, refusal = CHANGES[name]
    data = UserGraph(*written(*change(*tables())))
    if refusal:
        with pytest.raises(DataError, match=refusal):
            predictions_of(model, data)
        return
    found = predictions_of(model, data)
    same = found.set_index("node").loc[expected.node].reset_index()
    pd.testing.assert_frame_equal(same, expected, rtol=1e-5)


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".parquet"])
def test_the_format_of_a_table_does_not_matter(trained, folder, suffix):
    model, expected = trained
    nodes, edges = tables()
    if suffix == ".parquet":  # which keeps types
        nodes = nodes.assign(
            joined=pd.to_datetime(nodes.joined), country=nodes.country.astype("category")
        )
    found = predictions_of(model, UserGraph(*written(nodes, edges, suffix)))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)


def test_what_is_unknown_is_ignored_on_request_and_said(trained, folder, caplog):
    model, expected = trained
    nodes, edges = tables()
    nodes.loc[nodes.index == 4, "country"] = "XX"
    data = UserGraph(*written(nodes.drop(columns="age"), edges), unknown="ignore")
    with caplog.at_level(logging.WARNING):
        found = predictions_of(model, data)
    said = "\n".join(record.message for record in caplog.records)
    assert re.search(r"no column 'age'.*gets [\d.]+, the mean of the training", said)
    assert re.search("'XX' is no category .*row 4.*Taken as missing", said)
    batch = data.read_as(model.schema, targets=False).batch
    columns = [column.name for column in model.schema.columns]
    assert columns == ["age", "balance", "joined", "country"]
    assert batch.x[:, 0].abs().max() < 1e-6, "the mean, scaled"
    assert batch.x[4, 3:].tolist() == [0, 0, 0]
    assert found.node.tolist() == expected.node.tolist()


def test_a_renamed_column_is_looked_for_among_those_that_the_model_does_not_know(trained, folder):
    nodes, edges = tables()
    paths = written(nodes.rename(columns={"age": "years_lived"}), edges)
    with pytest.raises(DataError, match="no column 'age'. Columns that the .* know: years_lived"):
        predictions_of(trained[0], UserGraph(*paths))
    paths = written(nodes.rename(columns={"age": "aged"}), edges)
    with pytest.raises(DataError, match="no column 'age'. Did you mean 'aged'"):
        predictions_of(trained[0], UserGraph(*paths))


def test_a_missing_column_has_what_fill_chose_as_a_missing_cell_has(folder, caplog):
    nodes, edges = tables()
    nodes = nodes.assign(age=np.where(nodes.index < 20, 20.0, nodes.age.astype(float) + 100))
    data = UserGraph(*written(nodes, edges), **ROLES, fill="median")
    model = build_model({"num_layers": 1}, data)
    model.adopt(data.schema)
    column = model.schema.columns[0]
    assert column.name == "age"
    assert column.fill != pytest.approx(column.mean)
    with caplog.at_level(logging.WARNING):
        without = UserGraph(*written(nodes.drop(columns="age"), edges), unknown="ignore")
        no_column = predictions_of(model, without)
        no_cell = predictions_of(model, UserGraph(*written(nodes.assign(age=None), edges)))
    pd.testing.assert_frame_equal(no_column, no_cell)
    assert f"gets {column.fill:.6g}, which stands for a missing one" in caplog.text


def test_nodes_without_neighbours_are_counted(trained, folder, caplog):
    model, _ = trained
    nodes, edges = tables()
    alone = nodes.iloc[:2].assign(id=["x", "y"])
    with caplog.at_level(logging.WARNING):
        predictions_of(model, UserGraph(*written(pd.concat([nodes, alone]), edges)))
    (said,) = [one.message for one in caplog.records if "neighbour" in one.message]
    linked = set(edges["from"]) | set(edges["to"])
    count = 2 + sum(id not in linked for id in nodes.id)
    assert said.startswith(f"nodes without a neighbour: {count} of {NODES + 2}, predicted")


def test_columns_that_are_not_read_are_said(trained, folder, caplog):
    model, _ = trained
    nodes, edges = tables()
    with caplog.at_level(logging.WARNING):
        predictions_of(model, UserGraph(*written(nodes.assign(score=1), edges)))
    assert "not read, because the model does not know them: 'score'." in caplog.messages


def test_a_schema_is_the_same_after_it_was_a_file(trained):
    schema = trained[0].schema
    assert Schema.from_dict(schema.as_dict()) == schema
    text = schema.text()
    for word in ("age", "DE", "art", "undirected: true", "log1p"):
        assert word in text


def arrays(**changes) -> Data:
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(12, 3)), dtype=torch.float32)
    x[:, 1] = torch.arange(12) % 2
    parts = {
        "x": x,
        "y": torch.arange(12) % 3,
        "edge_index": torch.tensor(rng.integers(12, size=(2, 30))),
    }
    return Data(
        **{name: value for name, value in {**parts, **changes}.items() if value is not None}
    )


@pytest.fixture(scope="module")
def of_arrays():
    torch.manual_seed(0)
    data = GraphSource(arrays())
    model = build_model({"layer": "sage", "num_layers": 2, "hidden_channels": 8}, data)
    return model, predictions_of(model, data)


OTHER_ARRAYS = {
    "no y": ({"y": None}, EQUAL),
    "other classes": ({"y": torch.full((12,), 7)}, EQUAL),
    "another width": ({"x": torch.ones(12, 2)}, "the model needs 3 features, and x has 2"),
    "columns in another order": ({"x": arrays().x.flip(1)[:, [1, 0, 2]]}, "0 or 1.*another order"),
    "features of edges": ({"edge_attr": torch.ones(30, 2)}, "0 features of each edge.*has 2"),
    "integers": ({"x": torch.arange(12)}, "the model needs 3 features, and x has 1"),
}


@pytest.mark.parametrize("name", OTHER_ARRAYS)
def test_arrays_without_names_are_checked_by_width_and_kind(of_arrays, name):
    model, expected = of_arrays
    changes, refusal = OTHER_ARRAYS[name]
    if refusal:
        with pytest.raises(DataError, match=refusal):
            predictions_of(model, arrays(**changes))
    else:
        pd.testing.assert_frame_equal(predictions_of(model, arrays(**changes)), expected)


def test_features_that_were_divided_by_their_sum_are_asked_to_be_so_again():
    known = SyntheticCitation(
        num_nodes=60,
        num_edges=120,
        num_features=16,
        num_classes=3,
        num_train_per_class=5,
        num_val=10,
        num_test=10,
    )
    counts = arrays(x=torch.arange(36.0).view(12, 3), y=torch.arange(12) % 3)
    divided = arrays(x=NormalizeFeatures()(counts.clone()).x)
    for data, as_before, others in (
        (known, Data(known.batch.x, known.batch.graph.edge_index), known.batch.x * 3),
        (GraphSource(divided), divided, counts.x),
    ):
        model = build_model({"layer": "sage", "num_layers": 2, "hidden_channels": 8}, data)
        as_now = Data(others, as_before.edge_index)
        pd.testing.assert_frame_equal(
            predictions_of(model, as_before).drop(columns="node"),
            predictions_of(model, data).drop(columns="node"),
        )
        with pytest.raises(DataError, match="of node 0 sum to .* summed to 1 at every node"):
            predictions_of(model, as_now)
        assert len(predictions_of(model, as_now, unknown="ignore")) == len(others)


def with_kinds(edges: pd.DataFrame) -> pd.DataFrame:
    """Edges with an amount and a kind each, determined by their ends."""
    number = (edges["from"] + edges["to"]).map(lambda name: sum(map(ord, name)))
    kinds = np.array(["card", "cash", "wire"])[number % 3]
    return edges.assign(amount=1000.0 + 37 * (number % 11), kind=kinds)


@pytest.fixture(scope="module")
def of_edge_columns(tmp_path_factory):
    """A model that reads an amount, which is scaled, and a kind of each edge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("of_edges"))
        nodes, edges = tables()
        options = {
            "edge_features": ["amount", "kind"],
            "edge_standardize": {"amount": "standard"},
            "edge_weight": "",
        }
        data = UserGraph(*written(nodes, with_kinds(edges)), **{**ROLES, **options})
        torch.manual_seed(0)
        model = build_model({"layer": "gat", "num_layers": 2, "hidden_channels": 8}, data)
        return model, predictions_of(model, data), data


def test_features_of_edges_are_scaled_and_one_hot_and_the_schema_keeps_how(of_edge_columns):
    _, _, data = of_edge_columns
    found = data.batch.graph.edge_attr
    assert found.shape[1] == 4
    amounts, kinds = found[:, 0], found[:, 1:]
    assert kinds.sum(1).unique().tolist() == [1]
    assert kinds.unique().tolist() == [0, 1]
    near = data.batch.train_mask
    near = near[data.batch.graph.source] | near[data.batch.graph.target]
    assert amounts[near].mean().item() == pytest.approx(0, abs=1e-5)
    assert amounts[near].std(correction=0).item() == pytest.approx(1, abs=1e-5)
    again = Schema.from_dict(data.schema.as_dict())
    assert again == data.schema
    assert [column.name for column in again.edge_columns] == ["amount", "kind"]
    assert again.edge_columns[1].values == ("card", "cash", "wire")
    assert any("'kind' of edges.csv is text: 3 features" in note for note in data.notes)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda edges: edges[["kind", "amount", "times", "to", "from"]], EQUAL),
        (lambda edges: edges.assign(extra=1), EQUAL),
        (lambda edges: edges.drop(columns="kind").assign(kid="card"), "'kind'. Did you mean 'kid'"),
        (lambda edges: edges.assign(kind="cheque"), "'cheque' is no category.*row 0, 1, 2"),
        (lambda edges: edges.assign(kind=None), "'kind': is missing"),
        (lambda edges: edges.assign(amount="much"), "'amount': 'much' is no finite number"),
    ],
)
def test_columns_of_edges_are_taken_by_name(of_edge_columns, folder, change, refusal):
    model, expected, _ = of_edge_columns
    nodes, edges = tables()
    data = UserGraph(*written(nodes, change(with_kinds(edges))))
    if not refusal:
        pd.testing.assert_frame_equal(predictions_of(model, data), expected)
        return
    with pytest.raises(DataError, match=refusal):
        predictions_of(model, data)
    assert len(predictions_of(model, data, unknown="ignore")) == NODES


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"note {number}" for number in range(EDGES)], "'kind' cannot be .*60 different.*Leave"),
        (["2024-01-01"] * EDGES, "'kind' cannot be .*dates"),
        (["cash"] * (EDGES - 1) + [None], r"'kind': is missing \(row 59"),
    ],
)
def test_columns_of_edges_that_are_no_features_are_refused_with_the_way_out(folder, values, words):
    nodes, edges = tables()
    data = UserGraph(*written(nodes, edges.assign(kind=values)), **ROLES, edge_features=["kind"])
    with pytest.raises(DataError, match=words):
        _ = data.batch


@pytest.mark.parametrize("column", ["country", "heigth"])
def test_a_scaling_of_a_column_that_is_no_number_is_refused(folder, column):
    options = {**ROLES, "standardize": {column: "standard"}}
    with pytest.raises(DataError, match=f"'{column}'.*Available: age, balance, joined"):
        _ = UserGraph(*written(*tables()), **options).batch


def test_a_scaling_of_features_that_edges_do_not_have_is_refused(folder):
    data = UserGraph(*written(*tables()), **ROLES, edge_standardize="standard")
    with pytest.raises(DataError, match="edge_standardize.*no features.*edge_features"):
        _ = data.batch


def test_features_of_edges_without_names_are_scaled_by_position():
    attr = torch.tensor(np.random.default_rng(0).normal(1e4, 10, size=(30, 2)))
    data = GraphSource(arrays(edge_attr=attr), edge_standardize="standard")
    found = data.batch.graph.edge_attr
    assert found.abs().max() < 5
    torch.manual_seed(0)
    model = build_model({"layer": "gat", "num_layers": 2, "hidden_channels": 8}, data)
    again = predictions_of(model, arrays(edge_attr=attr, y=None))
    pd.testing.assert_frame_equal(again, predictions_of(model, data))


def test_features_made_from_the_edges_are_made_again_for_tables_without_others(folder):
    nodes, edges = tables()
    bare = nodes[["id", "topic"]]
    options = {"label": "topic", "make_features": "degree", "undirected": True}
    data = UserGraph(*written(bare, edges[["from", "to"]]), **options)
    torch.manual_seed(0)
    model = build_model({"layer": "gcn", "num_layers": 2, "hidden_channels": 8}, data)
    expected = predictions_of(model, data)
    again = UserGraph(*written(bare[["id"]], edges))
    pd.testing.assert_frame_equal(predictions_of(model, again), expected)


def test_transforms_are_part_of_the_model():
    transforms = ["NormalizeFeatures", {"name": "AddRandomWalkPE", "walk_length": 3}]
    raw = arrays(x=torch.rand(12, 3) + 1)
    data = GraphSource(raw, transforms=transforms)
    torch.manual_seed(0)
    model = build_model({"layer": "sage", "num_layers": 2, "hidden_channels": 8}, data)
    assert Schema.from_dict(data.schema.as_dict()) == data.schema
    pd.testing.assert_frame_equal(predictions_of(model, raw), predictions_of(model, data))
    with pytest.raises(DataError, match="trained with transforms .*AddSelfLoops.*leave transforms"):
        predictions_of(model, GraphSource(raw, transforms=["AddSelfLoops"]))


LARGEST = ["LargestConnectedComponents"]


def with_components() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of a ring of 25 nodes; of the five others three are joined and two are alone."""
    nodes, _ = tables()
    nodes = nodes.sample(frac=1, random_state=0)
    ids = nodes.id.to_numpy()
    ring = pd.DataFrame({"from": ids[:25], "to": np.roll(ids[:25], 1)})
    others = pd.DataFrame({"from": ids[25:27], "to": ids[26:28]})
    return nodes, pd.concat([ring, others]).assign(times=1)


def test_nodes_that_a_transform_leaves_out_have_an_empty_row_and_a_warning(folder, caplog):
    nodes, edges = with_components()
    data = UserGraph(*written(nodes, edges), **ROLES, transforms=LARGEST)
    options = {"num_layers": 2, "hidden_channels": 8}
    run = gnn_depth.fit(options, data, max_epochs=1, progress=False)
    again = UserGraph(*written(nodes.drop(columns="topic"), edges))
    with caplog.at_level(logging.WARNING):
        found = run.predict(again)
    left_out = nodes.id.tolist()[25:]
    names = ", ".join(left_out[:3])
    said = (
        "nodes that the transforms leave out have no prediction, and an empty row: 5 of 30 "
        f"({names} and 2 more)."
    )
    assert caplog.messages.count(said) == 1
    assert found.node.tolist() == nodes.id.tolist()
    without = found.iloc[:, 1:-1].isna()
    assert without[25:].all(axis=None)
    assert not without[:25].any(axis=None)
    assert (found.set[:25] == nodes.part.to_numpy()[:25]).all()
    assert (found.set[25:] == "").all()
    pd.testing.assert_frame_equal(gnn_depth.load(run.folder).predict(again), found)
    # The nodes that are left have the predictions of their own graph.
    alone = UserGraph(*written(nodes[:25], edges[:25]))
    expected = predictions_of(run.model, alone)
    pd.testing.assert_frame_equal(found[:25].drop(columns="set"), expected, rtol=1e-5)


@pytest.mark.parametrize("wrap", [GraphSource, lambda graph, **how: in_batches(graph, **how)])
def test_predictions_without_ids_have_the_numbers_of_the_nodes_before_transforms(wrap):
    ring = torch.tensor([[3, 4, 5, 6, 0], [4, 5, 6, 3, 1]])
    graph = arrays(edge_index=torch.cat([ring, ring.flip(0)], 1))
    data = wrap(graph, transforms=LARGEST)
    model = build_model({"layer": "sage", "num_layers": 1, "hidden_channels": 4}, data)
    found = predictions_of(model, data)
    assert found.node.tolist() == list(range(12))
    assert found.index[found.predicted.notna()].tolist() == [3, 4, 5, 6]


def in_batches(graph, **options):
    return MiniBatches(GraphSource(graph, **options), parts=1)


@pytest.mark.parametrize(
    "transform", [{"name": "half_hop", "p": 0.5}, {"name": "sdrf", "steps": 5}]
)
def test_new_data_gets_the_graph_that_the_seed_of_the_model_draws(transform):
    edge_index = to_undirected(arrays().edge_index)
    raw = arrays(x=torch.rand(12, 3) + 1, edge_index=edge_index)
    data = GraphSource(raw, transforms=[transform], seed=7)
    torch.manual_seed(0)
    model = build_model({"layer": "sage", "num_layers": 2, "hidden_channels": 8}, data)
    assert Schema.from_dict(data.schema.as_dict()).transforms_seed == 7
    expected = predictions_of(model, data)
    for seed in (0, 3):
        found = predictions_of(model, GraphSource(raw, seed=seed))
        pd.testing.assert_frame_equal(found, expected)


def test_a_model_that_knows_names_refuses_columns_without_them(trained, folder):
    model, _ = trained
    data = arrays(x=torch.ones(12, 6), edge_weight=torch.ones(30))
    with pytest.raises(DataError, match="by name, and x has none.*age, balance, joined, country"):
        predictions_of(model, data)
    assert len(predictions_of(model, data, unknown="ignore")) == 12


def test_integers_that_were_categories_keep_their_places():
    data = GraphSource(arrays(x=torch.arange(12) % 4 + 5))
    model = build_model({"num_layers": 2, "hidden_channels": 8}, data)
    part = arrays(x=torch.full((12,), 6))
    seen = GraphSource(part).read_as(model.schema, targets=False).batch.x
    assert seen.tolist() == [[0, 1, 0, 0]] * 12
    with pytest.raises(DataError, match=r"x\[0\] is 9, .*5 to 8"):
        predictions_of(model, arrays(x=torch.full((12,), 9)))


def test_numbers_are_predicted_in_their_own_units_and_graphs_one_by_one():
    graphs = []
    for number in range(8):
        graph = arrays(y=torch.tensor([1e9 + 1e6 * number]))
        graph.x = graph.x + number
        graphs.append(graph)
    data = GraphSource(graphs, scale_target="standard", standardize="standard")
    model = build_model({"layer": "gin", "num_layers": 2, "hidden_channels": 8}, data)
    found = predictions_of(model, data)
    assert list(found) == ["graph", "value_0"]
    assert found.value_0.between(0.9e9, 1.1e9).all(), "near the targets before any training"
    for graph in graphs:
        del graph.y
    pd.testing.assert_frame_equal(predictions_of(model, graphs), found)
    pd.testing.assert_frame_equal(predictions_of(model, graphs[:3]), found[:3])


def test_data_sets_around_a_table_are_read_for_a_model(trained, folder):
    model, expected = trained
    data = UserGraph(*written(*tables()), **ROLES)
    for wrapped in (MissingFeatures(data, rate=0.0), MiniBatches(data, parts=2)):
        pd.testing.assert_frame_equal(predictions_of(model, wrapped), expected, rtol=1e-5)


def test_a_model_without_a_schema_says_what_is_missing(folder):
    from gnn_depth import NodeClassifier

    with pytest.raises(ValueError, match="knows nothing of the data"):
        predictions_of(NodeClassifier(3, 2), arrays())
    with pytest.raises(FileNotFoundError):
        predictions_of(Path("nowhere.ckpt"), arrays())


def test_a_node_whose_output_is_nan_has_no_prediction_and_is_counted(trained, folder, caplog):
    model, expected = trained

    def with_nan(model, data):
        out = torch.tensor(expected.filter(like="class_").to_numpy())
        out[3, 1] = torch.nan
        return [out]

    found = predictions_of(model, UserGraph(*written(*tables()), **ROLES), forward=with_nan)
    assert pd.isna(found.predicted[3])
    assert np.isnan(found.probability[3])
    assert f"NaN for 1 of {NODES} nodes" in caplog.text
    others = found.index != 3
    assert found.predicted[others].equals(expected.predicted[others])


@pytest.mark.parametrize(
    ("change", "option"),
    [
        (of_edges(lambda edges: edges.rename(columns={"from": "src", "to": "dst"})), "ends"),
        (of_nodes(lambda nodes: nodes.rename(columns={"id": "key"})), "id"),
    ],
)
def test_renamed_ids_are_refused_with_the_option_that_names_them(trained, folder, change, option):
    model, expected = trained
    paths = written(*change(*tables()))
    with pytest.raises(DataError, match=rf"no column '.*had the ids.*--data\.{option} "):
        predictions_of(model, UserGraph(*paths))
    given = {"ends": ["src", "dst"], "id": "key"}[option]
    found = predictions_of(model, UserGraph(*paths, **{option: given}))
    pd.testing.assert_frame_equal(found, expected)


def test_the_mark_of_missing_labels_is_that_of_the_training_unless_another_is_given(folder):
    nodes, edges = tables()
    marked = nodes.assign(topic=nodes.topic.where(nodes.index % 4 > 0, "unknown"))
    options = {**ROLES, "missing_label": "unknown"}
    schema = UserGraph(*written(marked, edges), **options).schema
    schema = Schema.from_dict(schema.as_dict())
    again = UserGraph(*written(marked, edges)).read_as(schema)
    assert int(sum(again.batch.masks).sum()) == (nodes.index % 4 > 0).sum()
    other = marked.assign(topic=marked.topic.replace("unknown", "none"))
    paths = written(other, edges)
    with pytest.raises(DataError, match="unknown class .*'none'"):
        _ = UserGraph(*paths).read_as(schema).batch
    found = UserGraph(*paths, missing_label="none").read_as(schema).batch
    assert int(sum(found.masks).sum()) == (nodes.index % 4 > 0).sum()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"undirected": False}, "undirected false is not used"),
        ({"standardize": "robust"}, "standardize robust is not used"),
        ({"features": ["age"]}, "features ['age'] is not used"),
        ({"scale_target": "log1p"}, "scale_target log1p is not used"),
        (
            {"repeated_edges": "sum", "fill": "mean"},
            "repeated_edges sum and fill mean are not used",
        ),
        ({**ROLES, "features": ["age", "balance"], "repeated_edges": "none"}, ""),
        ({"drop": ["topic"]}, ""),
    ],
)
def test_what_a_prediction_takes_from_the_model_is_not_changed_by_options_in_silence(
    trained, folder, caplog, given, said
):
    model, expected = trained
    with caplog.at_level(logging.WARNING):
        found = predictions_of(model, UserGraph(*written(*tables()), **given))
    pd.testing.assert_frame_equal(found, expected)
    if said:
        assert f"{said}: the schema of the model decides" in caplog.text
    else:
        assert "not used: the schema" not in caplog.text


def test_an_argument_that_does_not_exist_is_refused_with_the_nearest(folder):
    paths = written(*tables())
    with pytest.raises(ValueError, match="argument of UserGraph 'lable'.*'label'"):
        UserGraph(*paths, lable="topic")
    with pytest.raises(ValueError, match="argument of UserGraph 'standardise'.*'standardize'"):
        UserGraph(*paths, label="topic", standardise="standard")
    with pytest.raises(ValueError, match="argument of GraphSource 'seeds'.*'seed'"):
        GraphSource({}, seeds=1)


@pytest.mark.parametrize(("shift", "count"), [(0.0, 8), (-1.0, 0)])
def test_numbers_below_zero_are_said_where_no_target_of_the_training_was(caplog, shift, count):
    arrays = {"x": torch.eye(8), "edge_index": torch.empty(2, 0, dtype=torch.long)}
    data = GraphSource({**arrays, "y": torch.arange(8.0) + shift})
    model = build_model({"num_layers": 1, "hidden_channels": 4}, data)
    assert Schema.from_dict(model.schema.as_dict()) == model.schema
    below = torch.full((8, 1), -2.0)
    with caplog.at_level(logging.WARNING):
        predictions_of(model, data, forward=lambda *_: [below])
    said = [one.message for one in caplog.records if "below 0" in one.message]
    assert len(said) == (count > 0)
    if count:
        assert said[0].startswith("predictions of '0' are below 0 in 8 of 8 rows, and no target")
        assert "scale_target log1p" in said[0]


def test_a_node_without_a_neighbour_is_told_from_one_whose_edges_lead_away(caplog):
    several = {"x": torch.eye(4), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]])}
    data = GraphSource({**several, "y": torch.rand(4)})
    assert "1 number to predict;" in data.about
    model = build_model({"num_layers": 1, "hidden_channels": 4}, data)
    alone = {"x": torch.ones(1, 4), "edge_index": torch.empty(2, 0, dtype=torch.long)}
    with caplog.at_level(logging.WARNING):
        predictions_of(model, alone)
        predictions_of(model, several)
    assert "nodes without a neighbour: 1 of 1," in caplog.text
    assert "nodes whose edges all lead away: 1 of 4," in caplog.text


def test_repeated_edges_are_added_in_a_prediction_as_in_the_training(folder):
    nodes, edges = tables()
    options = {**ROLES, "repeated_edges": "sum"}
    model = build_model({"num_layers": 2}, UserGraph(*written(nodes, edges), **options))
    expected = predictions_of(model, UserGraph("edges.csv", "nodes.csv"))
    twice = pd.concat(
        [edges.assign(times=edges.times / 4), edges.assign(times=edges.times * 3 / 4)]
    )
    found = predictions_of(model, UserGraph(*written(nodes, twice)))
    pd.testing.assert_frame_equal(found, expected)


def test_a_missing_column_is_said_to_be_replaced_as_a_whole(trained, folder):
    nodes, edges = tables()
    paths = written(nodes.drop(columns="age"), edges)
    with pytest.raises(
        DataError,
        match="no column 'age'(?s:.*)as a whole: every row gets what stands for a missing",
    ):
        predictions_of(trained[0], UserGraph(*paths))
    paths = written(nodes.assign(country="XX"), edges)
    with pytest.raises(DataError, match="no category") as refused:
        predictions_of(trained[0], UserGraph(*paths))
    assert "as a whole" not in str(refused.value)


def test_predictions_for_the_ids_of_the_training_name_the_set_of_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes, edges = tables()
    data = UserGraph(*written(nodes, edges), **ROLES | {"split": None, "drop": ["part"]})
    run = gnn_depth.fit({"num_layers": 1}, data, epochs=2, progress=False)
    sets = np.full(NODES, "", object)
    for name, mask in zip(("train", "val", "test"), data.batch.masks, strict=True):
        sets[mask.numpy()] = name
    loaded = gnn_depth.load(run.folder)
    shuffled = nodes.sample(frac=1, random_state=0)
    again = UserGraph(*written(shuffled, edges))
    for found in (run.predict(data), loaded.predict(again), predictions_of(run.checkpoint, again)):
        assert list(found)[-1] == "set"
        assert dict(zip(found.node, found.set, strict=True)) == dict(
            zip(nodes.id, sets, strict=True)
        )
    for other in (nodes[1:], nodes.assign(id="b" + nodes.id)):
        ends = edges[edges["from"].isin(other.id) & edges["to"].isin(other.id)]
        if not len(ends):
            ends = edges.assign(**{"from": "b" + edges["from"], "to": "b" + edges["to"]})
        assert "set" not in loaded.predict(UserGraph(*written(other, ends)))
