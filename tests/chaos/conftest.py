"""Two clusters of a test's own, and the seed that a chaos test can be repeated with."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


@pytest.fixture
def two_clusters() -> Iterator[tuple[SandboxCluster, SandboxCluster]]:
    """East and west, one broker each, started together; the test may break them."""
    from mm2.sandbox import sandbox_cluster
    from mm2.sandbox.sandbox_cluster import SandboxCluster

    pair = SandboxCluster("east"), SandboxCluster("west")
    try:
        sandbox_cluster.start_clusters(pair)
        yield pair
    finally:
        for each in pair:
            each.close()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Printed with a failure; `MM2_CHAOS_SEED=N` repeats its choices (not its timing)."""
    given = os.environ.get("MM2_CHAOS_SEED")
    chosen = int(given) if given else random.SystemRandom().randrange(1_000_000)
    print(f"{request.node.name}: MM2_CHAOS_SEED={chosen}")  # noqa: T201 - shown when it fails
    return chosen
