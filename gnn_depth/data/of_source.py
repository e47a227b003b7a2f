"""What a data set that wraps another one says as that one does."""

import numpy as np

from gnn_depth.data.base import NodeDataModule, Task


class OfSource:
    """Classes, ids and task of a data set made from another one, its ``source``: before the base class of the set."""

    source: NodeDataModule

    @property
    def num_classes(self) -> int:
        return self.source.num_classes

    @property
    def class_names(self) -> list[str]:
        return self.source.class_names

    @property
    def node_ids(self) -> np.ndarray | None:
        return self.source.node_ids

    @property
    def task(self) -> Task:
        return self.source.task
