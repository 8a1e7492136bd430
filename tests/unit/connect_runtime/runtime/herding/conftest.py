from __future__ import annotations

import pytest

from connect_runtime.runtime.herding import connector_calls
from tests.fakes import herding


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(connector_calls, "GENERATE_S", 0.05)


@pytest.fixture
def cluster():
    made = herding.Cluster()
    yield made
    made.stop()
