"""Small stand-ins for packages that released code imports and this project does not depend on.

Each has only what the repositories call, on plain PyTorch.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

REDUCTIONS = {"sum": "sum", "add": "sum", "mean": "mean", "max": "amax", "min": "amin"}


def scatter(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """Reduce the rows of ``src`` that share an index along ``dim``; groups without rows are zero.

    As ``torch_scatter.scatter``: the index may have fewer dimensions than ``src``.
    """
    dim = dim % src.dim()
    if dim_size is None:
        dim_size = int(index.max()) + 1
    # The index belongs to dimension dim; a flat one is the same for all other dimensions.
    while index.dim() < src.dim():
        index = index.unsqueeze(-1 if index.dim() > dim else 0)
    shape = list(src.shape)
    shape[dim] = dim_size
    empty = src.new_zeros(shape)
    return empty.scatter_reduce(
        dim, index.expand_as(src), src, REDUCTIONS[reduce], include_self=False
    )


class SparseTensor:
    """Released code asks whether edges are one of these; ours never are."""


class AttrDict(dict[str, Any]):
    """A dictionary whose keys are attributes as well."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error


def modules() -> dict[str, ModuleType]:
    """The stand-ins by the name that they are imported under."""
    torch_scatter = ModuleType("torch_scatter")
    torch_sparse = ModuleType("torch_sparse")
    attrdict = ModuleType("attrdict")
    contents: dict[ModuleType, dict[str, Any]] = {
        torch_scatter: {
            "scatter": scatter,
            "scatter_add": lambda *given, **named: scatter(*given, **named, reduce="sum"),
            "scatter_mean": lambda *given, **named: scatter(*given, **named, reduce="mean"),
        },
        torch_sparse: {"SparseTensor": SparseTensor, "set_diag": None},
        attrdict: {"AttrDict": AttrDict},
    }
    for module, content in contents.items():
        vars(module).update(content)
    return {module.__name__: module for module in contents}


@contextmanager
def installed() -> Iterator[None]:
    """Let imports find the stand-ins; afterwards forget them and what was imported with them."""
    # PyTorch Geometric looks for the real packages once, so it must not see the stand-ins.
    import torch_geometric.typing  # noqa: F401

    before = dict(sys.modules)
    sys.modules.update(modules())
    try:
        with torch.random.fork_rng([]):
            yield
    finally:
        for name in set(sys.modules) - set(before):
            if not name.startswith(("torch_geometric", "torch.", "numpy", "scipy", "pandas")):
                del sys.modules[name]
