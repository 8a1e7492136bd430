"""What tests of workers share; each file has its own `group`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import watched
from tests.support.connect_workers import Group, Worker
from tests.support.watched import Make


@pytest.fixture
def worker(group: Group) -> Worker:
    return group["one"]


@pytest.fixture
def make(
    east: SandboxCluster,
    topic: Callable[..., str],
    worker: Worker,
    tmp_path: Path,
) -> Iterator[Make]:
    with watched.connectors(east, topic, worker=worker, folder=tmp_path) as making:
        yield making
