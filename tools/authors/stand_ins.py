"""Stand-ins for packages that released code imports and this project does not depend on.

Each has only what the repositories call.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from torch.random import fork_rng
from torch_geometric.utils import scatter


class SparseTensor:
    """Released code asks whether edges are one of these; ours never are."""


class AttrDict(dict[str, Any]):
    """A dictionary whose keys are attributes as well."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error


PACKAGES: dict[str, dict[str, Any]] = {
    "torch_scatter": {
        "scatter": scatter,
        "scatter_add": partial(scatter, reduce="sum"),
        "scatter_mean": partial(scatter, reduce="mean"),
    },
    "torch_sparse": {"SparseTensor": SparseTensor, "set_diag": None},
    "attrdict": {"AttrDict": AttrDict},
}


@contextmanager
def installed() -> Iterator[None]:
    """Let imports find the stand-ins; afterwards forget them and what was imported with them."""
    before = dict(sys.modules)
    for name, content in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(content)
    try:
        with fork_rng([]):
            yield
    finally:
        for name in set(sys.modules) - set(before):
            if not name.startswith(("torch_geometric", "torch.", "numpy", "scipy", "pandas")):
                del sys.modules[name]
