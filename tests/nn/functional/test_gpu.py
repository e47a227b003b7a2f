"""The primitives on a GPU, where there is one: ``pytest -m gpu``."""

import pytest
import torch

from tests.nn.functional.cases import CASES, OF_GRAPHS, distance
from tests.nn.functional.graphs import GRAPHS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.mark.parametrize("name", [name for name in OF_GRAPHS if "dropout" not in name])
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_gpu_computes_what_a_cpu_does(name, kind):
    case, graph = CASES[name], GRAPHS[kind]()
    inputs = case.inputs(graph, 2)
    moved = [value.detach().cuda().requires_grad_() for value in inputs]
    out, of_gpu = case.ours(*inputs, graph), case.ours(*moved, graph.to("cuda"))
    assert distance([of_gpu.cpu()], [out]) <= 1e-12
    gradients = torch.autograd.grad(out.sum(), inputs)
    of_gpu_gradients = torch.autograd.grad(of_gpu.sum(), moved)
    assert distance([each.cpu() for each in of_gpu_gradients], gradients) <= 1e-12
