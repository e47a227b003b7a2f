"""Every entrance of a graph gives the same record, and the same answer to the same mistake."""

import re

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader, RandomNodeLoader

from gnn_depth.data import DataError, GraphSource, PyG, UserGraph
from gnn_depth.data.checks import MASKS

NAN, INF = float("nan"), float("inf")


def data_of(arrays: dict) -> Data:
    return Data(**{name: torch.as_tensor(value) for name, value in arrays.items()})


class Stored(list):
    """A data set as those of PyTorch Geometric: a list of the graphs in a file."""

    def __init__(self, path: str) -> None:
        super().__init__([torch.load(path, weights_only=False)])


def of_npz(arrays, folder, **options):
    np.savez(folder / "graph.npz", **arrays)
    return UserGraph(str(folder / "graph.npz"), **options)


def of_pt(arrays, folder, **options):
    torch.save(data_of(arrays), folder / "graph.pt")
    return UserGraph(str(folder / "graph.pt"), **options)


def of_data_set(arrays, folder, **options):
    torch.save(data_of(arrays), folder / "stored.pt")
    return PyG(f"{__name__}.Stored", options={"path": str(folder / "stored.pt")}, **options)


def of_object(container):
    """The entrance of a graph in some container."""
    return lambda arrays, _, **options: GraphSource(container(data_of(arrays)), **options)


ENTRANCES = {
    "Data": of_object(lambda data: data),
    "list": of_object(lambda data: [data]),
    "Batch": of_object(lambda data: Batch.from_data_list([data])),
    "DataLoader": of_object(lambda data: DataLoader([data])),
    "dict": lambda arrays, _, **options: GraphSource(arrays, **options),
    "npz": of_npz,
    "pt": of_pt,
    "data set": of_data_set,
}


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
    return shown | {"names": data.class_names, "task": data.task, "of": data.per_graph}


def answer(entrance: str, arrays: dict, folder, **options) -> tuple[object, str]:
    """What an entrance makes of a graph: its facts or its refusal without the file, and notes."""
    data = ENTRANCES[entrance](arrays, folder, **options)
    try:
        return facts(data), "\n".join(data.notes)
    except DataError as error:
        return re.sub(r"^graph '[^']*' is refused: ", "", str(error)), ""


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
    """The graph with other arrays; None leaves one out."""
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
    "a single class": changed(y=np.zeros(20, int)),
    "an infinite target": changed(y=np.array([0.5] * 19 + [INF])),
    "a NaN feature": at("x", (3, 1), NAN),
    "an infinite feature": at("x", (3, 1), INF),
    "a feature beyond float32": at("x", (3, 1), 1e300),
    "a negative weight": at("edge_weight", 3, -1.0),
    "an infinite feature of an edge": at("edge_attr", (3, 1), INF),
    "an edge out of range": at("edge_index", (0, 3), 20),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_refusal_at_every_entrance(tmp_path, mistake):
    said = {answer(name, MISTAKES[mistake], tmp_path)[0] for name in ENTRANCES}
    (refusal,) = said
    assert isinstance(refusal, str)  # else it was accepted


ONE = data_of(random_graph())
FIRST = {"train_mask": np.arange(20) == 0, "val_mask": np.arange(20) == 1}
NOTES = {
    "no masks": (random_graph(), {}, "drawn at random with seed 0"),
    "NaN": (random_graph(y="some numbers"), {}, "4 of 20 rows have no target"),
    "a class without training rows": (
        changed(**FIRST, test_mask=np.arange(20) > 1),
        {},
        "no training row has the class '1', '2'",
    ),
    "features that lose digits": (at("x", (3, 1), 16777217.0), {}, "float32 rounds it to 16777216"),
    "columns of other sizes": (at("x", (3, 1), 1e9), {}, "differ in size by a factor above 100"),
    "no x": (changed(x=None, num_nodes=20), {}, "no x: every node gets the feature 1"),
    "integers": (changed(x=np.arange(20) % 3), {}, "becomes one-hot with 3 columns"),
    "several masks": (
        changed(**{name: np.eye(20).astype(bool) for name in MASKS}, y=np.arange(20) % 2)
        | {"train_mask": np.tile(np.arange(20)[:, None] < 9, 20)}
        | {"val_mask": np.tile(np.arange(20)[:, None] == 9, 20)}
        | {"test_mask": np.tile(np.arange(20)[:, None] > 9, 20)},
        {},
        "20 splits: the first",
    ),
    "attributes that no model reads": (
        changed(edge_type=np.zeros(60), pos=np.ones((20, 3))),
        {},
        "not read: edge_type, pos",
    ),
    "a part without a target": (
        changed(y=np.array([-1, 0, 1, 2] * 5)),
        {"split": {"train": [1, 2, 3], "val": [0, 4], "test": [5]}},
        "none of the rows of val has a target",
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_was_decided_is_told_in_one_line(case):
    arrays, options, words = NOTES[case]
    data = GraphSource(arrays, **options)
    assert re.search(words, "\n".join(data.notes))
    assert len(data.batch.y) == 20


def test_rows_of_minus_one_are_in_no_mask_and_no_class():
    batch = GraphSource(random_graph(y="unlabelled")).batch
    unlabelled = torch.tensor(random_graph(y="unlabelled")["y"]) == -1
    assert not (torch.stack(batch.masks).any(0) & unlabelled).any()
    assert GraphSource(random_graph(y="unlabelled")).class_names == ["0", "1", "2"]
    assert GraphSource(random_graph(y="signs")).class_names == ["-1", "1"]  # two classes


def test_a_split_is_a_column_of_masks_or_shares():
    masks = {
        name: np.stack([np.arange(20) % 3 == k, np.arange(20) % 3 == 2 - k], 1)
        for k, name in enumerate(MASKS)
    }
    second = GraphSource(changed(**masks), split=1).batch
    assert torch.equal(second.train_mask, torch.tensor(masks["train_mask"][:, 1]))
    shares = GraphSource(random_graph(), split=[0.5, 0.3]).batch
    assert [int(mask.sum()) for mask in shares.masks] == [10, 6, 4]
    for wrong in ([0.9, 0.3], [0.5]):
        with pytest.raises(ValueError, match=r"split|fraction"):
            GraphSource(random_graph(), split=wrong)


def side_by_side(**changes) -> list[Data]:
    """Three graphs, the second of which is changed; None leaves an array out."""
    graphs = []
    for number in range(3):
        arrays = random_graph(number, nodes=4 + number, masks=True)
        graphs.append(data_of(arrays))
    for name, value in changes.items():
        graphs[1][name] = value
    return graphs


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (side_by_side(val_mask=None), "graph 1 has no val_mask"),
        (side_by_side(x=torch.ones(5, 2)), r"x of graph 1 has shape \(5, 2\)"),
        (side_by_side(edge_index=torch.full((2, 15), 5)), r"graph 1: edge 0 is \(5, 5\).*0 to 4"),
        (Data(x=ONE.x, y=ONE.y[None], edge_index=ONE.edge_index), "1 rows of targets"),
        (RandomNodeLoader(ONE, num_parts=2), r"item 0 is a int, not a graph.*loader\.data"),
        (changed(batch=torch.full((20,), -1)), "several graphs: give a Batch"),
        (changed(x=torch.tensor([0] * 19 + [2**40])), r"one-hot.*x\.float\(\)"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_way_out(data, words):
    with pytest.raises(DataError, match=words):
        _ = GraphSource(data).batch


def test_files_that_would_run_code_or_are_damaged_are_refused(tmp_path, payload):
    make, mark = payload
    np.savez(tmp_path / "g.npz", **{**random_graph(), "y": np.array([make()], object)})
    torch.save({"x": make()}, tmp_path / "g.pt")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "g.npz").read_bytes()[:99])
    for name in ("g.npz", "g.pt", "cut.npz"):
        with pytest.raises(DataError, match="not loaded"):
            _ = UserGraph(str(tmp_path / name)).batch
    assert not mark.exists()
