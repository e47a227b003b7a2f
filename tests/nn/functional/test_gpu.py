"""The primitives on a GPU, where there is one: ``pytest -m gpu``."""

import pytest
import torch

from tests.nn.functional.cases import CASES, OF_GRAPHS
from tests.nn.functional.graphs import GRAPHS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


#: Each device draws other random numbers; test_gpu_kernels.py compares these on one device.
DRAW = ("dropout", "attend_with_dropout", "attend_linear_with_factor", "attend_additive")


@pytest.mark.parametrize("name", [name for name in OF_GRAPHS if name not in DRAW])
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_gpu_computes_what_a_cpu_does(name, kind):
    case, graph = CASES[name], GRAPHS[kind]()
    inputs = case.inputs(graph, 2)
    moved = [value.detach().cuda().requires_grad_() for value in inputs]
    out, of_gpu = case.ours(*inputs, graph), case.ours(*moved, graph.to("cuda"))
    results = [out, *torch.autograd.grad(out.sum(), inputs)]
    of_gpu_results = [of_gpu, *torch.autograd.grad(of_gpu.sum(), moved)]
    for got, wanted in zip(of_gpu_results, results, strict=True):
        # Some gradients are zero but for rounding.
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-12, atol=1e-12)
