"""From two tables to a file of predictions, by the command line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import check_predictions
from tests.cli.conftest import QUIET

TABLES = [
    "--data",
    "UserGraph",
    "--data.path",
    "edges.csv",
    "--data.nodes",
    "nodes.csv",
    "--data.label",
    "topic",
]
TOPICS = ["graph theory", "learning, deep", None]


@pytest.fixture
def of_tables(gnn_depth: Callable, tmp_path: Path) -> Path:
    """A checkpoint of a model of two tables in the working directory; every third node has no
    label."""
    nodes = pd.DataFrame(
        {"paper": [f"p{i:02}" for i in range(30)], "topic": [TOPICS[i % 3] for i in range(30)]}
    )
    nodes.assign(cites=np.arange(30) % 3, year=np.arange(30) / 30).to_csv("nodes.csv", index=False)
    pd.DataFrame({"from": nodes.paper, "to": nodes.paper.shift(-3, fill_value="p00")}).to_csv(
        "edges.csv", index=False
    )
    answer = gnn_depth(
        "fit", *TABLES, *QUIET, "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu"
    )
    assert answer.code == 0, answer.err
    (folder,) = tmp_path.glob("runs/*/*")
    return folder / "checkpoints/best.ckpt"


def test_predictions_have_the_users_ids_and_classes_in_every_format_and_folder(
    gnn_depth: Callable, of_tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    nodes = pd.read_csv("nodes.csv")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for output in ("p.csv", "p.parquet", "p.npz"):
        answer = gnn_depth("predict", *QUIET, "--ckpt_path", str(of_tables), "--output", output)
        assert answer.code == 0, answer.err
        assert f"30 nodes: {output}" in answer.out
    table = pd.read_csv("p.csv")
    chances = ["class_graph theory", "class_learning, deep"]
    assert list(table) == ["node", "predicted", "probability", *chances]
    assert table.node.tolist() == nodes.paper.tolist(), "nodes without a label are predicted, too"
    assert table.probability.tolist() == table[chances].max(axis=1).tolist()
    assert ("class_" + table.predicted).tolist() == table[chances].idxmax(axis=1).tolist()
    np.testing.assert_allclose(table[chances].sum(axis=1), 1, rtol=1e-6)
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), table, check_dtype=False, rtol=1e-7)
    with np.load("p.npz", allow_pickle=False) as arrays:
        assert arrays["nodes"].tolist() == nodes.paper.tolist()
        assert arrays["classes"].tolist() == TOPICS[:2]
        np.testing.assert_array_equal(table[chances].to_numpy(np.float32), arrays["probabilities"])
    assert gnn_depth("test", *QUIET, "--ckpt_path", str(of_tables)).code == 0
    Path("new.csv").write_text((tmp_path / "nodes.csv").read_text().replace("graph theory", "art"))
    words = ["--ckpt_path", str(of_tables), "--data.nodes", "new.csv"]
    answer = gnn_depth("test", *QUIET, *words)
    assert answer.code == 2
    assert "unknown class in 10 rows, first y[0] 'art'" in answer.err
    assert "trained on these classes only" in answer.err
    answer = gnn_depth("predict", *QUIET, *words, "--output", "new.csv.gz")
    assert answer.code == 2
    assert gnn_depth("predict", *QUIET, *words, "--output", "same.csv").code == 0
    pd.testing.assert_frame_equal(pd.read_csv("same.csv"), table), "labels are not read"


def test_parquet_is_refused_before_any_work_where_its_library_is_missing(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'gnn-depth\[parquet\]'"):
        check_predictions("p.parquet")
