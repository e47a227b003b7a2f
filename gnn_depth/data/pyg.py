"""Any data set of PyTorch Geometric, and ``Data`` objects from Python."""

import importlib
import inspect
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import MASKS, SPLITS, DataError, check_fractions
from gnn_depth.data.downloads import resolve_root
from gnn_depth.data.draws import fraction_split
from gnn_depth.data.graph_sets import GraphSet, side_by_side
from gnn_depth.ranges import Count, FilePath, Natural, Probability, in_range
from gnn_depth.registry import register, unknown


class PyGData(GraphSet):
    """Graphs given in Python: one ``Data`` of PyTorch Geometric, or several.

    Targets are one for each node or one for each graph; the task follows from their type and shape.
    Masks of a single graph (``train_mask``, ``val_mask``, ``test_mask``) are used unless a split is
    given.

    Args:
        data: A ``Data`` object, or a list or data set of them.
        split: Numbers of the nodes or graphs under ``train``, ``val`` and ``test``, or masks of
            them.
        mask_column: Which split to use, where the masks of the data have several columns.
        train_fraction: Fraction to train on, where neither masks nor a split are given.
        val_fraction: Fraction to validate on; the rest is the test set.
        batch_size: Graphs in a training batch; None for all.
        seed: Determines a random split, and the batches.
        edge_features: Read ``edge_attr`` where the graphs have it; false leaves it out, for layers
            that cannot read it.

    Raises:
        ValueError: A number is out of its range.
    """

    @in_range
    def __init__(
        self,
        data: Any,
        split: Mapping[str, Any] | None = None,
        mask_column: Natural = 0,
        train_fraction: Probability = 0.6,
        val_fraction: Probability = 0.2,
        batch_size: Count | None = None,
        seed: Natural = 0,
        edge_features: bool = True,
    ) -> None:
        super().__init__(batch_size, seed)
        check_fractions(train_fraction, val_fraction)
        self._data = data
        self._class_names: list[str] | None = None
        self.split = split
        self.edge_features = edge_features
        self.mask_column = mask_column
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction

    @property
    def class_names(self) -> list[str]:
        _ = self.loaded
        return self._class_names or super().class_names

    def parts(self) -> dict[str, list[Any]]:
        """The graphs: ``train``, ``val`` and ``test``, where the data set divides them itself, or
        all of them."""
        return {"all": [self._data] if isinstance(self._data, Data) else list(self._data)}

    def load(self) -> NodeBatch:
        parts = self.parts()
        graphs = [data for part in parts.values() for data in part]
        x, y, graph, per_graph = side_by_side(graphs, self.edge_features)
        if (
            y.dim() == 1 and not y.is_floating_point()
        ):  # the values may be -1 and 1, or leave out some
            values, y = torch.unique(y, return_inverse=True)
            self._class_names = list(map(str, values.tolist()))
        if self.split is not None:
            masks = split_masks(len(y), self.split)
        elif len(parts) > 1:
            sizes = [
                len(part) if per_graph else sum(int(data.num_nodes) for data in part)
                for part in parts.values()
            ]
            masks = split_masks(
                len(y), dict(zip(parts, torch.arange(len(y)).split_with_sizes(sizes), strict=True))
            )
        elif not per_graph and all(hasattr(graphs[0], name) for name in MASKS):
            each = [
                torch.cat([self._column(getattr(data, name)) for data in graphs]) for name in MASKS
            ]
            masks = each[0], each[1], each[2]
        else:
            masks = fraction_split(len(y), self.seed, self.train_fraction, self.val_fraction)
        return NodeBatch(x, y, graph, *masks, per_graph=per_graph)

    def _column(self, mask: Tensor) -> Tensor:
        if mask.dim() == 1:
            return mask.bool()
        if self.mask_column >= mask.shape[1]:
            raise DataError(
                f"mask_column must be from 0 to {mask.shape[1] - 1}, not {self.mask_column}."
            )
        return mask[:, self.mask_column].bool()


@register("data", "PyG")
class PyG(PyGData):
    """Any data set of PyTorch Geometric, loaded and cached by itself: ``--data PyG --data.dataset
    TUDataset``.

    Targets are one for each node or one for each graph; the task follows from their type and shape.
    The split is that of the data set (its masks, or its parts ``train``, ``val`` and ``test``),
    that of a file, or a random one. PyTorch Geometric unpickles files, which can run code in them:
    ``--trusted-only`` refuses configs with this class.

    Fey & Lenssen, *Fast Graph Representation Learning with PyTorch Geometric*, ICLR workshop 2019.

    Args:
        dataset: Name of a class of ``torch_geometric.datasets``, or the import path of another one.
        name: Its argument ``name``, if it has one: MUTAG for TUDataset.
        options: Its other arguments.
        root: Folder for its files, in a folder of its name. By default $GNN_DEPTH_DATA, else
            ``~/.cache/gnn_depth``.
        split: JSON file with the numbers of the nodes or graphs under ``train``, ``val`` and
            ``test``.
        mask_column: Which split to use, where the masks of the data have several columns.
        train_fraction: Fraction to train on, where there is no other split.
        val_fraction: Fraction to validate on; the rest is the test set.
        batch_size: Graphs in a training batch, over all processes; None for all.
        seed: Determines a random split, the batches, and a data set that is generated.
        edge_features: Read ``edge_attr`` where the graphs have it; false leaves it out, for layers
            that cannot read it.

    Raises:
        ValueError: There is no such data set or option, or a number is out of its range.
    """

    runs_foreign_code: ClassVar[bool] = True

    def __init__(
        self,
        dataset: str,
        name: str | None = None,
        options: dict[str, Any] | None = None,
        root: FilePath | None = None,
        split: str | None = None,
        mask_column: Natural = 0,
        train_fraction: Probability = 0.6,
        val_fraction: Probability = 0.2,
        batch_size: Count | None = None,
        seed: Natural = 0,
        edge_features: bool = True,
    ) -> None:
        fractions = train_fraction, val_fraction
        super().__init__(
            None, _read_split(split), mask_column, *fractions, batch_size, seed, edge_features
        )
        self.dataset = dataset
        self.name = name
        self._cls = _class(dataset)
        self._takes = inspect.signature(self._cls).parameters
        self._options = dict(options or {}) | ({} if name is None else {"name": name})
        for option in self._options:
            if option not in self._takes and not any(
                one.kind is one.VAR_KEYWORD for one in self._takes.values()
            ):
                raise DataError(unknown(f"option of {dataset}", option, self._takes))
        if "root" in self._takes:
            self._options.setdefault(
                "root", str(resolve_root(root) / "pyg" / dataset.rpartition(".")[2])
            )

    def parts(self) -> dict[str, list[Any]]:
        split = self._takes.get("split")
        if split is None or split.default != "train" or "split" in self._options:
            return {"all": self._made()}
        return {name: self._made(split=name) for name in SPLITS}

    def _made(self, **more: Any) -> list[Any]:
        """Load or generate; a generated set draws from generators of its own."""
        state = random.getstate()
        try:
            with torch.random.fork_rng([]):
                torch.manual_seed(self.seed)
                random.seed(self.seed)
                return list(self._cls(**self._options, **more))
        except TypeError as error:
            raise DataError(f"{self.dataset} refuses its options: {error}.") from error
        finally:
            random.setstate(state)


def split_masks(count: int, split: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of the rows to train, validate and test on, given their numbers or masks.

    Raises:
        DataError: A list is missing, or a number is out of range.
    """
    if set(split) != set(SPLITS):
        raise DataError(
            f"a split has lists called {', '.join(SPLITS)}, not "
            f"{', '.join(map(str, split)) or 'none'}."
        )
    masks = torch.zeros(3, count, dtype=torch.bool)
    for name, mask in zip(SPLITS, masks, strict=True):
        rows = torch.as_tensor(split[name])
        if rows.dtype == torch.bool and rows.shape == mask.shape:
            rows = rows.nonzero().flatten()
        rows = rows.long()
        if len(bad := rows[(rows < 0) | (rows >= count)]):
            raise DataError(f"{name} has row {int(bad[0])}, and rows are 0 to {count - 1}.")
        mask[rows] = True
    return masks[0], masks[1], masks[2]


def _class(dataset: str) -> Any:
    import torch_geometric.datasets

    if "." not in dataset:
        names = torch_geometric.datasets.__all__
        if dataset not in names:
            raise DataError(unknown("dataset", dataset, names))
        return getattr(torch_geometric.datasets, dataset)
    module, _, name = dataset.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise DataError(f"dataset {dataset!r} cannot be imported: {error}.") from error


def _read_split(path: str | None) -> Mapping[str, Sequence[int]] | None:
    if path is None:
        return None
    try:
        content = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"split {path!r} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise DataError(
            f"split {path!r} must be a JSON object with lists called train, val and test."
        )
    return content
