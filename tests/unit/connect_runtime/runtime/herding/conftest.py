from __future__ import annotations

import pytest

from connect_runtime.runtime.herding import connector_calls
from tests.fakes import herding


@pytest.fixture
def impatient(monkeypatch):
    """Connectors are given up on at once. Only for those that wait for the test anyway."""
    monkeypatch.setattr(connector_calls, "GENERATE_S", 0.05)


@pytest.fixture
def cluster():
    made = herding.Cluster()
    yield made
    made.stop()
