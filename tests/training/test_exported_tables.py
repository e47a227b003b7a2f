"""The file beside an exported model reads raw tables as ``predict`` does, without this package."""

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gnn_depth
from gnn_depth.data import UserGraph
from gnn_depth.data.targets import MISSING
from gnn_depth.training import exported_tables

NODES, EDGES = 40, 90
OPTIONS = {
    "categories": ["region", "code"],
    "dates": {"opened": "days", "born": "cyclic", "seen": "days"},
    "fill": "median",
    "standardize": {"age": "robust", "debt": "log1p", "*": "standard"},
}


def tables(seed: int, blank: bool = True) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of nodes and edges, with values of each kind; with a row of blanks among them."""
    rng = np.random.default_rng(seed)
    days = [pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=NODES), "D")] * 3
    nodes = pd.DataFrame(
        {
            "customer": [f"{number:03}" for number in rng.permutation(NODES)],
            "age": np.where(rng.random(NODES) < 0.2, np.nan, rng.normal(45, 12, NODES).round()),
            "debt": rng.normal(0, 1e4, NODES).round(2),
            "income": rng.lognormal(9, 1, NODES),
            "is_new": rng.random(NODES) < 0.5,
            "region": rng.choice(["north", "south", "NA"], NODES),
            "code": rng.choice(["01", "1", "2"], NODES),
            "opened": days[0].strftime("%Y-%m-%d"),
            "born": days[1].strftime("%Y-%m-%dT12:30"),
            "seen": days[2].strftime("%Y%m%d"),
            "risk": rng.choice(["low", "high"], NODES),
            "price": rng.normal(1e9, 1e8, NODES),
        }
    )
    if blank:
        nodes.loc[2, ["region", "opened", "born", "seen"]] = ""
    ends = rng.integers(NODES, size=(EDGES, 2))
    edges = pd.DataFrame(nodes["customer"].to_numpy()[ends], columns=["payer", "payee"])
    edges["amount"] = rng.lognormal(3, 1, EDGES)
    edges["kind"] = rng.choice(["cash", "card"], EDGES)
    return nodes, edges


def written(folder: Path, nodes: pd.DataFrame, edges: pd.DataFrame, name: str) -> tuple[str, str]:
    paths = str(folder / f"nodes_{name}.csv"), str(folder / f"edges_{name}.csv")
    nodes.to_csv(paths[0], index=False)
    edges.to_csv(paths[1], index=False)
    return paths


def imported(path):
    spec = spec_from_file_location("exported_model", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported(folder: Path, model: dict, blank: bool = True, **options):
    """A run on tables of May, and the module beside its export."""
    nodes, edges = written(folder, *tables(0, blank), "may")
    data = UserGraph(edges, nodes=nodes, **{**OPTIONS, **options})
    model = {"num_layers": 1, "hidden_channels": 8, **model}
    run = gnn_depth.fit(model, data, epochs=1, root=str(folder / "runs"), progress=False)
    return run, imported(run.export(folder / "model.pt2").with_suffix(".py"))


def agree(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    wanted = wanted.drop(columns="set", errors="ignore")  # which only the run's folder knows
    assert list(found) == list(wanted)
    for name in wanted:
        if wanted[name].dtype.kind == "f":
            scale = wanted[name].abs().max()
            np.testing.assert_allclose(found[name] / scale, wanted[name] / scale, atol=1e-5)
        else:
            assert found[name].tolist() == wanted[name].tolist()


def june(folder: Path, name: str = "june") -> tuple[pd.DataFrame, pd.DataFrame, str, str]:
    nodes, edges = tables(1)
    nodes = nodes.drop(columns=["risk", "price"]).iloc[:, ::-1]
    return nodes, edges, *written(folder, nodes, edges, name)


WAYS = {
    "weights": ({}, {"edge_weight": "amount", "repeated_edges": "sum", "undirected": True}),
    "sums": (
        {"layer": "gat"},
        {
            "edge_features": ["amount", "kind"],
            "edge_standardize": "log1p",
            "repeated_edges": "sum",
            "undirected": True,
        },
    ),
    "means, normalized": (
        {"layer": "gin"},
        {
            "normalize_features": True,
            "standardize": "none",
            "edge_weight": "amount",
            "edge_features": ["kind"],
            "repeated_edges": "mean",
        },
    ),
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """``run_of(way)``: a run and the module beside its export, which are made once."""

    @cache
    def make(way: str):
        model, options = WAYS[way]
        folder = tmp_path_factory.mktemp(way)
        return exported(folder, model, label="risk", drop=["price"], **options)

    return make


@pytest.mark.parametrize("way", WAYS)
def test_raw_tables_get_the_predictions_of_the_run(run_of, tmp_path, way):
    run, module = run_of(way)
    nodes, edges, nodes_path, edges_path = june(tmp_path)
    wanted = run.predict(UserGraph(edges_path, nodes=nodes_path, id="customer"))
    assert wanted["probability"].nunique() > NODES / 2
    agree(module.predict(nodes_path, edges_path), wanted)
    agree(module.predict(nodes, edges), wanted)


@pytest.mark.parametrize(
    ("separator", "ending"),
    [(";", ".csv"), ("\t", ".csv"), ("|", ".csv"), ("\t", ".tsv"), (",", ".csv.gz"), (" ", ".txt")],
)
def test_a_table_of_other_separators_is_read_as_predict_reads_it(
    run_of, tmp_path, separator, ending
):
    run, module = run_of("weights")
    nodes, edges, *_ = june(tmp_path)
    if ending == ".txt":  # where nothing can be missing
        nodes = nodes.ffill().replace("", "north").assign(opened="2020-05-01", seen="20200501")
        nodes = nodes.assign(born="2020-05-01").bfill()
    paths = [str(tmp_path / f"{name}{ending}") for name in ("nodes", "edges")]
    for path, table in zip(paths, (nodes, edges), strict=True):
        table.to_csv(path, index=False, sep=separator)
    wanted = run.predict(UserGraph(paths[1], nodes=paths[0], id="customer"))
    agree(module.predict(*paths), wanted)


def test_integers_that_are_written_as_floats_are_found_among_the_ids(tmp_path):
    nodes, edges = tables(0)
    ids = {"customer": nodes["customer"].astype(int)}
    paths = written(
        tmp_path, nodes.assign(**ids), edges.astype({"payer": int, "payee": int}), "may"
    )
    options = {"label": "risk", "features": ["debt"], "id": "customer", "undirected": True}
    run = gnn_depth.fit(
        {"num_layers": 1},
        UserGraph(paths[1], nodes=paths[0], **options),
        epochs=1,
        root=str(tmp_path / "runs"),
        progress=False,
    )
    module = imported(run.export(tmp_path / "model.pt2").with_suffix(".py"))
    edges = edges.assign(payer=edges["payer"].astype(float), payee=edges["payee"].astype(float))
    paths = written(tmp_path, nodes.assign(**ids), edges, "june")
    assert ".0," in Path(paths[1]).read_text()
    wanted = run.predict(UserGraph(paths[1], nodes=paths[0], id="customer"))
    agree(module.predict(*paths), wanted)


def test_a_row_of_too_many_values_is_refused_and_not_shifted(run_of, tmp_path):
    _, module = run_of("weights")
    paths = june(tmp_path)[2:]
    heading, *rows = Path(paths[0]).read_text().splitlines()
    Path(paths[0]).write_text("\n".join([heading, *(f"{row},1" for row in rows)]))
    with pytest.raises(ValueError, match="rows have more values than the first line has names"):
        module.predict(*paths)


def test_numbers_to_predict_are_in_the_units_of_the_table(tmp_path):
    run, module = exported(
        tmp_path, {}, targets=["price"], drop=["risk"], scale_target="robust", undirected=True
    )
    *_, nodes, edges = june(tmp_path)
    wanted = run.predict(UserGraph(edges, nodes=nodes, id="customer"))
    found = module.predict(nodes, edges)
    assert found["value_price"].mean() > 1e8
    agree(found, wanted)


def test_edges_that_are_written_both_ways_are_not_added_to_themselves(run_of, tmp_path):
    run, module = run_of("weights")
    nodes, edges, *_ = june(tmp_path)
    edges = edges.drop_duplicates(["payer", "payee"])
    edges = edges[edges["payer"] < edges["payee"]]
    reverse = edges.rename(columns={"payer": "payee", "payee": "payer"})
    both = pd.concat([edges, reverse])
    paths = written(tmp_path, nodes, both, "both")
    wanted = run.predict(UserGraph(paths[1], nodes=paths[0], id="customer"))
    agree(module.predict(*paths), wanted)


def test_what_the_model_does_not_know_is_refused_by_name_or_taken_as_predict_does(tmp_path):
    run, module = exported(tmp_path, {}, False, label="risk", fill="error", **KNOWN)
    nodes, edges = tables(1, blank=False)
    nodes = nodes[["customer", "debt", "income", "region", "opened"]]
    for column, value, words in (
        ("region", "east", r"'region': 'east' is no category of the model \(row 3"),
        ("debt", "inf", r"'debt': 'inf' is no number of the model \(row 3"),
        ("income", "", r"'income' is missing \(row 3"),
        ("opened", "31.12.2024", "'opened': '31.12.2024' is no date"),
        ("opened", "1234", "'opened': '1234' is no date"),
        (None, None, "there is no column 'income'"),
    ):
        changed = nodes.astype(object)
        if column is None:
            changed = changed.drop(columns="income")
        else:
            changed.loc[3, column] = value
        paths = written(tmp_path, changed, edges, "changed")
        with pytest.raises(ValueError, match=words):
            module.predict(*paths)
        with pytest.warns(UserWarning, match=words):
            found = module.predict(*paths, unknown="ignore")
        wanted = run.predict(UserGraph(paths[1], nodes=paths[0], id="customer"), "ignore")
        agree(found, wanted)


#: Few columns, none of which may be missing.
KNOWN = {
    "features": ["debt", "income", "opened"],
    "categories": ["region"],
    "dates": "days",
    "standardize": "standard",
}


def test_faults_of_ids_and_edges_are_named(run_of, tmp_path):
    _, module = run_of("weights")
    nodes, edges, *_ = june(tmp_path)
    for changed, of_edges, words in (
        (nodes.rename(columns={"customer": "id"}), edges, "no column 'customer', which had"),
        (pd.concat([nodes, nodes[:1]]), edges, f"row {NODES} .*that of an earlier row"),
        (nodes, edges.replace(edges["payee"][4], "9999"), "'9999': '.*' is no id of a node"),
        (nodes, edges[:0], "two nodes and two edges"),
    ):
        with pytest.raises(ValueError, match=words):
            module.predict(changed, of_edges)
    with pytest.raises(ValueError, match="'error' or 'ignore', not 'skip'"):
        module.predict(nodes, edges, unknown="skip")


def test_the_file_runs_where_this_package_cannot_be_imported(run_of, tmp_path, monkeypatch):
    run, module = run_of("weights")
    nodes, edges, *_ = june(tmp_path)
    nodes.loc[5, "region"] = "east"
    paths = written(tmp_path, nodes, edges, "east")
    wanted = run.predict(UserGraph(paths[1], nodes=paths[0], id="customer"), "ignore")
    # Operations of this package stay known to torch: tests/nn/test_export.py finds none of them.
    for name in list(sys.modules):
        if name.partition(".")[0] in ("gnn_depth", "torch_geometric", "lightning"):
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.warns(UserWarning, match="'east' is no category"):
        agree(imported(module.__file__).predict(*paths, unknown="ignore"), wanted)


def test_the_file_knows_the_marks_of_missing_values():
    assert exported_tables.MISSING == MISSING


def test_models_of_made_features_get_no_file_for_tables(tmp_path):
    nodes, edges = written(tmp_path, *tables(0), "may")
    data = UserGraph(edges, nodes=nodes, label="risk", features=["debt"], make_features="degree")
    run = gnn_depth.fit(
        {"num_layers": 1}, data, epochs=1, root=str(tmp_path / "runs"), progress=False
    )
    run.export(tmp_path / "model.pt2")
    assert not (tmp_path / "model.py").exists()
