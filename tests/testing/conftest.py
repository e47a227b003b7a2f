import pytest

from gnn_depth.testing import checks


@pytest.fixture
def not_compiled(monkeypatch):
    """To compile a part takes three times as long as to check all its other properties."""
    for suite in ("COMMON", "OF_GRAPHS"):
        monkeypatch.setattr(
            checks, suite, [each for each in getattr(checks, suite) if each.name != "compile"]
        )
