"""Every entrance of a graph gives the same record, and the same answer to the same mistake."""

import logging
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, RandomNodeLoader

from gnn_depth.data import DataError, GraphSource, SyntheticCitation, UserGraph
from gnn_depth.data.checks import MASKS
from tests.pages import ROOT
from tools.attack.numbers.entrances import ENTRANCES, of_tables

NAN, INF = float("nan"), float("inf")


def random_graph(seed: int = 0, nodes: int = 20, y: str = "classes", masks: bool = False) -> dict:
    """Arrays of a random graph; numbers are multiples of 1/4, which every format keeps."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(nodes, size=(2, 3 * nodes))
    targets = {
        "classes": np.arange(nodes) % 3,
        "unlabelled": np.arange(nodes) % 4 - 1,
        "signs": np.arange(nodes) % 2 * 2 - 1,
        "numbers": rng.integers(-9, 9, nodes) / 4,
        "some numbers": np.where(np.arange(nodes) % 5, rng.integers(-9, 9, nodes) / 4, NAN),
    }
    arrays = {
        "x": rng.integers(-9, 9, (nodes, 3)) / 4,
        "y": targets[y],
        "edge_index": edges,
        "edge_weight": rng.integers(1, 9, 3 * nodes) / 4,
        "edge_attr": rng.integers(-9, 9, (3 * nodes, 2)) / 4,
    }
    if masks:
        part = rng.permutation(nodes) % 4
        arrays |= {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    return arrays


def facts(data: GraphSource) -> dict:
    """Everything that a record holds but the notes, which may name an option of the entrance."""
    batch = data.batch
    tensors = {
        "x": batch.x,
        "y": batch.y,
        "edges": batch.graph.edge_index,
        "masks": torch.stack(batch.masks),
        **batch.graph.of_edges(slice(None)),
    }
    shown = {name: (tensor.dtype, tensor.tolist()) for name, tensor in tensors.items()}
    # Tables name the numbers to predict, too.
    names = data.class_names if data.task == "multiclass" else data.num_classes
    return shown | {"names": names, "task": data.task, "of": data.per_graph}


def answer(entrance: str, arrays: dict, folder, **options) -> tuple[object, list[str]]:
    """What an entrance makes of a graph: its facts or its refusal without the file, and notes."""
    data = ENTRANCES[entrance](arrays, folder, **options)
    try:
        return facts(data), data.notes
    except DataError as error:
        return re.sub(r"^graph '[^']*' is refused: ", "", str(error)), []


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**32 - 1),
    st.integers(4, 30),
    st.sampled_from(["classes", "unlabelled", "signs", "numbers", "some numbers"]),
    st.booleans(),
)
def test_a_graph_is_the_same_through_every_entrance(tmp_path, seed, nodes, y, masks):
    arrays = random_graph(seed, nodes, y, masks)
    found = {name: answer(name, arrays, tmp_path)[0] for name in ENTRANCES}
    for name, record in found.items():
        assert record == found["Data"], name


def changed(**parts) -> dict:
    arrays = random_graph(masks=True) | parts
    return {name: value for name, value in arrays.items() if value is not None}


def at(name: str, place, value) -> dict:
    """The graph with another value in a place."""
    array = np.array(random_graph(masks=True)[name], float if isinstance(value, float) else None)
    array[place] = value
    return changed(**{name: array})


MISTAKES = {
    "train and test masks only": changed(val_mask=None),
    "a train mask only": changed(val_mask=None, test_mask=None),
    "masks overlap": changed(val_mask=np.ones(20, bool)),
    "no training node": changed(train_mask=np.zeros(20, bool)),
    "a negative class": at("y", 3, -2),
    "no label at all": changed(y=np.full(20, -1)),
    "an infinite target": changed(y=np.array([0.5] * 19 + [INF])),
    "a feature beyond float32": at("x", (3, 1), 1e300),
    "a negative weight": at("edge_weight", 3, -1.0),
    "an infinite feature of an edge": at("edge_attr", (3, 1), INF),
    "too many classes": {
        **random_graph(nodes=300),
        "y": np.arange(300),
    },
}
#: Faults of cells that tables name by column and row; networkx orders edges anew.
OF_CELLS = ("an infinite target", "a negative weight", "an infinite feature of an edge")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_at_every_entrance(tmp_path, mistake):
    said = {}
    for name in ENTRANCES:
        if name not in ("tables", "networkx") or mistake not in OF_CELLS:
            said[name], _ = answer(name, MISTAKES[mistake], tmp_path)
    sentences = {re.sub(r" \('x\d'\)", "", str(sentence)) for sentence in said.values()}
    assert len(sentences) == 1, said
    assert isinstance(said["Data"], str), "accepted"


# ---- docs/data_promises.md: each row of its table is a promise of this dict ----

LARGE = np.arange(20) % 3 + 1_700_000_000.0
PROMISES: dict[str, tuple[dict, dict, str]] = {
    "train_mask and test_mask without val_mask": (MISTAKES["train and test masks only"], {}, ""),
    "the same with `val_share`": (
        MISTAKES["train and test masks only"],
        {"val_share": 0.2},
        r"validate \(val_share\)",
    ),
    "train_mask only": (MISTAKES["a train mask only"], {}, ""),
    "no masks": (random_graph(), {}, "drawn at random with seed 0"),
    "overlapping masks, or none to train on": (MISTAKES["masks overlap"], {}, ""),
    "`y` is -1 beside classes 0, 1, ...": (
        random_graph(y="unlabelled"),
        {},
        "5 of 20 nodes have no",
    ),
    "`y` is -1 and 1": (random_graph(y="signs", masks=True), {}, r"(?s)\A(?!.*no target)"),
    "`y` has other negative integers": (MISTAKES["a negative class"], {}, ""),
    "the same with `missing_label`": (
        MISTAKES["a negative class"],
        {"missing_label": -2.0},
        "1 of 20 nodes have no target",
    ),
    "`y` is NaN in whole rows of numbers": (
        random_graph(y="some numbers"),
        {},
        "4 of 20 nodes have no",
    ),
    "no row has a target": (MISTAKES["no label at all"], {}, ""),
    "`y` holds floats 0.0, 1.0, 2.0": (
        changed(y=np.arange(20) % 3 + 0.0),
        {},
        r"numbers to predict\. If they are classes",
    ),
    "nearly as many classes as rows": (MISTAKES["too many classes"], {}, ""),
    "a single class": (changed(y=np.zeros(20, int)), {}, "only one class"),
    "a single number to predict": (changed(y=np.full(20, 0.5)), {}, "target is 0.5 in all 20"),
    "a class without training rows": (
        changed(
            train_mask=np.arange(20) == 0,
            val_mask=np.arange(20) == 1,
            test_mask=np.arange(20) > 1,
        ),
        {},
        "no training row has the class '1', '2'",
    ),
    "a class without validation or test rows": (
        changed(
            train_mask=np.arange(20) < 18,
            val_mask=np.arange(20) == 18,
            test_mask=np.arange(20) == 19,
        ),
        {},
        r"no validation row has the class '1', '2': the best epoch(.|\n)*no test row",
    ),
    "targets that float32 makes equal": (changed(y=LARGE), {}, "cannot tell apart, such as 17"),
    "targets or features beyond float32": (MISTAKES["a feature beyond float32"], {}, ""),
    "features that lose digits in float32": (
        at("x", (3, 1), 16777217.0),
        {},
        "float32 rounds it to 16777216",
    ),
    "columns of x that differ by a factor above 100": (
        at("x", (3, 1), 1e9),
        {},
        "very different size",
    ),
}


def promised() -> dict[str, str]:
    """What the page says happens, by what is given."""
    rows = {}
    for line in (ROOT / "docs/data_promises.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[1].split(":")[0] in ("refused", "said", "taken"):
            rows[cells[0]] = cells[1].split(":")[0]
    return rows


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_keeps_the_promises_of_the_documentation(tmp_path, entrance):
    outcomes = promised()
    for row, (arrays, options, words) in PROMISES.items():
        answered, notes = answer(entrance, arrays, tmp_path, **options)
        if outcomes[row] == "refused":
            assert isinstance(answered, str), row
            continue
        assert not isinstance(answered, str), (row, answered)
        assert re.search(words, "\n".join(notes)), (row, notes)


def side_by_side(**changes) -> list[Data]:
    """Three graphs, the second of which is changed; None leaves an array out."""
    graphs = []
    for number in range(3):
        arrays = random_graph(number, nodes=4 + number, masks=True)
        graphs.append(Data(**{name: torch.as_tensor(value) for name, value in arrays.items()}))
    for name, value in changes.items():
        graphs[1][name] = value
    return graphs


def hetero() -> HeteroData:
    data = HeteroData()
    data["a"].x = torch.ones(2, 1)
    data["a", "to", "a"].edge_index = torch.zeros(2, 1, dtype=torch.long)
    return data


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(20, 1), 1, 0, torch.qint8)


ONE = Data(**{name: torch.as_tensor(value) for name, value in random_graph().items()})
REFUSED = {
    "x, masks, weights or y in some graphs of a list only": [
        (side_by_side(x=None), "graph 1 has no x, and graph 0 has one"),
        (side_by_side(val_mask=None), "graph 1 has no val_mask, and graph 0"),
        (side_by_side(edge_weight=None), "graph 1 has no edge_weight, and graph 0"),
        (side_by_side(y=None), "graph 1 has no y"),
    ],
    "graphs with other columns": [
        (side_by_side(x=torch.ones(5, 2)), r"x of graph 1 has shape \(5, 2\)"),
    ],
    "an edge that leaves its graph": [
        (side_by_side(edge_index=torch.full((2, 15), 5)), r"graph 1: edge 0 is \(5, 5\).*0 to 4"),
        (Data(x=ONE.x[:0], y=ONE.y[:0], edge_index=ONE.edge_index), r"edge 0 .*are no nodes"),
    ],
    "`y` of shape (1, nodes)": [
        (Data(x=ONE.x, y=ONE.y[None], edge_index=ONE.edge_index), r"y\.flatten\(\)"),
    ],
    "HeteroData": [
        (hetero(), r"HeteroData.*to_homogeneous\(\)"),
        ([hetero()], r"item 0 of the list.*to_homogeneous\(\)"),
    ],
    "a tuple or list of tensors, an array, one DataFrame": [
        (pd.DataFrame({"a": [1]}), r"DataFrame is no graph: .*UserGraph\(edges, nodes=nodes"),
        ((ONE.x, ONE.edge_index), r"item 0 of the tuple: a Tensor.*Data\(x=x"),
        (np.ones((2, 2)), r"ndarray.*Data\(x=x"),
        (3, r"int.*networkx"),
    ],
    "a loader that draws parts of one graph": [
        (RandomNodeLoader(ONE, num_parts=2), r"RandomNodeLoader.*loader\.data"),
    ],
    "tensors without values, quantised or complex": [
        (dict(ONE.to_dict(), x=torch.ones(20, 1, device="meta")), "x has no values.*meta"),
        (
            dict(ONE.to_dict(), x=quantised()),
            r"x\.dequantize\(\)",
        ),
        (dict(ONE.to_dict(), x=ONE.x * 1j), "x is complex"),
    ],
    "a mask called `valid_mask`": [
        (
            dict(ONE.to_dict(), train_mask=ONE.y == 0, valid_mask=ONE.y == 1, test_mask=ONE.y == 2),
            "val_mask is not: .* valid_mask is not read. If it is meant as val_mask",
        ),
    ],
    "a masked array of NumPy": [
        (dict(ONE.to_dict(), y=np.ma.masked_less(np.arange(20), 3)), r"y is a masked.*filled"),
    ],
    "integers beyond int64": [
        (dict(ONE.to_dict(), y=np.full(20, 2**63, np.uint64)), "y holds integers above"),
        (dict(ONE.to_dict(), x=torch.tensor([[2**63]] * 20, dtype=torch.uint64)), "x holds int"),
    ],
    "edges that are true or false": [
        (dict(ONE.to_dict(), edge_index=ONE.edge_index > 3), "edge_index must be integers"),
    ],
    "`num_nodes` or `batch` that are no whole numbers": [
        (dict(ONE.to_dict(), num_nodes=20.5), r"num_nodes must be a whole number.*20\.5"),
        (dict(ONE.to_dict(), num_nodes="20"), "num_nodes must be a whole number"),
        (dict(ONE.to_dict(), batch=torch.full((20,), 0.5)), "batch must have whole numbers"),
        (dict(ONE.to_dict(), batch=torch.full((20,), -1)), "batch must have whole numbers"),
    ],
    "an edge between two graphs of `batch`": [
        (
            dict(
                ONE.to_dict(),
                batch=torch.arange(20) // 10,
                edge_index=torch.tensor([[0, 9], [1, 10]]),
                edge_weight=None,
                edge_attr=None,
            ),
            r"edge 1 is \(9, 10\), and joins the graphs 0 and 1",
        ),
    ],
    "a column of integers that one-hot would fill the memory": [
        (dict(ONE.to_dict(), x=torch.tensor([0] * 19 + [2**40])), r"one-hot.*x\.float\(\)"),
    ],
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_is_no_graph_is_refused_with_the_way_out(row):
    assert promised()[row] == "refused"
    for data, words in REFUSED[row]:
        with pytest.raises(DataError, match=words):
            _ = GraphSource(data).batch


def taken(data, **options) -> tuple[dict, str]:
    source = GraphSource(data, **options)
    return facts(source), "\n".join(source.notes)


def test_a_batch_and_a_loader_of_batches_are_the_graphs_in_them():
    graphs = side_by_side()
    wanted, _ = taken(graphs)
    batch = Batch.from_data_list(graphs)
    assert GraphSource(batch).batch.graph.num_graphs == 3
    for same in (batch, DataLoader(graphs, batch_size=2), [batch], list(DataLoader(graphs))):
        assert taken(same)[0] == wanted


def test_dense_sparse_and_plain_containers_are_read_alike():
    wanted, _ = taken(ONE)
    as_dict = ONE.to_dict()
    column = dict(as_dict, y=ONE.y[:, None], edge_weight=ONE.edge_weight[:, None])
    for same in (
        dict(as_dict, x=ONE.x.to_sparse()),
        dict(as_dict, x=ONE.x.to_sparse_csr()),
        {name: value.tolist() for name, value in as_dict.items()},
        column,
    ):
        assert taken(same)[0] == wanted


def with_parts(**parts) -> dict:
    arrays = dict(ONE.to_dict(), **parts)
    return {name: value for name, value in arrays.items() if value is not None}


SPLITS = {name: torch.eye(20).roll(by, 0).bool() for by, name in enumerate(MASKS)}
TOLD = {
    "no `x`": (with_parts(x=None), {}, "no x: every node gets the feature 1"),
    "`x` is one column of integers": (
        with_parts(x=torch.arange(20) % 3),
        {},
        "becomes one-hot with 3 columns",
    ),
    "`x` has three dimensions": (
        with_parts(x=torch.ones(20, 2, 2)),
        {},
        "is read as 4 features",
    ),
    "each row of `y` has a single 1": (
        with_parts(y=torch.eye(3)[ONE.y]),
        {},
        r"3 labels.*y\.argmax\(1\)",
    ),
    "masks with several columns": (with_parts(**SPLITS), {}, "20 splits: number 0"),
    "masks, and a split besides": (
        changed(),
        {"split": {"train": [0], "val": [1], "test": [2]}},
        "are not used",
    ),
    "a name that nearly is one that is read": (
        with_parts(edge_weight=None, edge_weights=ONE.edge_weight),
        {},
        "edge_weights is not read",
    ),
    "`missing_label` that no target has": (
        ONE,
        {"missing_label": 9.0},
        r"is 9\.0, and no y has",
    ),
    "`y` of type uint8 has 255": (
        with_parts(y=torch.tensor([255, 0, 1, 2] * 5, dtype=torch.uint8)),
        {},
        "class 255.*missing_label 255",
    ),
    "a part of the split in which no row has a target": (
        with_parts(y=torch.tensor([-1, 0, 1, 2] * 5)),
        {"split": {"train": [1, 2, 3], "val": [0, 4], "test": [5]}},
        "none of the rows of val has a target",
    ),
    "`train_idx`, `split_idx` and the like": (
        with_parts(train_idx=torch.arange(5), split_idx={}, idx_test=[7]),
        {},
        "idx_test and split_idx and train_idx are not read",
    ),
    "a DataLoader": (DataLoader([ONE]), {}, "loader are taken in their order"),
}


@pytest.mark.parametrize("row", TOLD)
def test_what_is_replaced_or_not_read_is_told(row):
    assert promised()[row] == "said"
    data, options, words = TOLD[row]
    assert re.search(words, taken(data, **options)[1])


def test_every_row_of_the_promises_is_tested():
    assert set(promised()) == {*PROMISES, *REFUSED, *TOLD}


def test_text_is_the_names_of_classes_and_other_text_in_a_file_is_passed_over(tmp_path):
    names = np.array(["b", "a", "", "unknown"] * 5)
    np.savez(tmp_path / "g.npz", **{**random_graph(), "y": names, "comment": np.array(["mine"])})
    data = UserGraph(str(tmp_path / "g.npz"), missing_label="unknown")
    assert data.class_names == ["a", "b"]
    assert int(torch.stack(data.batch.masks).sum()) == 10
    assert any("comment holds no numbers" in note for note in data.notes)


def test_columns_that_are_masks_or_called_split_are_the_split_and_no_features(tmp_path):
    arrays = random_graph(masks=True)
    data = of_tables(arrays, tmp_path)
    assert data.num_features == 3
    assert torch.stack(data.batch.masks).tolist() == [arrays[name].tolist() for name in MASKS]
    nodes = (tmp_path / "nodes.csv").read_text().splitlines()
    words = ["split", *["train", "val", "test", ""] * 5]
    (tmp_path / "nodes.csv").write_text(
        "\n".join(
            f"{line.split(',True')[0].split(',False')[0].split(',train_mask')[0]},{word}"
            for line, word in zip(nodes, words, strict=True)
        )
        + "\n"
    )
    options = {"edge_weight": "weight", "label": "y"}
    data = UserGraph(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv"), **options)
    assert [int(mask.sum()) for mask in data.batch.masks] == [5, 5, 5]
    assert data.num_features == 3


def test_notes_are_logged_once_when_data_is_read(caplog):
    with caplog.at_level(logging.WARNING):
        data = GraphSource(ONE)
        _ = data.batch, data.batch, data.notes
    assert [record.message for record in caplog.records] == data.notes


def test_a_data_set_of_this_package_is_its_own_source_and_has_its_own_split():
    data = SyntheticCitation()
    assert GraphSource.of(data) is data
    with pytest.raises(ValueError, match="split and batch_size .*SyntheticCitation"):
        GraphSource.of(data, batch_size=3)


def test_a_cell_of_any_length_is_read(tmp_path):
    data = of_tables(random_graph(masks=True), tmp_path)
    nodes = (tmp_path / "nodes.csv").read_text()
    (tmp_path / "nodes.csv").write_text(nodes.replace("id,", f"{'i' * 131_073},"))
    assert data.batch.x.shape == (20, 3)
