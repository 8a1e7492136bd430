"""Real brokers that are killed, frozen and started again, as `mm2 run` watches them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from connect_runtime.system import clock, threads
from mm2.app import cluster_watch
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.core import reachability
from tests.support.eventually import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLOCK = clock.SystemClock()
WAIT_S = 60.0


@dataclass
class Running:
    settings: app_settings.Settings


def test_a_cluster_is_unreachable_while_its_only_broker_is_killed_or_frozen(
    own_cluster, east, tmp_path, caplog
):
    """The other cluster of the flow goes on answering."""
    west = own_cluster(name="west")
    text = (
        f"clusters: {{east: {{bootstrap.servers: '{east.bootstrap}'}}, "
        f"west: {{bootstrap.servers: '{west.bootstrap}'}}}}\nflows: [{{from: east, to: west}}]\n"
    )
    running = Running(load.parse(text, file="c", folder=tmp_path, environment={}))
    (flow,) = running.settings.flows
    watch = cluster_watch.ClusterWatch(running, clock=CLOCK)
    caplog.set_level(logging.INFO, logger="mm2.app.cluster_watch")
    failures: list[threads.UnaskedEnd] = []
    owned = threads.Threads(on_unasked_end=failures.append)

    def lost() -> reachability.Unreachable | None:
        found = watch.unreachable(flow)
        assert all(each.side is reachability.Side.TARGET and not each.broker for each in found)
        return found[0] if found else None

    def logged(words: str) -> int:
        return sum(words in each for each in caplog.messages)

    began_ms = CLOCK.wall_ms()
    owned.start("clusters", watch.run)
    try:
        for times, (fails, returns) in enumerate(
            [(west.kill, west.start), (west.freeze, west.thaw)], start=1
        ):
            fails()
            found = eventually(lost, WAIT_S, "west is unreachable")
            assert found.since_ms is not None
            assert began_ms <= found.since_ms <= CLOCK.wall_ms()
            assert found.reason
            began_ms = found.since_ms
            assert logged("west unreachable since ") == times
            returns()
            eventually(lambda: lost() is None, WAIT_S, "west answers again")
            eventually(lambda: logged("west answers again") == times, WAIT_S)  # noqa: B023
        assert logged("east") == 0
    finally:
        assert owned.stop_all(10.0) == []
    assert failures == []
