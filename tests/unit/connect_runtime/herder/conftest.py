from __future__ import annotations

import pytest

from connect_runtime.herder import blocking_actions
from tests.fakes.herding import Cluster


@pytest.fixture
def impatient(monkeypatch):
    """Connectors are given up on at once. Only for those that wait for the test anyway."""
    monkeypatch.setattr(blocking_actions, "GENERATE_TIMEOUT_S", 0.05)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.stop()
