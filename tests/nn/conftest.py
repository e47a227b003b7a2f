"""Fixtures: a graph whose first nodes hear from few others, and a compiler."""

import warnings
from functools import partial

import pytest
import torch
import torch._dynamo.utils
from torch._dynamo import guards
from torch._functorch import config
from torch._inductor import compile_fx

from gnn_depth.graph import Graph
from gnn_depth.nn.variants.compile import keep_compiled_code


def interpret(graph_module, inputs, **options):
    """A graph as Inductor gets it, run operation by operation."""

    def run(args):
        given = list(args)
        args.clear()
        return graph_module(*given)

    run._boxed_call = True
    return run


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.slow)])
def compiler(request, monkeypatch):
    """torch.compile, with nothing compiled before: a graph takes g++ five seconds.

    Interpreted, all is as compiled but the code: what is traced, how it is split in two passes,
    what is kept between.
    """
    # It empties the processor's caches to measure how long guards take.
    monkeypatch.setattr(guards, "profile_guard_manager", lambda *_: 0.0)
    keep_compiled_code()
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    if request.param == "interpreted":
        monkeypatch.setattr(
            compile_fx, "compile_fx", partial(compile_fx.compile_fx, inner_compile=interpret)
        )
    cached = config.patch(enable_autograd_cache=request.param == "compiled")
    with warnings.catch_warnings(), cached:
        warnings.simplefilter("ignore")  # it warns of what it does itself
        yield
    torch.compiler.reset()


#: For what only compiled code shows.
compiled_only = pytest.mark.parametrize("compiler", ["compiled"], indirect=True)


@pytest.fixture
def chain():
    """Edges from later nodes to earlier ones mostly, so that the first nodes do not hear from all
    others."""
    edges = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 3), (7, 4), (8, 5), (0, 2), (2, 2)]
    return Graph(torch.tensor(edges).t(), 9)
