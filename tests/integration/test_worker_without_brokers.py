"""Brokers that go away under whole workers: all work stops in time, and comes back, each once.

Java: ConnectWorkerIntegrationTest's testBrokerCoordinator, testRequestTimeouts…, and KAFKA-9184.
"""

from __future__ import annotations

import collections

import httpx
import pytest

from tests.support import eventually
from tests.support.connect_workers import Kind
from tests.support.watched import Watched

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(400)]

OURS = Kind.OURS
NAMES = ("one", "two")
TASKS = 4
SESSION_S = 6
WAIT_S = 90.0


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_work_stops_without_a_coordinator_and_comes_back(own_cluster, connect_group, tmp_path, how):
    running = own_cluster()
    group = connect_group(
        running.client_properties(),
        settings={
            "session.timeout.ms": str(SESSION_S * 1000),
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
        },
    )
    group.start_all(dict.fromkeys(NAMES, OURS))
    one = Watched("c", tmp_path, topic="t", tasks_max=str(TASKS), messages="0")
    group["one"].configure("c", one.config())

    def until(condition, what: str) -> None:
        eventually.eventually(
            condition, WAIT_S, lambda: f"{what}: {one.counts()}; {group.log_texts()}"
        )

    def started() -> int:
        return one.count("task.start")

    until(lambda: group["two"].runs("c", tasks=TASKS), "all run")
    before = started()
    running.kill() if how == "killed" else running.freeze()
    until(lambda: one.count("task.stop") == started(), "all have stopped")
    health = group["one"].ask("GET", "/health", timeout=15.0)
    assert health.status_code in (httpx.codes.OK, httpx.codes.INTERNAL_SERVER_ERROR), health.text
    running.start() if how == "killed" else running.unfreeze()
    until(lambda: started() >= before + TASKS, "all run again")
    until(lambda: started() - one.count("task.stop") == TASKS, "and each once")
    until(lambda: group["two"].runs("c", tasks=TASKS), "and say so")
    running_on = collections.Counter(
        each["worker_id"] for each in group["one"].get("/connectors/c/status")["tasks"]
    )
    assert set(running_on.values()) == {TASKS // len(NAMES)}, running_on
    for name in NAMES:
        assert group[name].stop() in (0, 143), group[name].log_text()
    assert one.count("task.stop") == started()
