"""What every contract suite needs: a real cluster for all of them, which may be frozen a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster


@pytest.fixture(scope="session")
def contract_cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster("contract", settings={"message.max.bytes": "200000"}) as running:
        yield running
