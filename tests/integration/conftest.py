"""What tests of workers share; each file has its own `group`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox import cluster
from tests.support import connect_workers, watched


@pytest.fixture
def worker(group: connect_workers.Group) -> connect_workers.Worker:
    return group["one"]


@pytest.fixture
def make(
    east: cluster.Cluster,
    topic: Callable[..., str],
    worker: connect_workers.Worker,
    tmp_path: Path,
) -> Iterator[watched.Make]:
    with watched.connectors(east, topic, worker=worker, folder=tmp_path) as making:
        yield making
