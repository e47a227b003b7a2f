"""Fixtures of the tests that compile."""

import warnings

import pytest
import torch
import torch._dynamo.utils

from gnn_depth.nn.compile.compiled import keep_compiled_code


@pytest.fixture
def compiler():
    """torch.compile, with nothing compiled before."""
    keep_compiled_code()
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what it does itself
        yield
    torch.compiler.reset()
