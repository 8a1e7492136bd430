from __future__ import annotations

import pytest

from connect_runtime.core.herder import fencing
from connect_runtime.core.state import cluster_config


@pytest.mark.parametrize(
    ("pending", "producers", "tasks", "plan"),
    [
        (False, 4, 2, fencing.NothingToFence()),
        (False, None, 2, fencing.NothingToFence()),
        (True, None, 2, fencing.OnlyRecord(2)),
        (True, 1, 1, fencing.OnlyRecord(1)),
        (True, 1, 2, fencing.Fence(producers=1, tasks=2, generation=5)),
        (True, 2, 1, fencing.Fence(producers=2, tasks=1, generation=5)),
        (True, 3, 0, fencing.Fence(producers=3, tasks=0, generation=5)),
    ],
)
def test_only_producers_that_nobody_else_fences_are_fenced(pending, producers, tasks, plan):
    entry = cluster_config.ConnectorEntry(
        config={}, task_count=tasks, generation=5, fencing_pending=pending, fencing_count=producers
    )
    view = cluster_config.ClusterConfig(entries={"c": entry})
    assert fencing.plan(view, "c") == plan
