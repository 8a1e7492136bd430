"""What tests of the worker have in common: plugins that do as planned, and who runs them."""

from __future__ import annotations

import pytest

from tests.fakes.planned_plugins import Plan, Planned, World


@pytest.fixture
def plan():
    made = Planned.plan = Plan()
    yield made
    made.release.set()


@pytest.fixture
def world(plan):
    made = World()
    yield made
    plan.release.set()
    made.worker.close()


@pytest.fixture
def hasty(plan):
    """Waits for no task's end."""
    made = World(graceful_ms="300")
    yield made
    plan.release.set()
    made.worker.close()
