"""What holds for every registered data set."""

import inspect

from gnn_depth import data
from gnn_depth.registry import registered

SETS = {
    name: cls
    for name, cls in registered("data").items()
    if cls.__module__.startswith("gnn_depth.data.")
}


def test_every_exported_set_is_registered_under_its_class_name():
    exported = {
        name: getattr(data, name) for name in data.__all__ if inspect.isclass(getattr(data, name))
    }
    sets = {name for name, cls in exported.items() if issubclass(cls, data.GraphDataModule)}
    sets -= {
        "GraphDataModule",
        "NodeDataModule",
        "GraphSource",
        "CheckedGraphs",
    }  # bases, and data that no config can name
    assert {name: cls.__name__ for name, cls in SETS.items()} == {name: name for name in sets}
