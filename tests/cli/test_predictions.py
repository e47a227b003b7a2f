"""From two tables to a file of predictions, by the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import QUIET

TABLES = ["nodes.csv", "edges.csv", "--data.label", "topic"]
TOPICS = ["graph theory", "learning, deep", None]


@pytest.fixture
def of_tables(done, tmp_path):
    """A checkpoint of a model of two tables in the working directory; every third node has no
    label."""
    nodes = pd.DataFrame(
        {"paper": [f"p{i:02}" for i in range(30)], "topic": [TOPICS[i % 3] for i in range(30)]}
    )
    nodes.assign(cites=np.arange(30) % 3, year=np.arange(30) / 30).to_csv("nodes.csv", index=False)
    pd.DataFrame({"from": nodes.paper, "to": nodes.paper.shift(-3, fill_value="p00")}).to_csv(
        "edges.csv", index=False
    )
    words = [*TABLES, *QUIET, "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu"]
    done("fit", *words)
    (best,) = tmp_path.glob("runs/*/*/checkpoints/best.ckpt")
    return best


def test_predictions_have_the_users_ids_and_classes_in_every_folder(
    refused,
    done,
    gnn_depth,
    of_tables,
    tmp_path,
    monkeypatch,
):
    nodes = pd.read_csv("nodes.csv")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    answer = done("predict", *QUIET, "--ckpt_path", str(of_tables), "--output", "p.csv")
    assert "30 nodes: p.csv" in answer.out
    table = pd.read_csv("p.csv")
    chances = ["class_graph theory", "class_learning, deep"]
    assert list(table) == ["node", "predicted", "probability", *chances]

    assert table.node.tolist() == nodes.paper.tolist()  # nodes without a label are predicted, too
    assert table.probability.tolist() == table[chances].max(axis=1).tolist()
    assert ("class_" + table.predicted).tolist() == table[chances].idxmax(axis=1).tolist()
    np.testing.assert_allclose(table[chances].sum(axis=1), 1, rtol=1e-6)
    done("test", *QUIET, "--ckpt_path", str(of_tables))
    Path("new.csv").write_text((tmp_path / "nodes.csv").read_text().replace("graph theory", "art"))
    words = ["--ckpt_path", str(of_tables), "--data.nodes", "new.csv"]
    assert "unknown class in 10 rows, first y[0] 'art'" in refused("test", *QUIET, *words)
    assert gnn_depth("predict", *QUIET, *words, "--output", "new.csv.gz").code == 2
    done("predict", *QUIET, *words, "--output", "same.csv")
    pd.testing.assert_frame_equal(pd.read_csv("same.csv"), table), "labels are not read"


def test_new_tables_are_predicted_by_name_and_measured_with_a_warning(
    refused, done, gnn_depth, of_tables
):
    nodes, edges = pd.read_csv("nodes.csv"), pd.read_csv("edges.csv")
    first = ["--ckpt_path", str(of_tables), "--output", "first.csv"]
    done("predict", *QUIET, *first)
    more = pd.concat([nodes, nodes[:2].assign(paper=["new1", "new2"], topic=None)])
    more[["year", "cites", "topic", "paper"]].to_csv("june.csv", index=False)
    edges[["to", "from"]].to_csv("links.csv", index=False)
    words = ["june.csv", "links.csv", *QUIET, "--ckpt_path", str(of_tables)]
    done("predict", *words, "--output", "june_out.csv")
    before, after = pd.read_csv("first.csv"), pd.read_csv("june_out.csv")
    assert after.node.tolist()[-2:] == ["new1", "new2"]
    # Among other nodes nothing is said of sets.
    pd.testing.assert_frame_equal(after[:30], before, rtol=1e-5)
    assert "If nodes of the training are among them" in gnn_depth("test", *words).err
    same = gnn_depth("test", *QUIET, "--ckpt_path", str(of_tables))
    assert "If nodes of the training" not in same.err
    more.drop(columns="year").to_csv("june.csv", index=False)
    assert "there is no column 'year'" in refused("predict", *words, "--output", "none.csv")
