"""Real brokers that are killed, frozen and started again, as `mm2 run` watches them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters.reachability_monitor import ReachabilityMonitor
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.support.eventually import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLOCK = SystemClock()
WAIT_S = 60.0


@dataclass
class Running:
    settings: Mm2Settings


def test_a_cluster_is_unreachable_while_its_only_broker_is_killed_or_frozen(
    own_cluster, east, tmp_path, caplog
):
    """The other cluster of the flow goes on answering."""
    west = own_cluster(name="west")
    text = (
        f"clusters: {{east: {{bootstrap.servers: '{east.bootstrap}'}}, "
        f"west: {{bootstrap.servers: '{west.bootstrap}'}}}}\nflows: [{{from: east, to: west}}]\n"
    )
    running = Running(
        config_loader.parse_clusters_yaml(text, file="c", folder=tmp_path, environment={})
    )
    (flow,) = running.settings.flows
    watch = ReachabilityMonitor(running, clock=CLOCK)
    caplog.set_level(logging.INFO, logger="mm2.clusters.reachability_monitor")
    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)

    def lost() -> UnreachableCluster | None:
        found = watch.list_unreachable_clusters(flow)
        assert all(each.side is ClusterSide.TARGET and not each.broker for each in found)
        return found[0] if found else None

    def logged(words: str) -> int:
        return sum(words in each for each in caplog.messages)

    began_ms = CLOCK.wall_ms()
    owned.start("clusters", watch.run)
    try:
        for times, (fails, returns) in enumerate(
            [(west.kill, west.start), (west.freeze, west.unfreeze)], start=1
        ):
            fails()
            found = eventually(lost, WAIT_S, "west is unreachable")
            assert found.since_ms is not None
            assert began_ms <= found.since_ms <= CLOCK.wall_ms()
            assert found.reason
            began_ms = found.since_ms
            assert logged("west unreachable since ") == times
            returns()
            eventually(lambda: lost() is None, WAIT_S, "west responds again")
            eventually(lambda: logged("west responds again") == times, WAIT_S)  # noqa: B023
        assert logged("east") == 0
    finally:
        assert owned.stop_all(10.0) == []
    assert failures == []
