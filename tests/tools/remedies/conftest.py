"""The parts of tools/remedies are registered for these tests, and for no others."""

import pytest

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers the built-in parts)
from gnn_depth import registry
from tests.nn.inits.conftest import data  # noqa: F401  (fixtures)
from tests.training.conftest import make_trainer, tiny  # noqa: F401

built_in = {kind: dict(names) for kind, names in registry._TABLE.items()}
import gnn_depth_remedies  # noqa: E402, F401

WITH_REMEDIES = {kind: dict(names) for kind, names in registry._TABLE.items()}
registry._TABLE.update(built_in)


@pytest.fixture(autouse=True)
def _remedies(monkeypatch):
    monkeypatch.setattr(registry, "_TABLE", WITH_REMEDIES)
