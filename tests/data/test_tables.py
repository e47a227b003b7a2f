"""Two tables as pandas reads them: features by role and type, and the next table by name."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gnn_depth
from gnn_depth.data import DataError, GraphSource, Tables
from gnn_depth.training.models import build_model
from gnn_depth.training.prediction import predictions_of

ROWS = 30
ROLES = {"label": "topic", "split": "part", "dates": ["joined"]}
OF_EDGES = {"edge_weight": "times", "directed": False}


def tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table of nodes with every kind of column, and one of edges."""
    rng = np.random.default_rng(seed)
    number = np.arange(ROWS)
    nodes = pd.DataFrame(
        {
            "id": [f"n{row}" for row in number],
            "age": rng.integers(18, 90, ROWS),
            "balance": rng.lognormal(8, 2, ROWS).round(2),
            "is_new": number % 4 == 0,
            "country": np.array(["DE", "FR", "IT"])[number % 3],
            "joined": pd.date_range("2020-01-01", periods=ROWS, freq="9D").strftime("%Y-%m-%d"),
            "topic": np.array(["art", "law", "war"])[number % 3],
            "part": np.array(["train", "train", "val", "test", ""])[number % 5],
        }
    )
    pairs = np.unique(np.sort(rng.integers(ROWS, size=(90, 2)), 1), axis=0)
    edges = pd.DataFrame(nodes.id.to_numpy()[pairs], columns=["from", "to"])
    edges["times"] = rng.integers(1, 9, len(edges))
    return nodes, edges.assign(kind=np.array(["card", "cash"])[np.arange(len(edges)) % 2])


def written(nodes: pd.DataFrame, edges: pd.DataFrame) -> tuple[str, str]:
    """Write both tables into the working directory, and return their paths."""
    nodes.to_csv("nodes.csv", index=False)
    edges.to_csv("edges.csv", index=False)
    return "nodes.csv", "edges.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_features_are_those_of_scikit_learn_fitted_on_the_training_rows():
    nodes, edges = tables()
    nodes.loc[[0, 3, 7], "balance"] = np.nan
    data = Tables(*written(nodes, edges), **ROLES, missing="median")
    days = pd.to_datetime(nodes.joined).astype("int64") / 1e9
    frame = nodes.assign(joined=days, is_new=nodes.is_new.astype(float))
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    numbers = ["age", "balance", "is_new", "joined"]
    encoder = ColumnTransformer(
        [("numbers", scaled, numbers), ("country", OneHotEncoder(), ["country"])]
    )
    encoder.fit(frame[nodes.part == "train"])
    expected = encoder.transform(frame)
    found = data.batch.x.double().numpy()[:, [0, 1, 2, 6, 3, 4, 5]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_edges_masks_and_ids_are_those_of_the_rows():
    nodes, edges = tables()
    data = Tables(*written(nodes, edges), **ROLES, edge_features=["kind"])
    graph = data.batch.graph
    found = {(data.node_ids[s], data.node_ids[t]) for s, t in graph.edge_index.T.tolist()}
    assert found == set(zip(edges["from"], edges["to"], strict=True))
    for name, mask in zip(("train", "val", "test"), data.batch.masks, strict=True):
        assert mask.tolist() == (nodes.part == name).tolist()
    assert graph.edge_attr.shape == (len(edges), 2)
    both = Tables(*written(nodes, edges), **ROLES, **OF_EDGES).batch.graph
    loops = int((edges["from"] == edges["to"]).sum())
    assert both.num_edges == 2 * len(edges) - loops
    assert (
        both.edge_weight.sum()
        == 2 * edges.times.sum() - edges.times[edges["from"] == edges["to"]].sum()
    )


def test_empty_labels_are_in_no_set_and_gaps_leave_integers_classes(caplog):
    nodes, edges = tables()
    number = pd.Series(np.arange(ROWS) % 3, dtype="Int64").mask(nodes.index % 10 == 0)
    data = Tables(*written(nodes.assign(topic=number), edges), **ROLES)
    assert data.class_names == ["0", "1", "2"]
    assert not torch.stack(data.batch.masks)[:, ::10].any()
    assert any("3 of 30 rows have no target" in note for note in data.notes)


def test_codes_with_leading_zeros_stay_codes_in_ids_features_and_classes():
    nodes, edges = tables()
    names = {name: f"{row:03d}" for row, name in enumerate(nodes.id)}
    nodes = nodes.assign(
        id=nodes.id.map(names),
        country=np.array(["01067", "10115", "80331"])[np.arange(ROWS) % 3],
        topic=np.array(["01", "10"])[np.arange(ROWS) % 2],
    )
    edges = pd.DataFrame({"from": ["012", "029"], "to": ["001", "020"]})
    data = Tables(*written(nodes, edges), **ROLES)
    assert data.node_ids.tolist() == nodes.id.tolist()
    assert data.class_names == ["01", "10"]
    assert data.batch.x[:3, 3:6].tolist() == torch.eye(3).tolist()
    assert data.batch.graph.edge_index.T.tolist() == [[12, 1], [29, 20]]


def test_numbers_are_predicted_in_the_units_of_the_table():
    nodes, edges = tables()
    roles = {"targets": ["balance"], "features": ["age"], "split": "part"}
    data = Tables(*written(nodes, edges), **roles)
    assert data.batch.y.squeeze().tolist() == pytest.approx(nodes.balance.tolist())
    train = nodes.balance[nodes.part == "train"]
    (scaling,) = data.schema.targets_scaling
    assert scaling.shift == pytest.approx(train.mean())
    assert scaling.scale == pytest.approx(train.std(ddof=0))
    assert data.class_names == ["balance"]


def without(column):
    return lambda nodes: nodes.drop(columns=column)


def cell(column, row, value):
    """Another value in one cell."""

    def change(nodes):
        values = nodes[column].astype(object)
        values.iloc[row] = value
        return nodes.assign(**{column: values})

    return change


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (cell("age", 3, None), {}, "column 'age' has 1 missing values: .*missing: median"),
        (cell("age", 3, "inf"), {}, "column 'age' is infinite in row 3"),
        (
            cell("age", 3, "old"),
            {},
            r"column 'age' has numbers, and text such as 'old': .*to_numeric",
        ),
        (
            lambda n: pd.concat([n, n.assign(id="b" + n.id)]).assign(
                name=[f"name {k}" for k in range(60)]
            ),
            {},
            "'name' is text with 60 different values",
        ),
        (
            cell("joined", 3, "31.12.2020"),
            {},
            r"'joined' has '31.12.2020', and dates .*to_datetime",
        ),
        (lambda n: n.assign(id="n1"), {}, "the id 'n1', which is missing or"),
        (cell("id", 3, "x"), {}, "which is not the id"),
        (cell("part", 3, "later"), {}, "column 'part' has 'later'"),
        (lambda n: n, {"label": "topik"}, "no column 'topik'.*'topic'"),
        (lambda n: n, {"label": "balance"}, "numbers with decimals, .*targets"),
    ],
)
def test_what_pandas_does_not_read_is_refused_by_the_name_of_the_column(change, options, words):
    nodes, edges = tables()
    with pytest.raises(DataError, match=words):
        _ = Tables(*written(change(nodes), edges), **{**ROLES, **options}).batch


# ---- the next table, for a trained model ----


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of the tables, and its predictions for them. It needs no training to be wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("trained"))
        data = Tables(*written(*tables()), **ROLES, **OF_EDGES)
        torch.manual_seed(0)
        model = build_model({"layer": "gcn", "num_layers": 2, "hidden_channels": 8}, data)
        return model, predictions_of(model, data)


def new_nodes(nodes):
    return pd.concat([nodes, nodes[:2].assign(id=["x", "y"], topic=None)])


EQUAL = ""
CHANGES = {
    "columns in another order": (lambda n: n[n.columns[::-1]], EQUAL),
    "rows in another order": (lambda n: n.sample(frac=1, random_state=0), EQUAL),
    "no labels and no split": (without(["topic", "part"]), EQUAL),
    "labels that are numbers": (lambda n: n.assign(topic=range(ROWS)), EQUAL),
    "one more column": (lambda n: n.assign(score=1.5), EQUAL),
    "new nodes": (new_nodes, EQUAL),
    "dates with a time": (lambda n: n.assign(joined=n.joined + "T00:00"), EQUAL),
    "a missing column": (without("age"), "no column 'age'"),
    "a renamed column": (lambda n: n.rename(columns={"age": "years"}), "no column 'age'.*years"),
    "an unknown category": (cell("country", 4, "ES"), "'country' has the unknown category 'ES'"),
    "numbers as text": (lambda n: n.assign(age="old"), "'age' has the type .*to_numeric"),
    "an infinite number": (cell("balance", 2, np.inf), "'balance' is infinite in row 2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_table_has_the_same_predictions_or_is_refused_by_name(trained, name):
    model, expected = trained
    change, refusal = CHANGES[name]
    nodes, edges = tables()
    data = Tables(*written(change(nodes), edges[edges.columns[::-1]]))
    if refusal:
        with pytest.raises(DataError, match=refusal):
            predictions_of(model, data)
        return
    found = predictions_of(model, data).set_index("node")
    pd.testing.assert_frame_equal(
        found.loc[expected.node].reset_index(), expected, check_dtype=False, rtol=1e-5
    )


def test_an_unknown_category_is_none_of_its_values_on_request(trained):
    model, expected = trained
    nodes, edges = tables()
    data = Tables(*written(cell("country", 4, "ES")(nodes), edges))
    x = data.conform_to(model.schema, "ignore", targets=False).batch.x
    assert x[4, 3:6].tolist() == [0, 0, 0]
    assert predictions_of(model, data, "ignore").node.tolist() == expected.node.tolist()


def test_a_model_of_columns_takes_no_arrays_and_a_model_of_arrays_no_tables(trained):
    nodes, edges = tables()
    arrays = {"x": torch.rand(9, 7), "edge_index": torch.zeros(2, 1, dtype=torch.long)}
    with pytest.raises(DataError, match="by name, and x has none.*age, balance"):
        predictions_of(trained[0], arrays)
    model = build_model({"num_layers": 1}, GraphSource({**arrays, "y": torch.arange(9) % 2}))
    with pytest.raises(DataError, match="trained on arrays"):
        predictions_of(model, Tables(nodes, edges))


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        ("gcn", {"label": "topic", "missing": "median", **OF_EDGES}),
        (
            "gat",
            {
                "targets": ["balance"],
                "features": ["age", "country"],
                "edge_features": ["times", "kind"],
            },
        ),
    ],
)
def test_the_reader_beside_an_exported_model_predicts_as_the_model(folder, layer, options):
    nodes, edges = tables()
    nodes.loc[2, "age"] = np.nan if "missing" in options else 30
    roles = {"split": "part", "dates": ["joined"]} | options
    data = Tables(*written(nodes, edges), **roles)
    model = {"layer": layer, "num_layers": 2, "hidden_channels": 8}
    run = gnn_depth.fit(model, data, epochs=1, root="runs", progress=False)
    path = run.export(folder / "risk.pt2").with_suffix(".py")
    spec = importlib.util.spec_from_file_location("risk", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    june, links = tables(1)
    june = june.drop(columns=["topic", "part"]).iloc[:, ::-1].assign(country="IT")
    paths = written(june, links)
    found, wanted = (
        module.predict(*paths),
        run.predict(Tables(*paths)).drop(columns="set", errors="ignore"),
    )
    assert list(found) == list(wanted)
    for name in wanted:
        if wanted[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-6)
        else:
            assert found[name].tolist() == wanted[name].tolist()
    with pytest.raises(ValueError, match="no column 'age'"):
        module.predict(june.drop(columns="age"), links)
    assert "gnn_depth" not in {
        line.split()[1].split(".")[0]
        for line in path.read_text().splitlines()
        if line.startswith(("import", "from"))
    }
