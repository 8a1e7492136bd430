"""Workers as processes: what tests of whole workers stand on."""

from __future__ import annotations

import pytest

from tests.support import eventually, idle_source
from tests.support.connect_workers import Kind

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(400)]

WAIT_S = 60.0


@pytest.mark.parametrize("kind", [Kind.JAVA], ids=lambda each: each.value)
def test_a_worker_stands_still_stops_dies_and_comes_again(connect_group, kind):
    group = connect_group(settings={"scheduled.rebalance.max.delay.ms": "0"})
    worker = group.start("one", kind)
    worker.configure("many", idle_source.config(tasks=2))

    def all_run() -> None:
        eventually.eventually(lambda: worker.runs("many", tasks=2), WAIT_S, worker.log_text)

    all_run()
    worker.sigstop()
    assert not worker.healthy()
    worker.sigcont()
    eventually.eventually(worker.healthy, WAIT_S, worker.log_text)
    worker.stop()
    assert not worker.runs_process
    worker.start()
    all_run()
    status = worker.get("/connectors/many/status")
    assert {each["worker_id"] for each in status["tasks"]} == {worker.address}
    worker.sigkill()
    assert not worker.runs_process
    worker.start()
    all_run()
