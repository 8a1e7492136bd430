"""What every contract suite needs: one real cluster for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mm2.sandbox import cluster


@pytest.fixture(scope="session")
def east() -> Iterator[cluster.Cluster]:
    with cluster.Cluster("east", settings={"message.max.bytes": "200000"}) as running:
        yield running
