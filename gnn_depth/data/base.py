"""What every data set gives: one graph with features, classes and masks, as a DataModule."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import lightning as L
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnn_depth.data.checks import DataError, check_nodes
from gnn_depth.data.fingerprint import fingerprint
from gnn_depth.graph import Graph

Task: TypeAlias = Literal["multiclass", "binary"]


@dataclass(eq=False)  # not frozen: Lightning converts the precision of a batch field by field
class NodeBatch:
    """A graph with features and classes of its nodes, and who is trained, validated and tested on.

    Classes and masks are those of the first nodes, as many as there are; the others, if any, are never read.

    Attributes:
        x: Features; integers where each column is one of a number of values.
        y: Classes, 0 to num_classes - 1.
        graph: The edges.
        train_mask, val_mask, test_mask: Disjoint sets of nodes.
    """

    x: Float[Tensor, "nodes features"] | Int[Tensor, "nodes features"]
    y: Int[Tensor, "read"]
    graph: Graph
    train_mask: Bool[Tensor, "read"]
    val_mask: Bool[Tensor, "read"]
    test_mask: Bool[Tensor, "read"]
    _moved: "dict[torch.device, NodeBatch]" = field(default_factory=dict, init=False, repr=False)

    @property
    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes to train, validate and test on."""
        return self.train_mask, self.val_mask, self.test_mask

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Features, classes, edges and masks."""
        return self.x, self.y, self.graph.edge_index, *self.masks

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "NodeBatch":
        """The batch on another device: itself where it is there, and moved once however often it is asked for."""
        device = torch.empty(0, device=device).device  # cuda is cuda:0
        if self.x.device == device:
            return self
        if device not in self._moved:
            parts = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
            with torch.inference_mode(False):  # what is made in it cannot be trained with later
                moved = {name: part.to(device, non_blocking=non_blocking) for name, part in parts.items()}
            self._moved[device] = replace(self, **moved)
        return self._moved[device]


class Repeated(NamedTuple):
    """What all full batches of a loader have in common, whatever their features are.

    Attributes:
        graph: Their edges, the same object each time.
        read: How many of the first nodes are read.
    """

    graph: Graph
    read: int


class FullBatch:
    """A loader of one batch, the whole graph. A DataLoader would add workers, collation and a sampler to no end.

    Args:
        batch: The graph.
    """

    #: Every process has the same examples, not some of them.
    shared: ClassVar[bool] = True

    def __init__(self, batch: NodeBatch) -> None:
        self.batch = batch

    @property
    def repeated(self) -> Repeated:
        """Its graph."""
        return Repeated(self.batch.graph, len(self.batch.y))

    def __iter__(self) -> Iterator[NodeBatch]:
        yield self.batch

    def __len__(self) -> int:
        return 1


class GraphDataModule(L.LightningDataModule, ABC):
    """A data set whose loaders give :class:`NodeBatch`.

    Whatever the constructor is given it checks at once, before anything is read, drawn or downloaded.
    """

    #: Graphs among which an argument ``name`` chooses.
    names: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def num_classes(self) -> int: ...

    @property
    @abstractmethod
    def num_features(self) -> int | tuple[int, ...]:
        """Width of the node features; of integer features, the number of values of each column."""

    @property
    def class_names(self) -> list[str]:
        """What the classes are called: their numbers, where they have no names."""
        return [str(number) for number in range(self.num_classes)]

    @property
    def node_ids(self) -> np.ndarray | None:
        """What the nodes are called, integers or text; None where they have no names."""
        return None

    @property
    def task(self) -> Task:
        """``binary`` sets are measured by ROC AUC beside accuracy."""
        return "multiclass"

    @property
    @abstractmethod
    def checksum(self) -> str:
        """SHA-256, in hex, of what a training sees of the data: equal for equal data, whatever it is called."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of the data: a model's classes are known by their place alone."""
        return {"class_names": self.class_names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse a checkpoint that was trained on other classes.

        Raises:
            DataError: They are called otherwise here.
        """
        there, here = state_dict["class_names"], self.class_names
        if there != here:
            raise DataError(
                f"the checkpoint was trained on the classes {', '.join(there)}, and this data has {', '.join(here)}."
            )


class NodeDataModule(GraphDataModule):
    """A node classification data set, trained on in full batches.

    A subclass reads the graph in :meth:`load`, which is called once, at the first use of any property that
    needs it; what it returns is checked here.
    """

    #: Whether the features of all nodes outside the training set are unknown: only a set that erases them,
    #: MissingFeatures(rate=1.0), may use such data. Known once the data is loaded.
    train_features_only: bool = False

    @abstractmethod
    def load(self) -> NodeBatch:
        """Read the data.

        Raises:
            ValueError: The files are missing, damaged or inconsistent; the message says what to do.
        """

    @cached_property
    def loaded(self) -> NodeBatch:
        """The whole graph as it was read, for sets that wrap this one."""
        with torch.inference_mode(False):  # a test may come first, and what is read in it cannot be trained with
            batch = self.load()
        check_nodes(batch.x, batch.y, batch.graph.num_nodes, batch.masks)
        return batch

    @property
    def batch(self) -> NodeBatch:
        """The whole graph.

        Raises:
            DataError: The data is missing, damaged or inconsistent, or is not fit for use as it is.
        """
        batch = self.loaded
        if self.train_features_only:
            raise DataError(
                f"these files of {type(self).__name__} have the features of the training nodes only, so they serve "
                "only the setting that erases all others.\n"
                "Wrap the set in MissingFeatures with rate 1.0, or point root at the complete files."
            )
        return batch

    @property
    def num_features(self) -> int:
        """Width of the node features."""
        return self.batch.x.shape[1]

    @property
    def checksum(self) -> str:
        return fingerprint(*self.batch.parts)

    def train_dataloader(self) -> FullBatch:
        return FullBatch(self.batch)

    def val_dataloader(self) -> FullBatch:
        return FullBatch(self.batch)

    def test_dataloader(self) -> FullBatch:
        return FullBatch(self.batch)

    def predict_dataloader(self) -> FullBatch:
        return FullBatch(self.batch)
