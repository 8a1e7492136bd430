from __future__ import annotations

import pytest

from connect_runtime.herder import zombie_fencing
from connect_runtime.herder.zombie_fencing import (
    FencePreviousProducers,
    FencingNotNeeded,
    RecordTaskCount,
)
from connect_runtime.storage.cluster_config_state import ClusterConfigState, ConnectorConfigEntry


@pytest.mark.parametrize(
    ("pending", "producers", "tasks", "plan"),
    [
        (False, 4, 2, FencingNotNeeded()),
        (False, None, 2, FencingNotNeeded()),
        (True, None, 2, RecordTaskCount(2)),
        (True, 1, 1, RecordTaskCount(1)),
        (True, 1, 2, FencePreviousProducers(producers=1, tasks=2, generation=5)),
        (True, 2, 1, FencePreviousProducers(producers=2, tasks=1, generation=5)),
        (True, 3, 0, FencePreviousProducers(producers=3, tasks=0, generation=5)),
    ],
)
def test_only_producers_that_nobody_else_fences_are_fenced(pending, producers, tasks, plan):
    entry = ConnectorConfigEntry(
        config={}, task_count=tasks, generation=5, fencing_pending=pending, fencing_count=producers
    )
    view = ClusterConfigState(entries={"c": entry})
    assert zombie_fencing.plan_producer_fencing(view, "c") == plan
